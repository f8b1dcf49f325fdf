package core

import "time"

// doubtEvery is the minimum time between two doubts of a tenure: a corrupt instance may conflict at every try.
const doubtEvery = 10 * time.Second

// doubt marks all current claims as doubtful. A store that has lost writes may show claims whose workers have
// acknowledged or returned their activities and no longer hold them: no worker renews those claims, and they would last
// until they expire. So the worker of each claim receives a hint once a reconciliation has found the claim:
//
//	unclean takeover, or a conflict ──▶ doubted = now, reconcile ──▶ claim made or renewed before doubted
//	                                         ──▶ Hint with its token ──▶ the worker: see its settleDoubts
//
// A claim that is still held is renewed within a third of its TTL, and is no longer doubtful. If the hint is lost, or the
// worker is dead, the claim lasts until it expires, as always.
func (l *leases) doubt() {
	now := l.owner.clock.now()
	if now-l.doubted < doubtEvery.Milliseconds() {
		return
	}
	l.doubted = now
	l.reconcile()
}

// tasksLost resends the tasks that were published before the TASKS stream lost its content.
func (l *leases) tasksLost(before time.Time) {
	l.lost = before
	l.reconcile()
}

// reconcile reconciles at once every instance that is due within the reconcile interval, which includes those with outstanding activities.
// If the wakeups cannot be read, each is reconciled when it is due.
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
