package history

import (
	"encoding/hex"
	"strings"
)

// TraceContext is a parsed traceparent.
type TraceContext struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
}

// FlagSampled is the flag of a TraceContext whose spans are recorded.
const FlagSampled = 1

// Sampled reports whether the spans of the trace are recorded.
func (t TraceContext) Sampled() bool { return t.Flags&FlagSampled != 0 }

// String returns the traceparent.
func (t TraceContext) String() string {
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, t.Trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, t.Span[:])
	b = append(b, '-')
	return string(hex.AppendEncode(b, []byte{t.Flags}))
}

// ParseTraceparent parses a traceparent of version 00. ok is false for anything else, and for ids that are all zeros.
func ParseTraceparent(s string) (t TraceContext, ok bool) {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' || strings.ToLower(s) != s {
		return t, false
	}
	var flags [1]byte
	for _, part := range [...]struct {
		to   []byte
		from string
	}{{t.Trace[:], s[3:35]}, {t.Span[:], s[36:52]}, {flags[:], s[53:]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return TraceContext{}, false
		}
	}
	t.Flags = flags[0]
	return t, t.Trace != [16]byte{} && t.Span != [8]byte{}
}

// StartSpan returns the id of the start span in hexadecimal; empty: none.
func (h Headers) StartSpan() string { return h.Get(HeaderStartSpan) }

// Trace returns the trace context of the headers, and the id of the start span. ok is true only if both are present: the owner of the
// instance had a tracer when it received the start, and the start was sampled.
func (h Headers) Trace() (from TraceContext, start [8]byte, ok bool) {
	if h == "" {
		return from, start, false
	}
	from, ok = ParseTraceparent(h.Get(HeaderTraceparent))
	if !ok || !from.Sampled() {
		return from, start, false
	}
	v := h.Get(HeaderStartSpan)
	if len(v) != 2*len(start) {
		return from, start, false
	}
	_, err := hex.Decode(start[:], []byte(v))
	return from, start, err == nil
}
