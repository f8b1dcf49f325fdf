package core

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// The commit of an end that the code did not decide may be rejected, or its outcome may be unknown. Until it is confirmed, memory keeps the
// stored state.
func TestEndByNameKeepsTheStateUntilItsCommitIsConfirmed(t *testing.T) {
	now := time.UnixMilli(1_000)
	o := New(Config{ReconcileInterval: time.Second}, TenureStart{Heads: "h."}, now)
	in := o.instance("i")
	in.phase, in.rec = idle, &record.Record{Name: "o", Execution: 1, Head: "h.0", Status: record.Running}
	var err error
	if in.state, err = FoldOf([]history.Event{
		&history.Started{Head: history.Head{ID: 1, At: 1}, Name: "o", Execution: 1},
		&history.ActivityScheduled{Head: history.Head{ID: 2, At: 1}, Name: "act", Effect: "e", Attempt: 1},
	}); err != nil {
		t.Fatal(err)
	}
	state := in.state
	o.turns.failByName(in, &history.Failure{Code: history.CodeBlocked})
	if in.phase != committing || in.state.End != nil || in.state.OutstandingLen() != 1 || in.state.Len != 2 {
		t.Fatalf("%s: end %v, %d activities of %d events", in.phase, in.state.End, in.state.OutstandingLen(), in.state.Len)
	}
	o.Step(now, &Message{Kind: CommitAnswered, ID: "i", Committed: record.Committed{Now: 1_000, Number: 1}})
	if o.Err() != nil || state.End == nil || state.OutstandingLen() != 0 {
		t.Fatalf("%v: end %v, %d activities", o.Err(), state.End, state.OutstandingLen())
	}
}
