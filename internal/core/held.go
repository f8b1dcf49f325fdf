package core

import (
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// The inbox of an instance that takes no turn: paused, or delayed. What ends the wait (a request, a cancellation, a forced purge) may be
// anywhere in it, and what else comes stays there, up to record.InboxBound. So a long one is searched once in a tenure:
//
//	searched, nothing found ──▶ held {known: its length} ──┬─ an ordinary input is ingested ──▶ known is its length; nothing is read
//	          ▲                                            ├─ what may end the wait is ingested, the reply of an ingest is lost ──▶ not held
//	          └── the next wakeup ◀── longer than known ◀──┴─ reconciled: completions, which no ingest has brought
//
// It holds because all that can end the wait comes through ingests, and this owner has the replies to those of its tenure in order. A
// reconciliation holds back what is known, so an input that another owner would have to find has a wakeup. A commit changes the
// inbox, and ends it.
//
// Crash points: there are none. What is held is memory; the wakeup of each ingested input is in the store.

// heldInbox is what is known of a long inbox in which nothing ends the wait.
type heldInbox struct {
	known int // inputs at its head, of which none does
	seen  int // its length when it was reconciled last
}

// searchHeld has the inbox searched for what ends the wait, unless nothing can have come since that was done.
func (o *operators) searchHeld(in *instance) bool {
	if !in.cut || in.searched {
		return false
	}
	in.searched = true // what is ingested meanwhile resets it
	if h, ok := o.held[in.id]; ok && h.seen <= h.known {
		return false
	}
	delete(o.held, in.id)
	o.owner.inbox.search(in, outstanding{goal: toOperate})
	return true
}

// endWait does what ends the wait of an instance that takes no turn, because it is paused or delayed. It reports false if nothing does.
func (o *operators) endWait(in *instance) bool {
	if o.searchHeld(in) {
		return true
	}
	if n, p := in.forcedPurge(); p != nil {
		o.owner.removals.endPurged(in, p, n)
		return true
	}
	for n, u := range in.unread {
		if r := requestOf(in, u); r != nil && !in.tookEffect(u, r) && (in.paused() || r.Verb == history.VerbTerminate) {
			o.requested(in, n)
			return true
		}
		c, ok := u.Ev.(*history.CancelRequested)
		switch {
		case !ok || !in.concerns(u, c.Of):
			continue
		case in.paused():
			o.resume(in, n, c.By, c.Text, "")
		default:
			o.owner.turns.cancelByName(in, cancel.Requested, c.By, c.Text, n+1)
		}
		return true
	}
	return false
}

// wait puts an instance away in whose inbox nothing ends its wait.
func (o *operators) wait(in *instance) {
	if in.searched && !in.cut {
		o.held[in.id] = heldInbox{known: len(in.unread)}
	}
	if in.wakeupDue {
		o.owner.leases.reconcileLeases(in)
		return
	}
	o.owner.park(in)
}

// endsWait reports an input that may end the wait of an instance.
func (arr *Arrival) endsWait() bool {
	s, ok := arr.Ev.Ev.(*history.Started)
	return arr.Kind == message.KindCancel || arr.Kind == message.KindPurge || arr.Kind == message.KindOperate || ok && s.Reuse == history.ReuseTerminate
}

// keepsWaiting takes note of what was ingested for a held instance. It reports that nothing else is to be done: its wakeup is set.
func (o *operators) keepsWaiting(arr *Arrival, result *record.Ingested) bool {
	h, ok := o.held[arr.Instance]
	switch {
	case !ok:
		return false
	case result == nil, result.Full, arr.endsWait():
		delete(o.held, arr.Instance)
		return false
	}
	h.known = max(h.known, result.Unread)
	o.held[arr.Instance] = h
	return o.owner.PhaseOf(arr.Instance) == Absent
}

// seenHeld notes the length of a held inbox. It reports that there is nothing in it that memory lacks.
func (o *operators) seenHeld(in *instance, length int) bool {
	h, ok := o.held[in.id]
	if ok {
		h.seen = length
		o.held[in.id] = h
	}
	return ok && in.cut
}
