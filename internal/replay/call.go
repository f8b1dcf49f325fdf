package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Call is a request to run an activity or a child.
type Call struct {
	Child          *Child // nil for an activity
	Activity       string
	Queue          string
	Payload        history.Payload
	Retry          Retry
	AttemptTimeout time.Duration // bounds one attempt of an activity, from its schedule by its owner's clock (see ExtendTimer) or from its admission; 0 means none
	Within         time.Duration // bounds the whole call, including backoffs and waits at a limit; 0 means none
	Scope          *Scope        // the call is cancelled when this ends, unless it is an abandoned child

	Declared *history.Declared // limits of the activity, for the owner; must not be modified; nil means none
	KeepSlot bool              // a failed attempt passes its slot on to the next
}

// Retry is the policy for further attempts after a failure. The zero value allows one attempt.
type Retry struct {
	Attempts int           // maximum number of attempts, including the first; below 2 means no retry
	Initial  time.Duration // backoff after the first failure
	Factor   float64       // ratio of each backoff to the previous one
	Max      time.Duration // maximum backoff
	Unless   []string      // codes of failures that are final
	Limited  bool          // rejections by a limit are retried, too
}

// WithDefaults returns the policy with its zero fields set: 5 attempts and a backoff of one second, doubled up to one minute.
func (r Retry) WithDefaults() Retry {
	if r.Attempts == 0 {
		r.Attempts = 5
	}
	if r.Initial <= 0 {
		r.Initial = time.Second
	}
	if r.Factor < 1 {
		r.Factor = 2
	}
	if r.Max <= 0 {
		r.Max = time.Minute
	}
	return r
}

func (r *Retry) allowsAfter(attempt uint32, f *history.Failure) bool {
	if int64(attempt) >= int64(r.Attempts) || f.Permanent {
		return false
	}
	if !r.Limited && (limit.IsCode(f.Code) || slices.ContainsFunc(f.Also, limit.IsCode)) {
		return false
	}
	return !slices.ContainsFunc(r.Unless, func(code string) bool {
		return code == f.Code || slices.Contains(f.Also, code)
	})
}

func (r *Retry) backoff(attempt uint32) time.Duration {
	d := float64(r.Initial) * math.Pow(r.Factor, float64(attempt-1))
	if d < float64(r.Max) {
		return time.Duration(d)
	}
	return r.Max
}

// call is a Call in progress. It proceeds when one of its works is answered, before any strand runs:
//
//	attempt fails  ─▶ backoff ─▶ attempt …          until one completes, or Retry refuses
//	limit fires    ─▶ the attempt is cancelled and has failed; no effect while it waits at its limit
//	it is admitted ─▶ its timeout restarts
//	deadline fires ─▶ all work is cancelled and the call has failed
//
// Each attempt of a child is a separate instance, which only the deadline cancels.
type call struct {
	Future
	spec     Call
	home     *Scope // scope of its works; nil means none
	number   uint32 // number of the attempt, from 1
	first    string // effect id of the first attempt, once it is scheduled
	attempt  *work
	limit    *work // timer of the attempt timeout
	backoff  *work
	deadline *work
}

// Call schedules the activity or starts the child. The future settles with its result, with a *history.Failure, or with a
// *cancel.Cancelled. A cancelled call settles at once, without waiting for the activity or child to end.
func (x *Code) Call(spec Call) *Future {
	if err := x.Over(spec.Scope); err != nil {
		return x.Refuse(err)
	}
	if spec.Child != nil {
		spec.AttemptTimeout = 0
	}
	c := &call{Future: Future{x: x}, spec: spec, home: x.in(spec.Scope)}
	c.source = c
	c.begin()
	if spec.Within > 0 && !c.settled && !x.unwinding {
		c.deadline = x.scheduleTimer(&history.TimerScheduled{}, spec.Within, c.home, c)
	}
	x.exit()
	return &c.Future
}

// what describes the callee in messages.
func (c *call) what() string {
	if c.spec.Child != nil {
		return "child " + c.spec.Child.Name
	}
	return "activity " + c.spec.Activity
}

// tooLarge returns the failure of a payload over the limit, or nil.
func (x *record) tooLarge(p history.Payload, what string) *history.Failure {
	return tooLarge(p, what, x.opts.Limits.Payload)
}

func tooLarge(p history.Payload, what string, limit int) *history.Failure {
	if len(p.Data) <= limit {
		return nil
	}
	return &history.Failure{
		Code: history.CodeTooLarge, Permanent: true,
		Message: fmt.Sprintf("%s has %d bytes, and the limit is %d", what, len(p.Data), limit),
	}
}

// begin schedules the next attempt.
func (c *call) begin() {
	var refused *history.Failure
	if c.spec.Child != nil {
		c.attempt, refused = c.scheduleChild()
	} else {
		c.attempt, refused = c.scheduleActivity()
	}
	if refused != nil {
		c.conclude(history.Payload{}, refused)
		return
	}
	if c.attempt != nil && c.spec.AttemptTimeout > 0 {
		c.limit = c.x.scheduleTimer(&history.TimerScheduled{AttemptTimeoutOf: c.attempt.id}, c.spec.AttemptTimeout, c.home, c)
	}
}

// limited returns the failure of a call that exceeds a limit, or nil. The payload is checked with the first attempt only.
func (c *call) limited() *history.Failure {
	x := c.x
	switch limit := x.opts.Limits.Outstanding; {
	case x.past.active:
		return nil
	case c.number <= 1 && len(c.spec.Payload.Data) > x.opts.Limits.Payload:
		return x.tooLarge(c.spec.Payload, "the input of "+c.what())
	case c.spec.Child != nil && x.depth() >= x.opts.Limits.Depth:
		return &history.Failure{
			Code: history.CodeTooDeep, Permanent: true,
			Message: fmt.Sprintf("%s was not started: this instance is %d levels of children deep, which is the limit", c.what(), x.depth()),
		}
	case x.wanted >= limit:
		return &history.Failure{
			Code: history.CodeTooMany, Permanent: true,
			Message: fmt.Sprintf("%s was not scheduled: %d activities and children are outstanding, which is the limit", c.what(), limit),
		}
	default:
		return nil
	}
}

func (c *call) future() *Future { return &c.Future }

func (c *call) answered(w *work, in history.Event) {
	switch w {
	case c.attempt:
		switch in.(type) {
		case *history.Granted:
			c.admitted()
			return
		case *history.Resumed, *history.Rewound:
			c.repeatAttempt()
			return
		}
		c.attempt = nil
		c.drop(cancel.Cancelled{Reason: cancel.LostSelect}, &c.limit)
		switch e := in.(type) {
		case *history.ActivityCompleted:
			c.conclude(c.x.unseal(e.Result), nil)
		case *history.ActivityFailed:
			c.failed(w, c.x.unsealFailure(&e.Failure))
		case *history.ChildCompleted:
			c.conclude(c.x.unseal(e.Result), nil)
		case *history.ChildFailed:
			c.failed(w, c.x.unsealFailure(&e.Failure))
		}
	case c.limit:
		c.limit = nil
		attempt := c.attempt
		if attempt.waits() {
			return
		}
		f := c.timeout("attempt timed out after %s", c.spec.AttemptTimeout)
		c.drop(cancel.Cancelled{Reason: cancel.TimedOut, Text: f.Message}, &c.attempt)
		c.failed(attempt, f)
	case c.backoff:
		c.backoff = nil
		c.begin()
	case c.deadline:
		c.deadline = nil
		f := c.timeout("call timed out after %s", c.spec.Within)
		f.Permanent = true
		c.drop(cancel.Cancelled{Reason: cancel.TimedOut, Text: f.Message}, &c.attempt, &c.limit, &c.backoff)
		c.conclude(history.Payload{}, f)
	}
}

func (c *call) timeout(format string, d time.Duration) *history.Failure {
	return &history.Failure{Code: history.CodeTimeout, Message: fmt.Sprintf(format, d)}
}

// admitted restarts the timeout of an attempt that has waited at its limit, because the timeout bounds the time in which the activity may
// run.
func (c *call) admitted() {
	if c.spec.AttemptTimeout <= 0 {
		return
	}
	c.drop(cancel.Cancelled{Reason: cancel.LostSelect}, &c.limit)
	c.limit = c.x.scheduleTimer(&history.TimerScheduled{AttemptTimeoutOf: c.attempt.id}, c.spec.AttemptTimeout, c.home, c)
}

// failed continues after the failure of an attempt.
func (c *call) failed(attempt *work, f *history.Failure) {
	cancelled := c.spec.Child != nil && (f.Code == history.CodeCancelled || slices.Contains(f.Also, history.CodeCancelled)) // by a requester other than this call
	if cancelled || !c.spec.Retry.allowsAfter(c.number, f) {
		c.conclude(history.Payload{}, f)
		return
	}
	if d := c.spec.Retry.backoff(c.number); d > 0 {
		c.backoff = c.x.scheduleTimer(&history.TimerScheduled{RetainsSlotOf: attempt.slot()}, d, c.home, c)
		return
	}
	c.begin()
}

func (c *call) conclude(result history.Payload, f *history.Failure) {
	c.drop(cancel.Cancelled{Reason: cancel.LostSelect}, &c.deadline)
	if f != nil {
		c.settle(history.Payload{}, f)
		return
	}
	c.settle(result, nil)
}

// withdraw cancels all outstanding work of the call, in ascending order of id.
func (c *call) withdraw(cause cancel.Cancelled) bool {
	if c.settled {
		return false
	}
	c.drop(cause, &c.attempt, &c.limit, &c.backoff, &c.deadline)
	return true
}

func (c *call) drop(cause cancel.Cancelled, works ...**work) {
	slices.SortFunc(works, func(a, b **work) int { return cmp.Compare((*a).order(), (*b).order()) })
	for _, w := range works {
		if *w != nil {
			(*w).cancel(c.x, cause)
			*w = nil
		}
	}
}

func (w *work) order() uint64 {
	if w == nil {
		return 0
	}
	return w.id
}
