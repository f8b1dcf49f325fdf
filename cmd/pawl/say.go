package main

import (
	"regexp"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
)

const shortCell = 120 // bytes of a cell in a table

// spoken is an error as a person wants it: on one line, not longer than a screen, and
// without the names of the packages that it came through.
func spoken(err error) string {
	packages := regexp.MustCompile(`(^|: |; )((pawl|client|queue|embedded|orchestrator|worker): )+`)
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	return diagnose.Short(packages.ReplaceAllString(text, "$1"), diagnose.MaxText)
}

// when shows Unix milliseconds in UTC; nought is nothing.
func when(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000")
}

// second is when without the milliseconds, for a column.
func second(ms int64) string {
	text, _, _ := strings.Cut(when(ms), ".")
	return text
}

// since is the time from Unix milliseconds until others; until nought is until now.
func since(from, until int64) string {
	if from == 0 {
		return ""
	}
	if until == 0 {
		until = time.Now().UnixMilli()
	}
	return diagnose.Duration(time.Duration(until-from) * time.Millisecond)
}
