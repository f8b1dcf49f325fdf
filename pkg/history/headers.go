package history

import (
	"iter"
	"strings"
)

// Headers are sent with a start or an event, and with all effects of a started instance: a trace context, and headers that the
// sender declared. The text has one line "name: value" per header. An empty text means none, and costs nothing. See decision 71.
type Headers string

// Names of headers.
const (
	HeaderTraceparent = "traceparent" // W3C Trace Context
	HeaderTracestate  = "tracestate"
	HeaderBaggage     = "baggage"

	HeaderStartSpan = "pawl-span" // id of the start span; set by an orchestrator with a tracer, never by a sender
)

// Bounds of headers, in bytes except for MaxDeclaredHeaders. A header that exceeds a bound is dropped.
const (
	MaxDeclaredHeaders = 8
	maxHeaderName      = 64
	maxHeaderValue     = 256
	maxTracestate      = 512
	maxBaggage         = 2 << 10
)

// Get returns the value of a header; "" if there is none. name must be in lower case.
func (h Headers) Get(name string) string {
	for n, v := range h.All() {
		if n == name {
			return v
		}
	}
	return ""
}

// All yields the names and values, in order.
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

// With returns the headers with a header set. The name may be in any case. A name or value that is malformed or exceeds a bound leaves
// the headers unchanged.
func (h Headers) With(name, value string) Headers {
	name = strings.ToLower(name)
	if !allowedHeader(name, value) {
		return h
	}
	rest, declared := h.Without(name), 0
	for n := range rest.All() {
		if IsDeclared(n) {
			declared++
		}
	}
	if IsDeclared(name) && declared == MaxDeclaredHeaders {
		return h
	}
	return rest + Headers(name+": "+value+"\n")
}

// IsDeclared reports whether a header was declared by the sender, rather than being part of the trace context.
func IsDeclared(name string) bool {
	switch name {
	case HeaderTraceparent, HeaderTracestate, HeaderBaggage, HeaderStartSpan:
		return false
	default:
		return true
	}
}

// Without returns the headers without a header. name must be in lower case.
func (h Headers) Without(name string) Headers {
	var b strings.Builder
	for n, v := range h.All() {
		if n != name {
			b.WriteString(n + ": " + v + "\n")
		}
	}
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
