// Package api defines the JSON of Pawl's answers: the command line writes it with --json, and the gateway serves it over
// HTTP. Field names are snake_case. Times are RFC 3339 in UTC with milliseconds; durations are milliseconds, in
// fields whose names end in _ms. Payloads are JSON values; bytes of another content type are base64 strings. Fields without a
// value are left out, unless their comments state otherwise.
package api

import "time"

const timeLayout = "2006-01-02T15:04:05.000Z"

// Timestamp formats a time; it returns "" for the zero time.
func Timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// orNull formats a time for a field that is null without a time.
func orNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := Timestamp(t)
	return &s
}
