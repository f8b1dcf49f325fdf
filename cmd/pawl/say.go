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
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// second is when without the milliseconds, for a column.
func second(t time.Time) string {
	text, _, _ := strings.Cut(when(t), ".")
	return text
}

// since is the time between two times; until the zero time is until now.
func since(from, until time.Time) string {
	if from.IsZero() {
		return ""
	}
	if until.IsZero() {
		until = time.Now()
	}
	return diagnose.Duration(until.Sub(from))
}
