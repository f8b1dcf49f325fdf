package history_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/pkg/history"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestHeadersStayWithinTheirBoundsWhateverIsSet(t *testing.T) {
	name := rapid.OneOf(rapid.SampledFrom([]string{"traceparent", "TraceState", "baggage", "tenant", "pawl-span"}), rapid.StringN(0, 80, 80))
	value := rapid.OneOf(rapid.Just(parent), rapid.String(), rapid.StringMatching(`[ -~]{0,600}`))
	rapid.Check(t, func(t *rapid.T) {
		var h history.Headers
		for range rapid.IntRange(0, 14).Draw(t, "n") {
			h = h.With(name.Draw(t, "name"), value.Draw(t, "value"))
		}
		declared := 0
		for n, v := range h.All() {
			if history.IsDeclared(n) {
				declared++
			}
			if again := h.With(n, v); again.Get(n) != v || strings.ContainsAny(n+v, "\n\r") {
				t.Errorf("%q: %q", n, v)
			}
		}
		if declared > history.MaxDeclaredHeaders || len(h) > 6<<10 || h.Get("pawl-span") != "" {
			t.Errorf("%d declared, %d bytes: %q", declared, len(h), h)
		}
	})
}

func FuzzTraceparentIsDroppedOrRead(f *testing.F) {
	f.Add(parent)
	f.Add("00-00000000000000000000000000000000-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, s string) {
		if c, ok := history.ParseTraceparent(s); ok && c.String() != s {
			t.Errorf("%q became %q", s, c)
		}
		history.Headers(s).Outgoing([8]byte{1})
		history.Headers(s).Traced("i", history.Position{}, func([16]byte, [8]byte) bool { return true })
	})
}

func TestStartSpanIsTheParentOfOutgoingTraceContexts(t *testing.T) {
	origin := history.Position{Seq: 5, Time: 7}
	trace, span := history.StartTrace("order-1", origin)
	sample := func(yes bool) func([16]byte, [8]byte) bool { return func([16]byte, [8]byte) bool { return yes } }
	root := history.Headers("").Traced("order-1", origin, sample(true))
	if from, start, ok := root.Trace(); !ok || from.Trace != trace || from.Span != span || start != span {
		t.Errorf("%+v %x %v", from, start, ok)
	}
	if again := root.Traced("order-1", origin, sample(false)); again != root {
		t.Errorf("%q became %q", root, again)
	}
	if _, _, ok := history.Headers("").Traced("order-1", origin, sample(false)).Trace(); ok {
		t.Error("an instance that was not sampled has spans")
	}
	caller := history.Headers("").With("traceparent", parent).With("tenant", "acme")
	out := caller.Traced("order-1", origin, nil).Outgoing([8]byte{})
	if from, ok := history.ParseTraceparent(out.Get("traceparent")); !ok || from.Span != span || out.Get("tenant") != "acme" || out.Get("pawl-span") != "" {
		t.Errorf("%q", out)
	}
	if out := caller.Outgoing([8]byte{9}); out != caller {
		t.Errorf("without a tracer %q became %q", caller, out)
	}
}
