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
func (l *leases) doubt() {
	now := l.owner.clock.now()
	if now-l.doubted < doubtEvery.Milliseconds() {
		return
	}
	l.doubted = now
	l.reconcile()
}

// tasksLost sends again what was published before the TASKS stream has lost its content.
func (l *leases) tasksLost(before time.Time) {
	l.lost = before
	l.reconcile()
}

// reconcile looks at once at every instance that is due within the reconcile interval: those with activities outstanding
// are among them. If the schedule cannot be read, each is reconciled when it is due.
func (l *leases) reconcile() {
	l.owner.emit(Effect{Kind: ReadSchedule, After: l.owner.cfg.ReconcileInterval})
}

func (l *leases) scheduleRead(due []string, err error) {
	if err != nil {
		l.owner.storeFailed("wakeups", err)
		return
	}
	l.owner.schedule.todo = append(l.owner.schedule.todo, due...)
}
