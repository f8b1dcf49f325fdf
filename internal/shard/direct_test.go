package shard

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// local provides free slots, and records which of them ran a task or were dropped.
type local struct {
	free         int
	ran, dropped []string // tokens
	n            int
}

func (l *local) reserve(string, string, string) *transport.Reservation {
	if l.free == 0 {
		return nil
	}
	l.free--
	l.n++
	token := "t" + strconv.Itoa(l.n)
	return &transport.Reservation{
		Token: token, Worker: "w",
		Run:  func(transport.Task) { l.ran = append(l.ran, token) },
		Drop: func(transport.Task) { l.dropped, l.free = append(l.dropped, token), l.free+1 },
	}
}

// commitEffect returns a commit that schedules activities 2, 3 and 4, and cancels 4.
func commitEffect() *core.Effect {
	e := &core.Effect{Kind: core.CommitTurn, ID: "i", Commit: &record.Commit{Instance: "i", Execution: 1, Delete: []record.Lease{{Activity: 4}}}, Decided: &core.Decided{}}
	for id := range uint64(3) {
		act := &history.ActivityScheduled{Head: history.Head{ID: id + 2}, Name: "a", Queue: "q", Effect: "e" + strconv.FormatUint(id+2, 10)}
		e.Decided.Events = append(e.Decided.Events, act)
		e.Commit.Create = append(e.Commit.Create, record.Lease{Activity: act.ID, Effect: act.Effect})
	}
	return e
}

func tokens(c *record.Commit) (out []string) {
	for _, l := range c.Create {
		token := ""
		if l.Claim != nil {
			token = l.Claim.Token
		}
		out = append(out, token)
	}
	return out
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestCommitClaimsForReservedSlots(t *testing.T) {
	l := &local{free: 1}
	d, e := newDirect(l.reserve), commitEffect()
	want(t, "claims", tokens(d.claim(e)), "t1", "", "")
	want(t, "claims of the core's commit", tokens(e.Commit), "", "", "")
	for _, event := range []uint64{2, 3} {
		task := transport.Task{Instance: "i", Activity: event, Effect: "e" + strconv.FormatUint(event, 10)}
		if ran := d.run(task); ran != (event == 2) {
			t.Errorf("event %d ran locally: %t", event, ran)
		}
		if d.run(task) {
			t.Errorf("event %d ran twice", event)
		}
	}
	d.commitAnswered("i", nil)
	want(t, "ran", l.ran, "t1")
	want(t, "dropped", l.dropped)
}

func TestCommitWithUnknownOutcomeIsSentAgainWithItsClaims(t *testing.T) {
	l := &local{free: 5}
	d, e := newDirect(l.reserve), commitEffect()
	d.claim(e)
	d.commitAnswered("i", errors.New("no reply"))
	want(t, "claims", tokens(d.claim(e)), "t1", "t2", "") // the cancelled activity is not claimed
	d.commitAnswered("i", record.ErrConflict)
	want(t, "dropped", l.dropped, "t1", "t2")
	d.claim(e)
	d.close()
	if l.free != 5 {
		t.Errorf("%d slots are free at the end of the tenure", l.free)
	}
}
