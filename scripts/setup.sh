#!/bin/sh
# setup.sh installs what the tests need in addition to Go: redis-server, chromium for the console, luacheck, and a C compiler
# for the race detector. On Debian-like systems as root it installs them; elsewhere it prints what is missing.
set -eu
missing=
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium"
command -v luacheck >/dev/null 2>&1 || missing="$missing lua-check"
command -v "$(${GO:-go} env CC)" >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
if [ -z "$missing" ]; then
	exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "setup: installing$missing" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	# The package would start a Redis server; the tests start their own.
	# shellcheck disable=SC2086 # a list of packages
	RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $missing >/dev/null
	exit 0
fi
echo "setup: missing:$missing; install Redis 7 (Debian: apt-get install redis-server; macOS: brew install redis), Chromium (Debian: apt-get install chromium; macOS: brew install --cask google-chrome), luacheck (Debian: lua-check; macOS: brew install luacheck) and a C compiler (Debian: gcc libc6-dev; macOS: xcode-select --install)" >&2
exit 1
