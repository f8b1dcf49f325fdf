#!/bin/sh
# backup.sh REDIS_URL DIR copies the data of a Redis master to DIR/pawl-TIME.rdb and prints the name of the file. Run it for
# every master of a cluster. Pass the password in the environment variable REDISCLI_AUTH, not in the URL. See
# docs/operations/backup.md.
set -eu
url=${1:?usage: backup.sh REDIS_URL DIR} dir=${2:?usage: backup.sh REDIS_URL DIR}
umask 077
mkdir -p "$dir"
file=$dir/pawl-$(date -u +%Y%m%dT%H%M%SZ).rdb
trap 'rm -f "$file.part"' EXIT
redis-cli -u "$url" --rdb "$file.part" >/dev/null
[ "$(head -c 5 "$file.part")" = REDIS ] || { echo "backup.sh: $url did not send a copy" >&2; exit 1; }
mv "$file.part" "$file"
echo "$file"
