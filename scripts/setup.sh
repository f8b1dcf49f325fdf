#!/bin/sh
# setup.sh installs what the tests need in addition to Go: redis-server, a browser for the console, luacheck, and a C compiler
# for the race detector. On Debian-like systems as root it installs them; elsewhere it prints what is missing.
set -eu
has() { for program; do command -v "$program" >/dev/null 2>&1 && return; done; return 1; }

missing=
has redis-server || missing="$missing redis-server"
has chromium-headless-shell chromium chromium-browser google-chrome || missing="$missing chromium-headless-shell"
has luacheck || missing="$missing lua-check"
has "$(${GO:-go} env CC)" || missing="$missing gcc libc6-dev"

# The headless shell takes half of the processor time of a browser with windows, which suffices where the shell cannot be had.
packages=$missing
if [ -z "$missing" ] && ! has chromium-headless-shell && apt-cache show chromium-headless-shell >/dev/null 2>&1; then
	packages=" chromium-headless-shell"
fi
if [ -z "$packages" ]; then
	exit 0
fi
if [ "$(id -u)" = 0 ] && has apt-get; then
	echo "setup: installing$packages" >&2
	export DEBIAN_FRONTEND=noninteractive
	# The package would start a Redis server; the tests start their own.
	# shellcheck disable=SC2086 # a list of packages
	{ apt-get update -qq && RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $packages >/dev/null; } && exit 0
	[ -z "$missing" ] || exit 1
	echo "setup:$packages was not installed; the tests of the console use another browser" >&2
	exit 0
fi
[ -n "$missing" ] || exit 0
echo "setup: missing:$missing; install Redis 7 (Debian: apt-get install redis-server; macOS: brew install redis), Chromium (Debian: apt-get install chromium-headless-shell; macOS: brew install --cask google-chrome), luacheck (Debian: lua-check; macOS: brew install luacheck) and a C compiler (Debian: gcc libc6-dev; macOS: xcode-select --install)" >&2
exit 1
