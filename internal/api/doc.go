// Package api has the JSON forms of what Pawl answers: the command line writes them with --json, and the gateway serves
// them over HTTP. Field names are snake_case. Times are RFC 3339 in UTC with milliseconds, durations are milliseconds in
// fields that end in _ms. Payloads are JSON values; bytes of another content type are a base64 string. A field that has
// nothing to report is left out, unless its comment states otherwise.
package api

import "time"

const timeLayout = "2006-01-02T15:04:05.000Z"

// Timestamp formats a time; the zero time is the empty string.
func Timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// orNull is Timestamp for a field that is null when there is no time.
func orNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := Timestamp(t)
	return &s
}
