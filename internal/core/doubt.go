package core

import (
	"time"
)

// doubtEvery bounds how often a tenure doubts the claims anew: an instance that was spoilt may conflict at every try.
const doubtEvery = 10 * time.Second

// doubt begins to doubt all claims there are. A store that has forgotten writes may show claims whose workers have
// acknowledged or returned their activities, and have forgotten them: no worker renews those, and they would stand
// until they expire. So their workers are asked, once each has been found by a reconciliation:
//
//	unclean takeover, or a conflict ──▶ doubted = now, reconcile ──▶ claim made or renewed before doubted
//	                                         ──▶ Hint with its token ──▶ the worker: see its settleDoubts
//
// A claim that is kept is renewed within a third of its TTL, and is not doubted any more. A hint that is lost, or a worker
// that is dead, costs the rest of the TTL, as always.
func (a *leases) doubt() {
	now := a.owner.clock.now()
	if now-a.doubted < doubtEvery.Milliseconds() {
		return
	}
	a.doubted = now
	a.reconcile()
}

// tasksLost sends again what was published before the TASKS stream has lost its content.
func (a *leases) tasksLost(before time.Time) {
	a.lost = before
	a.reconcile()
}

// reconcile looks at once at every instance that is due within the reconcile interval: those with activities outstanding
// are among them. If the schedule cannot be read, each is reconciled when it is due.
func (a *leases) reconcile() {
	a.owner.emit(Effect{Kind: ReadSchedule, After: a.owner.cfg.ReconcileInterval})
}

func (a *leases) scheduleRead(due []string, err error) {
	if err != nil {
		a.owner.storeFailed("wakeups", err)
		return
	}
	a.owner.schedule.todo = append(a.owner.schedule.todo, due...)
}
