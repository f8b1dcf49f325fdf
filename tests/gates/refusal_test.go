package gates

import (
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/client"
)

func refusals() []promise {
	return []promise{
		{"a full queue is an error at the call, which is not tried again", full},
		{"a full limit is tried again if the code requires it", fullAgain},
		{"a waiter has an error at the call after the maximum wait", late},
		{"where no caller is to wait the call fails at once", rude},
		{"whose queue is cleared has an error at the call", cleared},
		{"a start that finds the queue full has failed, and so has the call of a parent", fullHall},
		{"a start that has waited too long has failed, and so has the call of a parent", lateHall},
		{"a start where no caller is to wait has failed, and so has the call of a parent", rudeHall},
		{"a start whose queue is cleared has ended, and the call of a parent has failed", clearedHall},
	}
}

// again is a visit that is tried several times, if there is a reason to.
func again(action string) Crowd {
	return Crowd{Action: action, Visits: make([]Visit, 1), Retry: 100, Pause: 100 * time.Millisecond}
}

// held has an instance admitted to an action, where it stays until its room is opened.
func (a *arena) held(action string) *client.Instance[[]string] {
	a.Helper()
	run := a.visit(action+"-held", one(action, Visit{Hold: true}))
	a.until(action, 1)
	return run
}

// once requires that the call of an instance was not retried, and no activity began.
func (a *arena) once(action, id string) {
	a.Helper()
	if n := a.schedules(id); n != 1 {
		a.Errorf("%s: %d attempts", id, n)
	}
	for _, l := range a.book.entered(a.T, action) {
		if l.Instance == id {
			a.Errorf("%s was refused, and has entered", id)
		}
	}
}

func full(a *arena) {
	first := a.held("full")
	second := a.visit("full-2", one("full", Visit{}))
	a.queued("full", 1)
	a.results(a.visit("full-3", again("full")), "queue full")
	a.once("full", "full-3")
	a.open("full")
	a.results(first, "ok")
	a.results(second, "ok")
	a.over("full", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2, Rejected: 1})
}

func fullAgain(a *arena) {
	first := a.held("full-again")
	second := a.visit("full-again-2", one("full-again", Visit{}))
	a.queued("full-again", 1)
	c := again("full-again")
	c.Limited = true
	third := a.visit("full-again-3", c)
	a.stand("full-again", "it was refused twice", func(s limiter.Stats) bool { return s.Rejected >= 2 })
	a.open("full-again")
	a.results(first, "ok")
	a.results(second, "ok")
	a.results(third, "ok")
	a.over("full-again", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 3, Rejected: a.schedules("full-again-3") - 1})
}

func late(a *arena) {
	first := a.held("late")
	a.results(a.visit("late-2", again("late")), "queue timeout")
	a.once("late", "late-2")
	a.open("late")
	a.results(first, "ok")
	a.over("late", limiter.Stats{TotalEnqueued: 2, TotalCompleted: 1, TimedOut: 1})
}

func rude(a *arena) {
	first := a.held("rude")
	a.results(a.visit("rude-2", again("rude")), "limited")
	a.once("rude", "rude-2")
	a.open("rude")
	a.results(first, "ok")
	a.over("rude", limiter.Stats{TotalEnqueued: 1, TotalCompleted: 1, Rejected: 1})
}

func cleared(a *arena) {
	first := a.held("cleared")
	second, third := a.visit("cleared-2", again("cleared")), a.visit("cleared-3", again("cleared"))
	a.queued("cleared", 2)
	if n, err := a.client.ClearQueue(a.ctx, "cleared", ""); n != 2 || err != nil {
		a.Errorf("%d were rejected (%v)", n, err)
	}
	a.results(second, "cleared")
	a.results(third, "cleared")
	a.once("cleared", "cleared-2")
	a.open("cleared")
	a.results(first, "ok")
	a.over("cleared", limiter.Stats{TotalEnqueued: 3, TotalCompleted: 1, Cleared: 2})
}

// host starts an instance that calls a limited orchestration.
func (a *arena) host(hall, id string) *client.Instance[string] {
	a.Helper()
	run, err := client.Start(a.ctx, a.client, host, id, Call{Name: hall, ID: id + "-child"})
	a.must(err)
	return run
}

// inHall lets an instance into a limited orchestration, which stays until its room is opened.
func (a *arena) inHall(hall string) *client.Instance[string] {
	a.Helper()
	run := a.stay(hall, hall+"-held", Stay{Hold: true})
	a.until(hall, 1)
	return run
}

func (a *arena) alone(hall string) {
	a.Helper()
	if all := a.book.entered(a.T, hall); len(all) != 1 {
		a.Errorf("a rejected instance has run: %+v", all)
	}
}

func fullHall(a *arena) {
	const hall = "full-hall"
	first, second := a.inHall(hall), a.stay(hall, "full-hall-2", Stay{})
	a.queued(hall, 1)
	refused(a, a.stay(hall, "full-hall-3", Stay{}), pawl.ErrQueueFull, client.Failed)
	a.went(a.host(hall, "full-hall-4"), "queue full")
	a.alone(hall)
	a.open(hall)
	a.went(first, "ok")
	a.went(second, "ok")
	a.over(hall, limiter.Stats{TotalEnqueued: 2, TotalCompleted: 2, Rejected: 2})
}

func lateHall(a *arena) {
	const hall = "late-hall"
	first, second, third := a.inHall(hall), a.stay(hall, "late-hall-2", Stay{}), a.host(hall, "late-hall-3")
	refused(a, second, pawl.ErrQueueTimeout, client.Failed)
	a.went(third, "queue timeout")
	a.alone(hall)
	a.open(hall)
	a.went(first, "ok")
	a.over(hall, limiter.Stats{TotalEnqueued: 3, TotalCompleted: 1, TimedOut: 2})
}

func rudeHall(a *arena) {
	const hall = "rude-hall"
	first := a.inHall(hall)
	refused(a, a.stay(hall, "rude-hall-2", Stay{}), pawl.ErrLimited, client.Failed)
	a.went(a.host(hall, "rude-hall-3"), "limited")
	a.alone(hall)
	a.open(hall)
	a.went(first, "ok")
	a.over(hall, limiter.Stats{TotalEnqueued: 1, TotalCompleted: 1, Rejected: 2})
}

func clearedHall(a *arena) {
	const hall = "cleared-hall"
	first, second, third := a.inHall(hall), a.stay(hall, "cleared-hall-2", Stay{}), a.host(hall, "cleared-hall-3")
	a.queued(hall, 2)
	if n, err := a.client.ClearQueue(a.ctx, hall, ""); n != 2 || err != nil {
		a.Errorf("%d were rejected (%v)", n, err)
	}
	refused(a, second, pawl.ErrQueueCleared, client.Cancelled)
	a.went(third, "cancelled, cleared")
	a.alone(hall)
	a.open(hall)
	a.went(first, "ok")
	a.over(hall, limiter.Stats{TotalEnqueued: 3, TotalCompleted: 1, Cleared: 2})
}
