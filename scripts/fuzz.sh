#!/bin/sh
# fuzz.sh DURATION: runs every fuzz target of the module for that long, one behind another.
# An input that fails is kept by go test in testdata/fuzz of its package.
set -eu
cd "$(dirname "$0")/.."
time=${1:-30s}
GO=${GO:-go}
targets=$(grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | sed "s|^|$(dirname "$file") |"
done | sort)
count=$(echo "$targets" | wc -l)
echo "fuzz: $count targets, $time each"
echo "$targets" | while read -r package target; do
	echo "fuzz: $package $target"
	$GO test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
done
