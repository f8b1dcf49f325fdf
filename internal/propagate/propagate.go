// Package propagate passes headers on: from the start of an instance to its effects.
package propagate

import (
	"encoding/hex"
	"strings"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/pkg/history"
)

// WithStartSpan returns the headers with the start span set. An invalid id leaves them unchanged.
func WithStartSpan(h history.Headers, id string) history.Headers {
	if b, err := hex.DecodeString(id); err != nil || len(b) != 8 {
		return h
	}
	return h.Without(history.HeaderStartSpan) + history.Headers(history.HeaderStartSpan+": "+id+"\n")
}

// Traced returns the headers of a start as an orchestrator with a tracer records them. sample decides about a start without a trace
// context.
func Traced(h history.Headers, instance string, origin history.Position, sample func(trace [16]byte, span [8]byte) bool) history.Headers {
	trace, span := effectid.StartTrace(instance, origin)
	from, ok := history.ParseTraceparent(h.Get(history.HeaderTraceparent))
	if !ok {
		from = history.TraceContext{Trace: trace, Span: span}
		if sample(trace, span) {
			from.Flags = history.FlagSampled
		}
		h = h.With(history.HeaderTraceparent, from.String())
	}
	if !from.Sampled() {
		return h
	}
	return WithStartSpan(h, hex.EncodeToString(span[:]))
}

// Outgoing returns the headers of a message to another instance: those of the sender, with span as the parent; zero: the start span.
func Outgoing(h history.Headers, span [8]byte) history.Headers {
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
		case n == history.HeaderStartSpan:
			continue
		case n == history.HeaderTraceparent && traced:
			from.Span = span
			v = from.String()
		}
		b.WriteString(n + ": " + v + "\n")
	}
	return history.Headers(b.String())
}
