#!/bin/sh
# redis-start.sh ARG… starts redis-server with ARG… in the working directory, which contains its AOF. First it removes an
# incomplete transaction at the end of the AOF. Redis only truncates the incomplete command, keeps the beginning of the
# transaction, and would execute it at the next but one restart, so that histories contained events twice. An AOF that is
# damaged in another way is left unchanged: redis-server refuses to start with it, and the operator decides.
set -eu
manifest=appendonlydir/appendonly.aof.manifest
if [ -e "$manifest" ] && ! report=$(redis-check-aof "$manifest" </dev/null 2>&1); then
  case $report in
    *"format error"* | *"Expected prefix"* | *'Expected \r\n, got: '[!0]*)
      echo "redis-start.sh: $manifest is damaged beyond an incomplete end, leaving it unchanged" >&2 ;;
    *)
      echo "redis-start.sh: removing the incomplete end of the AOF" >&2
      echo y | redis-check-aof --fix "$manifest" >&2 ;;
  esac
fi
exec redis-server "$@"
