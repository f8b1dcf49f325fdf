package core

import (
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// The inbox of an instance that takes no turn, because it is paused or delayed. The input that ends the wait (a request, a cancellation, a
// forced purge) may be anywhere in it, and all other inputs stay there, up to record.InboxBound. So a long inbox is searched once per
// tenure:
//
//	searched, nothing found ──▶ held {known: its length} ──┬─ an ordinary input is ingested ──▶ known is its length; nothing is read
//	          ▲                                            ├─ an input that may end the wait is ingested, or a reply is lost ──▶ not held
//	          └── the next wakeup ◀── longer than known ◀──┴─ reconciled: completions, which are not ingested
//
// One search suffices, because every input that can end the wait is ingested, and this owner handles the replies of its ingests in order. A
// reconciliation does not schedule a wakeup for the known inputs, so an input that another owner would have to find has a wakeup. A commit
// changes the inbox, and ends the hold.
//
// Crash points: none. Holds are only in memory; the wakeup of each ingested input is stored.

// heldInbox describes a long inbox in which no input ends the wait.
type heldInbox struct {
	known int // number of inputs at its head that are known not to end the wait
	seen  int // its length at the last reconciliation
}

// searchHeld searches the inbox for the input that ends the wait, unless none can have arrived since the last search.
func (o *operators) searchHeld(in *instance) bool {
	if !in.cut || in.searched {
		return false
	}
	in.searched = true // reset if an ending input is ingested meanwhile
	if h, ok := o.held[in.id]; ok && h.seen <= h.known {
		return false
	}
	delete(o.held, in.id)
	o.owner.inbox.search(in, outstanding{goal: toOperate})
	return true
}

// endWait carries out the input that ends the wait of a paused or delayed instance, or searches for it. It returns false if there is none.
func (o *operators) endWait(in *instance) bool {
	if o.searchHeld(in) {
		return true
	}
	if n, p := in.forcedPurge(); p != nil {
		o.owner.turns.cancelByName(in, cancel.Purged, p.By, p.Text, n)
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

// wait reconciles or parks an instance whose inbox contains no input that ends its wait.
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

// keepsWaiting handles an input that was ingested for a held instance. It reports that nothing else needs to be done: its wakeup is set.
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

// seenHeld records the length of a held inbox at a reconciliation. It reports that the rest of the inbox need not be read.
func (o *operators) seenHeld(in *instance, length int) bool {
	h, ok := o.held[in.id]
	if ok {
		h.seen = length
		o.held[in.id] = h
	}
	return ok && in.cut
}
