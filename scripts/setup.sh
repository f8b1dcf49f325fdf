#!/bin/sh
# What the tests need besides Go: a redis-server. On a Debian-like machine as root it is
# installed; elsewhere one line says what to install.
set -eu
if command -v redis-server >/dev/null 2>&1; then
	exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "setup: installing redis-server" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# The package starts a server of its own; the tests start theirs.
	RUNLEVEL=1 apt-get install -y -qq --no-install-recommends redis-server >/dev/null
	exit 0
fi
echo "setup: redis-server is missing; install Redis 7 (Debian: apt-get install redis-server; macOS: brew install redis)" >&2
exit 1
