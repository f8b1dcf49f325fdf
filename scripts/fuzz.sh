#!/bin/sh
# fuzz.sh DURATION runs every fuzz target of the module for that long, one after another. go test stores a failing input in
# testdata/fuzz of the package. An input is minimized for at most 5 s, so that this does not use up a short DURATION.
#
# Before Go 1.27 the fuzzing coordinator sometimes reports the end of the time as a failure without an input
# (golang/go#75804). Such a target runs once more. Only this message, without a failing input, is tolerated.
set -eu
cd "$(dirname "$0")/.."
time=${1:-30s}
GO=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() { # package, target; also writes the output to $log
	{ $GO test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 5s "$1" 2>&1 && echo "fuzz: passed"; } | tee "$log" || true
	tail -n 1 "$log" | grep -q '^fuzz: passed$'
}

ended() { # whether the only failure is the end of the time
	grep -q '^    context deadline exceeded$' "$log" && ! grep -qE 'Failing input|panic|_test\.go:' "$log"
}

targets=$(grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | sed "s|^|$(dirname "$file") |"
done | sort)
count=$(echo "$targets" | wc -l)
echo "fuzz: $count targets, $time each"
echo "$targets" | while read -r package target; do
	echo "fuzz: $package $target"
	if fuzz "$package" "$target"; then continue; fi
	if ! ended; then exit 1; fi
	echo "fuzz: the coordinator failed at the end of its time; $target runs once more"
	if ! fuzz "$package" "$target" && ! ended; then exit 1; fi
done
