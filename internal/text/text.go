// Package text bounds what is quoted from outside, in bytes.
//
// A refusal, a log line or a stored reason may quote what any publisher has sent, or what code of an author has returned. Each is cut
// where it leaves Pawl or enters the store: refused inputs by queue (maxProblem), reasons in Redis by store, log attributes by outage,
// failures of code by replay.
package text

import "strings"

// Cut shortens s to at most n bytes, between two characters.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Mark is what Shorten appends to a text that it has cut.
const Mark = " …"

// Shorten is Cut with a Mark behind it, which the n bytes do not include.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n) + Mark
}
