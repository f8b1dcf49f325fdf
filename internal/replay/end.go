package replay

import (
	"encoding/json"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// ContinueAsNew requests that another execution follows, with the payload as its input and with the given version; empty means the
// newest. It cancels nothing and ends nothing by itself: if the program returns without a failure, the end is ContinuedAsNew instead of
// Completed; with a failure it is Failed, as if nothing had been requested. If it is called several times, the last call applies.
//
// After a cancellation it returns the *cancel.Cancelled of the root scope: a cancelled instance does not continue. If the cancellation
// arrives between the call and the return, the end is Cancelled, because the next execution would not receive the cancellation. The error
// may also be that of the scope of the call, or a *history.Failure for a payload over the limit.
func (x *Code) ContinueAsNew(payload history.Payload, version string, in *Scope) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	for _, s := range []*Scope{x.root, in} {
		if over := x.over(s); over != nil {
			return over
		}
	}
	if f := x.tooLarge(payload, "the input of the next execution"); f != nil {
		return f
	}
	x.next = &history.ContinuedAsNew{Payload: payload, Version: version}
	return nil
}

// Continues reports whether ContinueAsNew was called. If so, the result of the program is ignored.
func (x *Code) Continues() bool { return x.next != nil }

// Continued returns the ContinuedAsNew of an execution that has continued as new, and the events that it received but did not read, in
// the order of their arrival: those without a wait, those of a wait whose result was not read, and those of the turn that ended it. They
// belong to the next execution and must not be modified. Inputs that were dropped because the execution had ended are not included. For
// any other execution it returns nil.
func (x *Execution) Continued() (end *history.ContinuedAsNew, unread []*history.EventReceived) {
	l := x.left.value()
	if l.continued == nil {
		return nil, nil
	}
	return l.continued, l.unread
}

// Unread returns the events that an execution had received but not read when it ended, however it ended. They must not be modified.
func (x *Execution) Unread() []*history.EventReceived { return x.left.value().unread }

// Successor returns the start of the execution that follows one which has continued as new, and nil after any other end. Its time is that
// of the end. The caller owns it.
func (x *Execution) Successor() *history.Started {
	end, _ := x.Continued()
	if end == nil {
		return nil
	}
	s := *x.started
	s.Head, s.Cancel, s.StartAt, s.Reuse, s.Recorded = history.Head{At: x.now}, nil, 0, 0, nil
	s.Version, s.Payload = end.Version, end.Payload
	s.Execution, s.StatusVersion = x.id.Execution+1, x.started.StatusVersion+x.sets
	s.CustomStatus, s.Attributes = x.sealedStatus(x.currentStatus()), x.currentAttributes()
	if s.Limit != nil { // the next execution keeps the slot
		g := *s.Limit
		g.Waiting = false
		s.Limit = &g
	}
	return &s
}

// finish ends the execution: it cancels the outstanding work and then records the end.
func (x *Execution) finish(e Ending) {
	end, cause := x.endOf(e)
	for _, w := range x.ascending() {
		if w.kind != timerWork && !w.abandoned && w.withdrawn == nil {
			w.cancel(&x.Code, cause)
		}
	}
	if x.past.active {
		met := x.match(end)
		if met == nil || !x.samePayload(met, payloadOf(met), payloadOf(end)) {
			return
		}
		x.verifyCancels()
		end = met
	} else {
		x.append(end)
	}
	l := &left{unread: x.unreadEvents()}
	if l.continued, _ = end.(*history.ContinuedAsNew); l.continued != nil {
		l.carried = x.carry()
	}
	clear(x.open)
	x.wanted, x.timers, x.boxes = 0, nil, boxes{}
	x.left = l
}

// endOf returns the end of an execution whose program returned e, and the cause with which its outstanding work is cancelled.
func (x *Execution) endOf(e Ending) (end history.Event, workCause cancel.Cancelled) {
	cause := x.root.cause
	switch {
	case e.Failure != nil:
	case x.next != nil && cause != nil:
		e = Ending{Failure: CancelledFailure(cause), Cancelled: true}
	case x.next != nil:
		return x.next, cancel.Cancelled{Reason: cancel.ContinuedAsNew}
	default:
		if f := x.tooLarge(e.Result, "the result"); f != nil {
			e = Ending{Failure: f}
		}
	}
	switch {
	case e.Failure == nil:
		return &history.Completed{Result: e.Result}, cancel.Cancelled{Reason: cancel.OrchestrationCompleted}
	case cause != nil && e.Cancelled:
		return &history.Cancelled{Failure: *e.Failure, By: cause.By, Text: cause.Text}, *cause
	default:
		return &history.Failed{Failure: *e.Failure}, cancel.Cancelled{Reason: cancel.OrchestrationFailed}
	}
}

// TypeCancelled is the content type of the data of a failure that is a cancellation: a cancel.Cancelled in JSON.
const TypeCancelled = "application/vnd.pawl.cancelled+json"

// CancelledFailure returns a cancellation in the form that histories store.
func CancelledFailure(c *cancel.Cancelled) *history.Failure {
	f := &history.Failure{Code: history.CodeCancelled, Message: c.Error()}
	if data, err := json.Marshal(c); err == nil { //nolint:musttag // histories have its fields under their own names
		f.Data = history.Payload{Type: TypeCancelled, Data: data}
	}
	return f
}
