package main

import (
	"regexp"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
)

const maxCell = 120 // bytes of a cell in a table

var packagePrefixes = regexp.MustCompile(`(^|: |; )((pawl|client|queue|embedded|orchestrator|worker|gateway|refused|not found): )+`)

// userMessage formats an error for users: on one line, shortened, and without the names of packages and sentinels.
func userMessage(err error) string {
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	return diagnose.Short(packagePrefixes.ReplaceAllString(text, "$1"), diagnose.MaxText)
}

// formatTime formats a time in UTC with milliseconds. The zero time is empty.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// formatUTC formats a time like formatTime, followed by the zone.
func formatUTC(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatTime(t) + " UTC"
}

// formatSecond formats a time in UTC without milliseconds. The zero time is empty.
func formatSecond(t time.Time) string {
	text, _, _ := strings.Cut(formatTime(t), ".")
	return text
}

// formatElapsed formats the time from one time until another, or until now if that is zero.
func formatElapsed(from, until time.Time) string {
	if from.IsZero() {
		return ""
	}
	if until.IsZero() {
		until = time.Now()
	}
	return diagnose.Duration(until.Sub(from))
}
