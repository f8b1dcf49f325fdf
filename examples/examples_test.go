package examples

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples/internal/drive"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheRegistryHasNoNameTwice(t *testing.T) {
	var all []pawl.Binding
	for _, o := range Orchestrations() {
		all = append(all, o)
	}
	for _, a := range Activities() {
		all = append(all, a)
	}
	if _, err := pawl.NewRegistry(all...); err != nil {
		t.Error(err)
	}
}

// end runs the orchestration as the registry has it.
func end[In, Out any](t *testing.T, o pawl.Orchestration[In, Out], in In, inputs ...history.Event) (out Out, err error) {
	t.Helper()
	p, err := o.EncodeInput(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range Orchestrations() {
		if b.Name() != o.Name() {
			continue
		}
		switch e := drive.Run(t, b, Activities(), p, inputs...).(type) {
		case *history.Completed:
			return o.DecodeResult(e.Result)
		case *history.Failed:
			return out, pawl.FromFailure(e.Failure)
		case *history.Cancelled:
			return out, pawl.FromFailure(e.Failure)
		}
	}
	t.Fatalf("%s is not registered", o.Name())
	return out, nil
}

func event[T any](t *testing.T, e pawl.Event[T], v T) history.Event {
	t.Helper()
	p, err := e.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return &history.EventReceived{Name: e.Name(), Payload: p}
}

func TestTheSmallExamplesDoWhatTheySay(t *testing.T) {
	if got, err := end(t, Hello, "Ada"); got != "Hello, Ada!" || err != nil {
		t.Errorf("hello: %q, %v", got, err)
	}
	if got, err := end(t, Chain, 7); got != 7+ChainLength || err != nil {
		t.Errorf("chain: %d, %v", got, err)
	}
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 0, 100: 328350} {
		if got, err := end(t, FanOut, n); got != want || err != nil {
			t.Errorf("fanout %d: %d, %v", n, got, err)
		}
	}
	if got, err := end(t, Wait, pawl.None{}, event(t, Poke, "now")); got != "now" || err != nil {
		t.Errorf("event: %q, %v", got, err)
	}
	if got, err := end(t, Race, Times{Hare: 1, Tortoise: 60_000}); got != "race-hare after 1 ms" || err != nil {
		t.Errorf("race: %q, %v", got, err)
	}
}

func TestAnApprovedOrderIsCharged(t *testing.T) {
	got, err := end(t, Fulfil, Order{ID: "42", Quantity: 1, Cents: 990}, event(t, Approved, Approval{By: "finance"}))
	if err != nil || got.Order != "42" || got.Cents != 990 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnOrderThatGoesWrongGivesTheGoodsBackAndSaysWhy(t *testing.T) {
	approved := event(t, Approved, Approval{By: "finance"})
	for _, c := range []struct {
		what   string
		order  Order
		inputs []history.Event
		want   error
	}{
		{"out of stock", Order{Quantity: 101}, nil, ErrOutOfStock},
		{"nobody approves", Order{Quantity: 1}, nil, ErrNotApproved},
		{"declined", Order{Quantity: 1, Cents: 100_001}, []history.Event{approved}, ErrCardDeclined},
		{"cancelled", Order{Quantity: 1}, []history.Event{&history.CancelRequested{By: "Ada"}}, context.Canceled},
	} {
		_, err := end(t, Fulfil, c.order, c.inputs...)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestAContestantStopsWhenNobodyWaitsForIt(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	lost := &cancel.Cancelled{Reason: cancel.LostSelect}
	stop(lost)
	if _, err := run(ctx, 60_000); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}
