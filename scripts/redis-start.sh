#!/bin/sh
# redis-start.sh ARG… starts redis-server with ARG…, in the working directory that has its AOF, and removes the beginning of a
# transaction at the end of the AOF first. Redis keeps that beginning when it truncates the incomplete command after it, and
# executes it at the restart after the next, so that histories have events twice. An AOF that is damaged in another way is
# left unchanged: redis-server refuses to start with it, and the operator decides.
set -eu
manifest=appendonlydir/appendonly.aof.manifest
if [ -e "$manifest" ] && ! report=$(redis-check-aof "$manifest" </dev/null 2>&1); then
  case $report in
    *"format error"* | *"Expected prefix"* | *'Expected \r\n, got: '[!0]*)
      echo "redis-start.sh: $manifest is damaged, and not only incomplete at its end; left to redis-server" >&2 ;;
    *)
      echo "redis-start.sh: removing what is incomplete at the end of the AOF" >&2
      echo y | redis-check-aof --fix "$manifest" >&2 ;;
  esac
fi
exec redis-server "$@"
