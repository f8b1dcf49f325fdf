package replay

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Outcome reports what Apply did with an input.
type Outcome uint8

// The outcomes. Only an applied input is recorded.
const (
	Applied         Outcome = iota + 1
	DroppedLate             // it answers nothing outstanding, revokes another start, grants to no waiter, or observes before the program has begun
	DroppedRepeated         // a second start or cancellation, or an update that is already open
	DroppedEnded            // the execution had ended
)

// Dropped reports whether the input had no effect.
func (o Outcome) Dropped() bool { return o != Applied }

// String returns the outcome in the form used in logs.
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

// Apply takes one input and runs the code until it is blocked again. Apply sets the input's id, the time of a TimerFired to that of its
// timer, and the time of an Observed to that of the previous input, so the caller must not reuse the input. A dropped input changes
// nothing. Errors: a *Divergence, ErrEvicted, ErrNotStarted, ErrBusy.
func (x *Execution) Apply(in history.Event) (Outcome, error) {
	if err := x.usable(); err != nil {
		return 0, err
	}
	if k := in.Kind(); k == history.KindPurgeRequested || k == history.KindOperatorRequested || !in.Input() {
		return 0, fmt.Errorf("replay: %s: %s is not an input of a turn", x.id.Instance, describe(in))
	}
	outcome, err := x.admit(in)
	if err != nil || outcome.Dropped() {
		return outcome, err
	}
	x.append(in)
	x.step(in)
	return outcome, x.err
}

// admit decides whether the input is applied or dropped.
func (x *Execution) admit(in history.Event) (Outcome, error) {
	_, start := in.(*history.Started)
	switch {
	case x.left != nil:
		return DroppedEnded, nil
	case start && x.last > 0:
		return DroppedRepeated, nil
	case !start && x.last == 0:
		return 0, fmt.Errorf("%s: %w, and this is %s", x.id.Instance, ErrNotStarted, describe(in))
	}
	if c, ok := in.(*history.CancelRequested); ok {
		switch p := x.started.Parent; {
		case x.root.cause != nil:
			return DroppedRepeated, nil //nolint:nilerr // the cancellation is no error of this call
		case c.Of != "" && (p == nil || p.Effect != c.Of):
			return DroppedLate, nil
		}
	}
	if g, ok := in.(*history.Granted); ok && !x.waits(g.Scheduled) {
		return DroppedLate, nil
	}
	if u, ok := in.(*history.UpdateReceived); ok && x.updates[effectid.Update(u)] != nil {
		return DroppedRepeated, nil
	}
	if o, ok := in.(*history.Observed); ok {
		if x.pending {
			return DroppedLate, nil
		}
		o.At = x.now
	}
	if a, ok := answers(in); ok {
		w := x.answeredBy(a)
		if w == nil {
			return DroppedLate, nil
		}
		if w.kind == timerWork {
			in.Meta().At = w.fireAt
		}
	}
	return Applied, nil
}

// answer identifies the schedule that an input answers.
type answer struct {
	id     uint64
	kind   workKind
	effect string // effect id that the end of a child carries
}

// answers returns the schedule that the input answers. ok is false if it answers none.
func answers(in history.Event) (a answer, ok bool) {
	switch in := in.(type) {
	case *history.ActivityCompleted:
		return answer{id: in.Scheduled}, true
	case *history.ActivityFailed:
		return answer{id: in.Scheduled}, true
	case *history.TimerFired:
		return answer{id: in.Timer, kind: timerWork}, true
	case *history.ChildCompleted:
		return answer{id: in.Scheduled, kind: childWork, effect: in.Effect}, true
	case *history.ChildFailed:
		return answer{id: in.Scheduled, kind: childWork, effect: in.Effect}, true
	default:
		return answer{}, false
	}
}

// answeredBy returns the outstanding work that the answer belongs to, or nil.
func (x *outstanding) answeredBy(a answer) *work {
	w := x.open[a.id]
	if w == nil || w.kind != a.kind || w.effect != a.effect {
		return nil
	}
	return w
}

// append records a live event. The time of a decision is the Now of its step.
func (x *record) append(ev history.Event) {
	head := ev.Meta()
	x.last++
	head.ID = x.last
	if !ev.Input() {
		head.At = x.now
		seal(x, ev)
	}
	x.fresh = append(x.fresh, ev)
	if x.last >= x.opts.Limits.WarnEvents && !x.warned {
		x.warned = true
		x.opts.Logger.Warn("execution history is long",
			"instance", x.id.Instance, "execution", x.id.Execution, "events", x.last, "limit", x.opts.Limits.Events)
	}
}

// step processes one recorded input: it advances the time, settles what the input answers, and runs the strands.
func (x *Execution) step(in history.Event) {
	x.seeds.advance()
	x.observed = false
	x.now = max(x.now, in.Meta().At)
	x.recordWithdrawn(in)
	if x.overdrawn() {
		x.exceed()
	} else {
		x.deliver(in)
	}
	x.drain()
	x.room = MaxRoom
	if x.past.active {
		x.closeStep()
	}
	if x.unwinding && x.givenUp.Load() && x.err == nil {
		x.err = fmt.Errorf("%w (%s)", ErrGivenUp, x.id.Instance)
	}
	if x.left != nil || x.unwinding {
		x.unwindAndLog()
	}
}

// unwindAndLog unwinds the code of an execution that will not continue, and logs a panic in its deferred functions.
func (x *Execution) unwindAndLog() {
	if err := x.unwind(); err != nil {
		x.opts.Logger.Error("deferred orchestration code panicked",
			"instance", x.id.Instance, "execution", x.id.Execution, "error", err)
	}
}

// deliver applies the effect of the input: it settles what the input answers.
func (x *Execution) deliver(in history.Event) {
	switch in := in.(type) {
	case *history.Started:
		x.started = opened(in, x.unseal)
		if in.Execution != 0 { // in a rewound history: the execution that the kept events belong to
			x.id = effectid.IdentityOf(in, x.own, in.Execution)
		}
		if x.pending = waitsAt(in.Limit); !x.pending {
			x.begin()
		}
		if in.Cancel != nil {
			x.requestEnd(*in.Cancel)
		}
	case *history.Granted:
		x.grant(in)
	case *history.EventReceived:
		x.mailbox(in.Name).post(in)
	case *history.UpdateReceived:
		x.receiveUpdate(in)
	case *history.Observed:
		x.observe()
	case *history.Resumed:
		if in.Stopped {
			x.reschedule(in, in.Answered)
		}
	case *history.Rewound:
		x.id = effectid.IdentityOf(x.started, x.own, in.Execution)
		x.reschedule(in, in.Answered)
	case *history.CancelRequested:
		x.requestEnd(history.CancelNote{At: in.At, Reason: in.Reason, By: in.By, Text: in.Text})
	case *history.ActivityCompleted, *history.ActivityFailed, *history.TimerFired, *history.ChildCompleted, *history.ChildFailed:
		a, _ := answers(in)
		w := x.answeredBy(a)
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

// opened returns the start with its payloads opened. If they are not sealed, it returns the event itself.
func opened(in *history.Started, unseal func(history.Payload) history.Payload) *history.Started {
	if in.Payload.Type != history.TypeSealed && in.CustomStatus.Type != history.TypeSealed {
		return in
	}
	s := *in
	s.Payload, s.CustomStatus = unseal(in.Payload), unseal(in.CustomStatus)
	return &s
}

// requestEnd cancels the instance, whether its execution is running or still pending.
func (x *Execution) requestEnd(c history.CancelNote) {
	x.root.end(&x.Code, cancel.Cancelled{Reason: cmp.Or(c.Reason, cancel.Requested), By: c.By, Text: c.Text, At: time.UnixMilli(c.At).UTC()})
	if x.pending { // the code never runs
		x.finish(Ending{Failure: CancelledFailure(x.root.cause), Cancelled: true})
	}
}
