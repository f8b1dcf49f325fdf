package history

import (
	"iter"
	"strings"
)

// Headers travel with a start or an event, and with everything that follows from a start: a trace context, and headers that the
// sender has declared. They are a text with a line "name: value" for each. Empty: none, which costs nothing. See decision 71.
type Headers string

// Names of headers.
const (
	HeaderTraceparent = "traceparent" // W3C Trace Context
	HeaderTracestate  = "tracestate"
	HeaderBaggage     = "baggage"

	HeaderStartSpan = "pawl-span" // id of the start span, set by an orchestrator with a tracer, and by no sender
)

// Bounds of headers, in bytes. What exceeds one is dropped.
const (
	MaxDeclaredHeaders = 8
	maxHeaderName      = 64
	maxHeaderValue     = 256
	maxTracestate      = 512
	maxBaggage         = 2 << 10
)

// Get returns the value of a header; "" if there is none. Names are in lower case.
func (h Headers) Get(name string) string {
	for n, v := range h.All() {
		if n == name {
			return v
		}
	}
	return ""
}

// All yields the names and values.
func (h Headers) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(h)) {
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			if ok && !yield(name, value) {
				return
			}
		}
	}
}

// With returns the headers with a value for a name, which may be in any case. A name or value that is not well-formed, or over a
// bound, leaves the headers as they are.
func (h Headers) With(name, value string) Headers {
	name = strings.ToLower(name)
	if !allowedHeader(name, value) {
		return h
	}
	return h.set(name, value)
}

// IsDeclared reports whether a header is one that the sender has declared, rather than a part of the trace context.
func IsDeclared(name string) bool {
	switch name {
	case HeaderTraceparent, HeaderTracestate, HeaderBaggage, HeaderStartSpan:
		return false
	default:
		return true
	}
}

func (h Headers) set(name, value string) Headers {
	var b strings.Builder
	declared := 0
	for n, v := range h.All() {
		if n == name {
			continue
		}
		if IsDeclared(n) {
			declared++
		}
		b.WriteString(n + ": " + v + "\n")
	}
	if IsDeclared(name) && declared == MaxDeclaredHeaders {
		return h
	}
	b.WriteString(name + ": " + value + "\n")
	return Headers(b.String())
}

func allowedHeader(name, value string) bool {
	limit := maxHeaderValue
	switch name {
	case HeaderTraceparent:
		_, ok := ParseTraceparent(value)
		return ok
	case HeaderTracestate:
		limit = maxTracestate
	case HeaderBaggage:
		limit = maxBaggage
	default:
		if name == "" || len(name) > maxHeaderName || strings.HasPrefix(name, "pawl") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	if value == "" || len(value) > limit {
		return false
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}
