package replay

import "github.com/pawlrun/pawl/pkg/history"

// The owner admits attempts and starts at limits, and records in the events of the turn, before they are committed,
// which of them wait. Here it matters for four things: a grant without a waiter is dropped; the program of an instance that
// waits has not begun; the timeout of an attempt begins when it is admitted; and a pause keeps a slot only if there is one.

// declaredLimit returns the limit in the schedule of an attempt; nil if there is none.
func (c *call) declaredLimit() *history.Limit {
	if !c.spec.KeepSlot && c.spec.Declared == nil {
		return nil
	}
	g := &history.Limit{Retain: c.spec.KeepSlot}
	if c.spec.Declared != nil {
		g.Declared = *c.spec.Declared
	}
	return g
}

// waitsAt reports whether the caller at the limit had not been admitted when that was recorded. A limit that was not
// resolved blocks no caller.
func waitsAt(g *history.Limit) bool { return g != nil && g.Name != "" && g.Waiting }

// waits reports whether an activity waits at its limit.
func (w *work) waits() bool {
	return w != nil && w.sched != nil && waitsAt(w.sched.Limit) && !w.granted
}

// slot returns the event id of an attempt whose slot is to be retained, or 0.
func (w *work) slot() uint64 {
	if w == nil || w.sched == nil || w.waits() {
		return 0
	}
	if g := w.sched.Limit; g == nil || g.Name == "" || !g.Retain {
		return 0
	}
	return w.id
}

// waits reports whether a grant for the event would admit a waiter: an activity, or, with 1, the execution itself.
func (x *Execution) waits(event uint64) bool {
	if event == 1 {
		return x.pending
	}
	return x.open[event].waits()
}

// grant processes a grant.
func (x *Execution) grant(in *history.Granted) {
	switch w := x.open[in.Scheduled]; {
	case in.Scheduled == 1 && x.pending:
		x.pending = false
		x.begin()
		x.watchUpdates()
	case w.waits():
		w.granted = true
		if w.withdrawn == nil {
			w.owner.answered(w, in)
		}
	case x.past.active:
		x.diverge(x.last, describe(in), "nothing that waits for it")
	default: // it was withdrawn on replay, and the step has begun with its cancellation
	}
}

// begin runs the program.
func (x *Execution) begin() {
	x.main = newStrand(&x.Code, func() {
		e := x.program(&x.Code)
		x.ending = &e
	})
}

// endedBeforeStart accepts the end that the owner has recorded for an execution while it waited (it is cancelled if its limit was
// cleared): it needs no code, and none could have made it.
func (x *Execution) endedBeforeStart(ev history.Event) bool {
	if k := ev.Kind(); !x.pending || k != history.KindFailed && k != history.KindCancelled {
		return false
	}
	x.consume()
	x.left, x.boxes = &left{unread: x.unreadEvents()}, boxes{}
	return true
}
