// Package text shortens texts from untrusted sources.
//
// A refusal, a log line or a stored reason may quote data of any publisher, or an error of user code. Each text is cut
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

// Mark is appended by Shorten to a text that it has cut.
const Mark = " …"

// Shorten shortens s to at most n bytes like Cut, and appends Mark, which the n bytes do not include, if it has cut the text.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n) + Mark
}
