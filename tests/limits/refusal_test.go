package limits

import (
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/client"
)

func refusals() []scenario {
	return []scenario{
		{"a full limit is an error at the call, which is not retried", full},
		{"a full limit is retried if the code requires it", fullAgain},
		{"a waiter has an error at the call after the maximum wait", late},
		{"a call that may not wait fails at once", rejecting},
		{"a waiter whose limit is cleared has an error at the call", cleared},
		{"a start at a full limit fails, and so does the call of its parent", fullHall},
		{"a start that exceeds the maximum wait fails, and so does the call of its parent", lateHall},
		{"a start that may not wait fails, and so does the call of its parent", rejectingHall},
		{"a start whose limit is cleared ends, and the call of its parent fails", clearedHall},
	}
}

// again returns the input of a call with a retry policy.
func again(action string) Crowd {
	return Crowd{Action: action, Visits: make([]Visit, 1), Retry: 100, Pause: 100 * time.Millisecond}
}

// startHolder starts an instance that holds a slot of an action until its room is opened.
func (a *harness) startHolder(action string) *client.Instance[[]string] {
	a.Helper()
	run := a.visit(action+"-held", one(action, Visit{Hold: true}))
	a.awaitEntries(action, 1)
	return run
}

// wantOneAttempt checks that the call of an instance was not retried, and that no activity has started.
func (a *harness) wantOneAttempt(action, id string) {
	a.Helper()
	if n := a.schedules(id); n != 1 {
		a.Errorf("%s: %d attempts", id, n)
	}
	for _, l := range a.recorder.entered(a.T, action) {
		if l.Instance == id {
			a.Errorf("%s was rejected, and has entered", id)
		}
	}
}

func full(a *harness) {
	first := a.startHolder("full")
	second := a.visit("full-2", one("full", Visit{}))
	a.awaitWaiters("full", 1)
	a.wantResults(a.visit("full-3", again("full")), "queue full")
	a.wantOneAttempt("full", "full-3")
	a.releaseAll("full")
	a.wantResults(first, "ok")
	a.wantResults(second, "ok")
	a.awaitEmpty("full", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2, Rejected: 1})
}

func fullAgain(a *harness) {
	first := a.startHolder("full-again")
	second := a.visit("full-again-2", one("full-again", Visit{}))
	a.awaitWaiters("full-again", 1)
	c := again("full-again")
	c.Limited = true
	third := a.visit("full-again-3", c)
	a.awaitStats("full-again", "it is rejected twice", func(s limiter.Stats) bool { return s.Rejected >= 2 })
	a.releaseAll("full-again")
	a.wantResults(first, "ok")
	a.wantResults(second, "ok")
	a.wantResults(third, "ok")
	a.awaitEmpty("full-again", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3, Rejected: a.schedules("full-again-3") - 1})
}

func late(a *harness) {
	first := a.startHolder("late")
	a.wantResults(a.visit("late-2", again("late")), "queue timeout")
	a.wantOneAttempt("late", "late-2")
	a.releaseAll("late")
	a.wantResults(first, "ok")
	a.awaitEmpty("late", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 1, TimedOut: 1})
}

func rejecting(a *harness) {
	first := a.startHolder("rejecting")
	a.wantResults(a.visit("rejecting-2", again("rejecting")), "limited")
	a.wantOneAttempt("rejecting", "rejecting-2")
	a.releaseAll("rejecting")
	a.wantResults(first, "ok")
	a.awaitEmpty("rejecting", limiter.Stats{TotalEnqueued: 1, TotalCompleted: 1, Rejected: 1})
}

func cleared(a *harness) {
	first := a.startHolder("cleared")
	second, third := a.visit("cleared-2", again("cleared")), a.visit("cleared-3", again("cleared"))
	a.awaitWaiters("cleared", 2)
	if n, err := a.client.ClearQueue(a.ctx, "cleared", ""); n != 2 || err != nil {
		a.Errorf("%d were rejected (%v)", n, err)
	}
	a.wantResults(second, "cleared")
	a.wantResults(third, "cleared")
	a.wantOneAttempt("cleared", "cleared-2")
	a.releaseAll("cleared")
	a.wantResults(first, "ok")
	a.awaitEmpty("cleared", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 1, Cleared: 2})
}

// host starts an instance that calls a limited orchestration as a child.
func (a *harness) host(hall, id string) *client.Instance[string] {
	a.Helper()
	run, err := client.Start(a.ctx, a.client, host, id, Call{Name: hall, ID: id + "-child"})
	a.must(err)
	return run
}

// startHallHolder starts an instance of a limited orchestration that holds its slot until its room is opened.
func (a *harness) startHallHolder(hall string) *client.Instance[string] {
	a.Helper()
	run := a.stay(hall, hall+"-held", Stay{Hold: true})
	a.awaitEntries(hall, 1)
	return run
}

// wantOnlyHolder checks that only the first instance has run.
func (a *harness) wantOnlyHolder(hall string) {
	a.Helper()
	if all := a.recorder.entered(a.T, hall); len(all) != 1 {
		a.Errorf("a rejected instance has run: %+v", all)
	}
}

func fullHall(a *harness) {
	const hall = "full-hall"
	first, second := a.startHallHolder(hall), a.stay(hall, "full-hall-2", Stay{})
	a.awaitWaiters(hall, 1)
	refused(a, a.stay(hall, "full-hall-3", Stay{}), pawl.ErrQueueFull, client.Failed)
	a.wantResult(a.host(hall, "full-hall-4"), "queue full")
	a.wantOnlyHolder(hall)
	a.releaseAll(hall)
	a.wantResult(first, "ok")
	a.wantResult(second, "ok")
	a.awaitEmpty(hall, limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2, Rejected: 2})
}

func lateHall(a *harness) {
	const hall = "late-hall"
	first, second, third := a.startHallHolder(hall), a.stay(hall, "late-hall-2", Stay{}), a.host(hall, "late-hall-3")
	refused(a, second, pawl.ErrQueueTimeout, client.Failed)
	a.wantResult(third, "queue timeout")
	a.wantOnlyHolder(hall)
	a.releaseAll(hall)
	a.wantResult(first, "ok")
	a.awaitEmpty(hall, limiter.Stats{TotalEnqueued: 3, TotalCompleted: 1, TimedOut: 2})
}

func rejectingHall(a *harness) {
	const hall = "rejecting-hall"
	first := a.startHallHolder(hall)
	refused(a, a.stay(hall, "rejecting-hall-2", Stay{}), pawl.ErrLimited, client.Failed)
	a.wantResult(a.host(hall, "rejecting-hall-3"), "limited")
	a.wantOnlyHolder(hall)
	a.releaseAll(hall)
	a.wantResult(first, "ok")
	a.awaitEmpty(hall, limiter.Stats{TotalEnqueued: 1, TotalCompleted: 1, Rejected: 2})
}

func clearedHall(a *harness) {
	const hall = "cleared-hall"
	first, second, third := a.startHallHolder(hall), a.stay(hall, "cleared-hall-2", Stay{}), a.host(hall, "cleared-hall-3")
	a.awaitWaiters(hall, 2)
	if n, err := a.client.ClearQueue(a.ctx, hall, ""); n != 2 || err != nil {
		a.Errorf("%d were rejected (%v)", n, err)
	}
	refused(a, second, pawl.ErrQueueCleared, client.Cancelled)
	a.wantResult(third, "cancelled, cleared")
	a.wantOnlyHolder(hall)
	a.releaseAll(hall)
	a.wantResult(first, "ok")
	a.awaitEmpty(hall, limiter.Stats{TotalEnqueued: 3, TotalCompleted: 1, Cleared: 2})
}
