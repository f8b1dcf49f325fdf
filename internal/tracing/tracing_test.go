package tracing_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlrun/pawl/internal/propagate"
	"github.com/pawlrun/pawl/internal/tracing"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func at(id uint64, ms int64) history.Head { return history.Head{ID: id, At: ms} }

// life returns the history of an instance that waits at limits, makes calls, sends events, and is cancelled.
func life() []history.Event {
	origin := history.Position{Seq: 3, Time: 1_000_000_000}
	return []history.Event{
		&history.Started{
			Head: at(1, 1000), Name: "fulfil", Version: "2", Origin: origin, Execution: 1, Limit: &history.Limit{Name: "fulfil", Waiting: true, WaitingSince: 1000},
			Headers: propagate.Traced(history.Headers("").With("tracestate", "a=b"), "order-1", origin, func([16]byte, [8]byte) bool { return true }),
		},
		&history.Granted{Head: at(2, 1500), Scheduled: 1},
		&history.ActivityScheduled{Head: at(3, 1500), Name: "reserve", Queue: "stock", Attempt: 1},
		&history.ActivityScheduled{Head: at(4, 1500), Name: "charge", Queue: "pay", Attempt: 1, Limit: &history.Limit{Name: "charge", Waiting: true, WaitingSince: 1500}},
		&history.ChildScheduled{Head: at(5, 1500), Name: "pack", Instance: "pack-1"},
		&history.EventSent{Head: at(6, 1500), Instance: "other", Name: "hello"},
		&history.ActivityCompleted{Head: at(7, 1600), Scheduled: 3, Worker: "w-1", Claims: 1},
		&history.EventReceived{Head: at(8, 1700), Name: "approved", Headers: "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n"},
		&history.CancelRequested{Head: at(9, 1800), By: "ops"},
		&history.ActivityCancelRequested{Head: at(10, 1900), Scheduled: 4, Reason: cancel.Requested, By: "ops"},
		&history.ChildCancelRequested{Head: at(11, 1900), Scheduled: 5, Reason: cancel.Requested, By: "ops"},
		&history.Cancelled{Head: at(12, 1900), By: "ops", Failure: history.Failure{Code: history.CodeCancelled}},
	}
}

// TestSpansRebuiltFromHistoryAreTheSame splits a history into two turns at every possible position. The turns must emit the same spans as a
// takeover, which emits them again.
func TestSpansRebuiltFromHistoryAreTheSame(t *testing.T) {
	all := life()
	in := func() *tracing.Instance {
		in, ok := tracing.Of("order-1", all[0].(*history.Started))
		if !ok {
			t.Fatal("not sampled")
		}
		return in
	}
	var want []*tracing.Span
	in().Recent(all, 0, func(s *tracing.Span) { want = append(want, s) })
	if len(want) != 8 {
		t.Errorf("%d spans", len(want))
	}
	ids := make(map[[8]byte]bool)
	for i, s := range want {
		ids[s.ID] = true
		if i > 0 && s.Parent != want[0].ID || s.End < s.Start || s.Root != (i == 0) {
			t.Errorf("%+v", s)
		}
	}
	if len(ids) != len(want) {
		t.Error("two spans have one id")
	}
	settled := func(id uint64) history.Event { return all[id-1] }
	for cut := 1; cut < len(all); cut++ {
		var got []*tracing.Span
		var requested *history.CancelRequested
		for _, turn := range [][]history.Event{all[:cut], all[cut:]} {
			for _, e := range turn {
				if c, ok := e.(*history.CancelRequested); ok {
					requested = c // as the state after the turn contains it
				}
			}
			in().Events(turn, requested, settled, func(s *tracing.Span) { got = append(got, s) })
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("cut at %d: %s", cut, d)
		}
	}
}
