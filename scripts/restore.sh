#!/bin/sh
# restore.sh FILE DIR copies a backup made by backup.sh to the empty working directory of a stopped Redis server. Start the
# server with "appendonly no", and then run "CONFIG SET appendonly yes": with an AOF the server would start empty. See
# docs/operations/backup.md.
set -eu
file=${1:?usage: restore.sh FILE DIR} dir=${2:?usage: restore.sh FILE DIR}
[ "$(head -c 5 "$file")" = REDIS ] || { echo "restore.sh: $file is not a copy of Redis" >&2; exit 1; }
mkdir -p "$dir"
for old in "$dir/dump.rdb" "$dir/appendonlydir" "$dir/appendonly.aof"; do
  [ ! -e "$old" ] || { echo "restore.sh: $old exists; restore into an empty directory" >&2; exit 1; }
done
cp "$file" "$dir/dump.rdb.part"
mv "$dir/dump.rdb.part" "$dir/dump.rdb"
