package history

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// TraceContext is a parsed traceparent.
type TraceContext struct {
	Trace [16]byte
	Span  [8]byte
	Flags byte
}

const sampledFlag = 1

// Sampled reports whether the spans of the trace are recorded.
func (t TraceContext) Sampled() bool { return t.Flags&sampledFlag != 0 }

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

// StartTrace returns the trace id and the start span id of an instance. The trace id applies to a start without a trace context.
func StartTrace(instance string, origin Position) (trace [16]byte, span [8]byte) {
	b := Identity{Instance: instance, Origin: origin}.Append([]byte("pawl.start\x00"))
	sum := sha256.Sum256(b)
	copy(trace[:], sum[:])
	copy(span[:], sum[16:])
	return trace, span
}

// EventSpan returns the span id of a history event.
func EventSpan(id Identity, event uint64) (span [8]byte) {
	b := id.Append([]byte("pawl.event\x00"))
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, event))
	copy(span[:], sum[:])
	return span
}

// StartSpan returns the id of the start span in hexadecimal; empty: none.
func (h Headers) StartSpan() string { return h.Get(HeaderStartSpan) }

// WithStartSpan returns the headers with the start span set. An invalid id leaves them unchanged.
func (h Headers) WithStartSpan(id string) Headers {
	if b, err := hex.DecodeString(id); err != nil || len(b) != 8 {
		return h
	}
	return h.set(HeaderStartSpan, id)
}

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

// Traced returns the headers of a start as an orchestrator with a tracer records them. sample decides about a start without a trace
// context.
func (h Headers) Traced(instance string, origin Position, sample func(trace [16]byte, span [8]byte) bool) Headers {
	trace, span := StartTrace(instance, origin)
	from, ok := ParseTraceparent(h.Get(HeaderTraceparent))
	if !ok {
		from = TraceContext{Trace: trace, Span: span}
		if sample(trace, span) {
			from.Flags = sampledFlag
		}
		h = h.set(HeaderTraceparent, from.String())
	}
	if !from.Sampled() {
		return h
	}
	return h.set(HeaderStartSpan, hex.EncodeToString(span[:]))
}

// Outgoing returns the headers of a message to another instance: those of the sender, with span as the parent; zero: the start span.
func (h Headers) Outgoing(span [8]byte) Headers {
	if h == "" {
		return ""
	}
	var b strings.Builder
	from, start, traced := h.Trace()
	if span == [8]byte{} {
		span = start
	}
	for n, v := range h.All() {
		switch {
		case n == HeaderStartSpan:
			continue
		case n == HeaderTraceparent && traced:
			from.Span = span
			v = from.String()
		}
		b.WriteString(n + ": " + v + "\n")
	}
	return Headers(b.String())
}

// Settles returns the id of the schedule that an event completes, cancels or grants; ok is false for any other event.
func Settles(e Event) (id uint64, ok bool) {
	switch e := e.(type) {
	case *ActivityCompleted:
		return e.Scheduled, true
	case *ActivityFailed:
		return e.Scheduled, true
	case *ActivityCancelRequested:
		return e.Scheduled, true
	case *ChildCompleted:
		return e.Scheduled, true
	case *ChildFailed:
		return e.Scheduled, true
	case *ChildCancelRequested:
		return e.Scheduled, true
	case *Granted:
		return e.Scheduled, true
	default:
		return 0, false
	}
}
