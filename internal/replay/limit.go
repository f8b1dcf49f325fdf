package replay

import "github.com/pawlrun/pawl/pkg/history"

// The owner admits attempts and starts at limits. In the events of the turn, before they are committed, it records which of them wait.
// That record matters to this package in four ways: a grant without a waiter is dropped; the program of an instance that waits has not
// begun; the timeout of an attempt starts when it is admitted; and a backoff retains a slot only if the attempt held one.

// declaredLimit returns the limit to record in the schedule of an attempt, or nil if there is none.
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

// waitsAt reports whether the limit is recorded with a caller that waits for admission. A limit that was not resolved blocks no caller.
func waitsAt(g *history.Limit) bool { return g != nil && g.Name != "" && g.Waiting }

// waits reports whether the work is an activity that waits at its limit.
func (w *work) waits() bool {
	return w != nil && w.sched != nil && waitsAt(w.sched.Limit) && !w.granted
}

// slot returns the event id of the attempt if its slot must be retained, and 0 otherwise.
func (w *work) slot() uint64 {
	if w == nil || w.sched == nil || w.waits() {
		return 0
	}
	if g := w.sched.Limit; g == nil || g.Name == "" || !g.Retain {
		return 0
	}
	return w.id
}

// waits reports whether a grant for the event would admit a waiter: an activity or, for event 1, the execution itself.
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
	default: // the code withdrew it on replay, and this step began by recording its cancellation
	}
}

// begin starts the program.
func (x *Execution) begin() {
	x.main = newStrand(&x.Code, func() {
		e := x.program(&x.Code)
		x.ending = &e
	})
}

// endedBeforeStart accepts an end that the owner recorded while the execution waited for admission (it is Cancelled if an operator
// cleared the limit). No code ran, so no code has to produce it.
func (x *Execution) endedBeforeStart(ev history.Event) bool {
	if k := ev.Kind(); !x.pending || k != history.KindFailed && k != history.KindCancelled {
		return false
	}
	x.consume()
	x.left, x.boxes = &left{unread: x.unreadEvents()}, boxes{}
	return true
}
