package replay_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// To whatever event a history is rewound, the kept events and the inputs put back replay and break no invariant, and no call that already
// has a result is scheduled again.
func TestRewoundHistoryReplaysAndRunsNothingAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drive(t, nil)
		driveRandom(rt, d)
		for range 2 { // a rewound history can be rewound again
			to := rapid.Uint64Range(1, uint64(len(d.History))).Draw(rt, "to")
			plan, err := fold.PlanRewind(d.History, to, nil)
			if rapid.Bool().Draw(rt, "retry") {
				plan, err = fold.PlanRetry(d.History, false)
			}
			if errors.Is(err, fold.ErrNoRewind) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkPlan(t, d.History, plan)
			if plan.Keep == 0 { // the plan starts from the beginning
				return
			}
			d.Rewind(plan)
			d.CheckReplay()
			d.CheckRecord()
			runsNothingAgain(t, d.History)
		}
	})
}

// checkPlan requires that all outstanding work is scheduled again, is awaited, or has its result put back, and that every event is put
// back.
func checkPlan(t *testing.T, events []history.Event, p *fold.Plan) {
	t.Helper()
	if len(p.Answered)+len(p.Reruns) != p.State.OutstandingLen() || len(p.Awaited) != p.State.ChildLen() {
		t.Fatalf("%d answered, %d run again, of %d outstanding:\n%s", len(p.Answered), len(p.Reruns), p.State.OutstandingLen(), replaytest.Text(events))
	}
	received, back := 0, 0
	for _, ev := range events[p.Keep:] {
		if ev.Kind() == history.KindEventReceived {
			received++
		}
	}
	for _, ev := range p.PutBack {
		if ev.Kind() == history.KindEventReceived {
			back++
		}
	}
	if received != back {
		t.Fatalf("%d events are undone, and %d put back:\n%s", received, back, replaytest.Text(events))
	}
}

// runsNothingAgain requires that no call is scheduled after its result.
func runsNothingAgain(t *testing.T, events []history.Event) {
	t.Helper()
	call, done := map[uint64]string{}, map[string]bool{}
	for _, ev := range events {
		switch e := ev.(type) {
		case *history.ActivityScheduled:
			if call[e.ID] = e.CallKey(); done[e.CallKey()] {
				t.Fatalf("event %d schedules a call that has a result:\n%s", e.ID, replaytest.Text(events))
			}
		case *history.ActivityCompleted:
			done[call[e.Scheduled]] = true
		case *history.Rewound:
			for _, id := range e.Answered {
				done[call[id]] = true
			}
		}
	}
}
