package replay

import "github.com/pawlrun/pawl/pkg/history"

// What waits at a gate is the owner's business: it enters the gates, and notes in the events of the turn, before they are committed,
// what waits. Here it matters for four things: a grant that nobody waits for is dropped; the program of an instance that
// waits has not begun; the limit of an attempt begins when that is let in; and a pause keeps a slot only if there is one.

// gate is what the schedule of an attempt says about the gate in front of it; nil if that is nothing.
func (c *call) gate() *history.Limit {
	if !c.spec.KeepSlot && c.spec.Declared == nil {
		return nil
	}
	g := &history.Limit{Retain: c.spec.KeepSlot}
	if c.spec.Declared != nil {
		g.Declared = *c.spec.Declared
	}
	return g
}

// waitsAt reports whether whoever has that gate had not been let in when that was recorded. One that nobody has resolved holds nobody up.
func waitsAt(g *history.Limit) bool { return g != nil && g.Name != "" && g.Waiting }

// waits reports whether an activity waits at its gate.
func (w *work) waits() bool {
	return w != nil && w.sched != nil && waitsAt(w.sched.Limit) && !w.granted
}

// slot returns the event id of an attempt whose slot is to be kept, or 0.
func (w *work) slot() uint64 {
	if w == nil || w.sched == nil || w.waits() {
		return 0
	}
	if g := w.sched.Limit; g == nil || g.Name == "" || !g.Retain {
		return 0
	}
	return w.id
}

// waits reports whether a grant for the event would let anybody in: an activity, or, with 1, the execution itself.
func (x *Execution) waits(event uint64) bool {
	if event == 1 {
		return x.pending
	}
	return x.open[event].waits()
}

// letIn carries out a grant.
func (x *Execution) letIn(in *history.Granted) {
	switch w := x.open[in.Scheduled]; {
	case in.Scheduled == 1 && x.pending:
		x.pending = false
		x.begin()
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
	x.main = x.spawn(func() { x.ending = x.program(x) })
}

// turnedAway takes the end that the owner has put to an execution while it waited (it is cancelled if its queue was cleared): it needs no
// code, and there is none that could have made it.
func (x *Execution) turnedAway(ev history.Event) bool {
	if k := ev.Kind(); !x.pending || k != history.KindFailed && k != history.KindCancelled {
		return false
	}
	x.consume()
	x.ended, x.unread, x.boxes = true, x.unreadEvents(), nil
	return true
}
