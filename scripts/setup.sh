#!/bin/sh
# What the tests need besides Go: a redis-server, a chromium for the console, luacheck, and a C compiler, without which Go has no
# race detector. On a Debian-like machine as root they are installed; elsewhere one line
# names what to install.
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
	# The package of Redis starts a server of its own; the tests start theirs.
	# shellcheck disable=SC2086 # a list of packages
	RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $missing >/dev/null
	exit 0
fi
echo "setup: missing:$missing; install Redis 7 (Debian: apt-get install redis-server; macOS: brew install redis), Chromium (Debian: apt-get install chromium; macOS: brew install --cask google-chrome), luacheck (Debian: lua-check; macOS: brew install luacheck) and a C compiler (Debian: gcc libc6-dev; macOS: xcode-select --install)" >&2
exit 1
