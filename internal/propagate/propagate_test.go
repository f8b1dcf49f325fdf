package propagate_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/propagate"
	"github.com/pawlrun/pawl/pkg/history"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func FuzzHeadersArePassedOn(f *testing.F) {
	f.Add("traceparent: " + parent + "\ntenant: acme\n")
	f.Add("pawl-span: 0123456789abcdef\n: \n")
	f.Fuzz(func(t *testing.T, s string) {
		out := propagate.Outgoing(history.Headers(s), [8]byte{1})
		if out.Get(history.HeaderStartSpan) != "" {
			t.Errorf("%q passes the start span on: %q", s, out)
		}
		traced := propagate.Traced(history.Headers(s), "i", history.Position{}, func([16]byte, [8]byte) bool { return true })
		if again := propagate.Traced(traced, "i", history.Position{}, nil); again != traced {
			t.Errorf("%q became %q, and then %q", s, traced, again)
		}
	})
}

func TestStartSpanIsTheParentOfOutgoingTraceContexts(t *testing.T) {
	origin := history.Position{Seq: 5, Time: 7}
	trace, span := effectid.StartTrace("order-1", origin)
	sample := func(yes bool) func([16]byte, [8]byte) bool { return func([16]byte, [8]byte) bool { return yes } }
	root := propagate.Traced(history.Headers(""), "order-1", origin, sample(true))
	if from, start, ok := root.Trace(); !ok || from.Trace != trace || from.Span != span || start != span {
		t.Errorf("%+v %x %v", from, start, ok)
	}
	if again := propagate.Traced(root, "order-1", origin, sample(false)); again != root {
		t.Errorf("%q became %q", root, again)
	}
	if _, _, ok := propagate.Traced(history.Headers(""), "order-1", origin, sample(false)).Trace(); ok {
		t.Error("an instance that was not sampled has spans")
	}
	caller := history.Headers("").With("traceparent", parent).With("tenant", "acme")
	out := propagate.Outgoing(propagate.Traced(caller, "order-1", origin, nil), [8]byte{})
	if from, ok := history.ParseTraceparent(out.Get("traceparent")); !ok || from.Span != span || out.Get("tenant") != "acme" || out.Get("pawl-span") != "" {
		t.Errorf("%q", out)
	}
	if out := propagate.Outgoing(caller, [8]byte{9}); out != caller {
		t.Errorf("without a tracer %q became %q", caller, out)
	}
}
