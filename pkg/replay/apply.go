package replay

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Outcome is what became of an input.
type Outcome uint8

// The outcomes. Only an applied input is recorded.
const (
	Applied         Outcome = iota + 1
	DroppedLate             // its activity or timer is not outstanding: answered, cancelled, or never scheduled
	DroppedRepeated         // a second start or cancellation
	DroppedEnded            // the execution had ended
)

// Dropped reports whether the input had no effect.
func (o Outcome) Dropped() bool { return o != Applied }

// String gives the outcome as logs show it.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case DroppedLate:
		return "dropped-late"
	case DroppedRepeated:
		return "dropped-repeated"
	case DroppedEnded:
		return "dropped-ended"
	default:
		return fmt.Sprintf("outcome-%d", uint8(o))
	}
}

// Apply takes one input and runs the code until it is blocked again. The input gets
// its id, and a TimerFired the time of its timer, so the caller must not reuse it.
// A dropped input changes nothing. The error is that of an execution that can not be
// used: a *Divergence, ErrEvicted, ErrNotStarted, ErrBusy.
func (x *Execution) Apply(in history.Event) (Outcome, error) {
	if err := x.usable(); err != nil {
		return 0, err
	}
	if !in.Input() {
		return 0, fmt.Errorf("replay: %s: %s is no input", x.id.Instance, describe(in))
	}
	outcome, err := x.admit(in)
	if err != nil || outcome.Dropped() {
		return outcome, err
	}
	x.append(in)
	x.step(in)
	return outcome, x.err
}

// admit says whether the input still concerns anybody.
func (x *Execution) admit(in history.Event) (Outcome, error) {
	_, start := in.(*history.Started)
	switch {
	case x.ended:
		return DroppedEnded, nil
	case start && x.last > 0:
		return DroppedRepeated, nil
	case !start && x.last == 0:
		return 0, fmt.Errorf("%s: %w, and this is %s", x.id.Instance, ErrNotStarted, describe(in))
	}
	if _, ok := in.(*history.CancelRequested); ok && x.root.cause != nil {
		return DroppedRepeated, nil //nolint:nilerr // the cancellation is no error of this call
	}
	if id, timer, ok := answers(in); ok {
		w := x.open[id]
		if w == nil || w.timer != timer {
			return DroppedLate, nil
		}
		if timer {
			in.Meta().At = w.fireAt
		}
	}
	return Applied, nil
}

// answers gives the schedule that the input is the answer to, if it is one.
func answers(in history.Event) (id uint64, timer, ok bool) {
	switch in := in.(type) {
	case *history.ActivityCompleted:
		return in.Scheduled, false, true
	case *history.ActivityFailed:
		return in.Scheduled, false, true
	case *history.TimerFired:
		return in.Timer, true, true
	default:
		return 0, false, false
	}
}

// append records a live event. The time of a decision is the Now of its step.
func (x *Execution) append(ev history.Event) {
	head := ev.Meta()
	x.last++
	head.ID = x.last
	if !ev.Input() {
		head.At = x.now
	}
	x.fresh = append(x.fresh, ev)
	if x.last >= x.opts.Limits.WarnEvents && !x.warned {
		x.warned = true
		x.opts.Logger.Warn("the history of an execution grows long",
			"instance", x.id.Instance, "execution", x.id.Execution, "events", x.last, "limit", x.opts.Limits.Events)
	}
}

// step carries one recorded input through: time, what it settles, the strands.
func (x *Execution) step(in history.Event) {
	x.seeds.advance()
	x.now = max(x.now, in.Meta().At)
	x.recordWithdrawn(in)
	if x.overdrawn() {
		x.exceed()
	} else {
		x.deliver(in)
	}
	x.drain()
	if x.past.active {
		x.closeStep()
	}
	if x.ended || x.unwinding {
		if err := x.unwind(); err != nil {
			x.opts.Logger.Error("deferred orchestration code panicked while it was unwound",
				"instance", x.id.Instance, "execution", x.id.Execution, "error", err)
		}
	}
}

// deliver settles what the input settles.
func (x *Execution) deliver(in history.Event) {
	switch in := in.(type) {
	case *history.Started:
		x.started = *in
		x.main = x.spawn(func() { x.ending = x.program(x) })
	case *history.EventReceived:
		x.mailbox(in.Name).post(letter{id: in.ID, payload: in.Payload})
	case *history.CancelRequested:
		x.end(x.root, cancel.Cancelled{Reason: cancel.Requested, By: in.By, Text: in.Text, At: in.Time()})
	case *history.ActivityCompleted, *history.ActivityFailed, *history.TimerFired:
		id, _, _ := answers(in)
		w := x.open[id]
		if w == nil {
			x.diverge(x.last, describe(in), "nothing outstanding that it answers")
			return
		}
		x.remove(w)
		if w.withdrawn == nil {
			w.owner.answered(w, in)
		}
	}
}

// finish ends the execution: first what is outstanding, then the end itself.
func (x *Execution) finish(e Ending) {
	if e.Failure == nil {
		if f := x.tooLarge(e.Result, "the result"); f != nil {
			e = Ending{Failure: f}
		}
	}
	var end history.Event
	why := cancel.Cancelled{Reason: cancel.OrchestrationFailed}
	switch {
	case e.Failure == nil:
		why.Reason = cancel.OrchestrationCompleted
		end = &history.Completed{Result: e.Result}
	case x.root.cause != nil && e.Cancelled:
		why = *x.root.cause
		end = &history.Cancelled{Failure: *e.Failure, By: why.By, Text: why.Text}
	default:
		end = &history.Failed{Failure: *e.Failure}
	}
	for _, w := range x.ascending() {
		if !w.timer && w.withdrawn == nil {
			x.cancel(w, why)
		}
	}
	if x.past.active {
		met := x.meet(end.Kind(), "", end)
		if met == nil {
			return
		}
		if c, ok := met.(*history.Completed); ok && !x.samePayload(met, c.Result, e.Result) {
			return
		}
		x.settleOwed()
	} else {
		x.append(end)
	}
	clear(x.open)
	x.activities, x.timers, x.mail = 0, nil, nil
	x.ended = true
}
