package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

const (
	shortCell  = 120   // bytes of a cell in a table
	shortField = 2_000 // bytes of a field that stands alone
)

// spoken is an error as a person wants it: on one line, not longer than a screen, and
// without the names of the packages that it came through.
func spoken(err error) string {
	packages := regexp.MustCompile(`(^|: |; )((pawl|client|queue|embedded|orchestrator|worker): )+`)
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	return short(packages.ReplaceAllString(text, "$1"), shortField)
}

// short cuts a text that is longer than most bytes.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// oneLine is the text of a failure, which may have many lines, for one that has room for one.
func oneLine(s string) string {
	return short(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; "), shortField)
}

// counted is a number of things, in English whose plural has an s.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
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

// spell shows a length of time with as many digits as one looks at.
func spell(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	default:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// since is the time from Unix milliseconds until others; until nought is until now.
func since(from, until int64) string {
	if from == 0 {
		return ""
	}
	if until == 0 {
		until = time.Now().UnixMilli()
	}
	return spell(time.Duration(until-from) * time.Millisecond)
}
