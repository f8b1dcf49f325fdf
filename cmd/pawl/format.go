package main

import (
	"regexp"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
)

const maxCell = 120 // bytes of a cell in a table

var packagePrefixes = regexp.MustCompile(`(^|: |; )((pawl|client|queue|embedded|orchestrator|worker|gateway|refused|not found): )+`)

// userMessage formats an error for users: on one line, bounded, and without the names of packages and sentinels.
func userMessage(err error) string {
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	return diagnose.Short(packagePrefixes.ReplaceAllString(text, "$1"), diagnose.MaxText)
}

// formatTime formats a time in UTC with milliseconds; zero is empty.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// formatSecond is formatTime without milliseconds, for a column.
func formatSecond(t time.Time) string {
	text, _, _ := strings.Cut(formatTime(t), ".")
	return text
}

// formatElapsed formats the time between two moments. A zero end is now.
func formatElapsed(from, until time.Time) string {
	if from.IsZero() {
		return ""
	}
	if until.IsZero() {
		until = time.Now()
	}
	return diagnose.Duration(until.Sub(from))
}
