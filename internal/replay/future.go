package replay

import (
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Future is the result of a call, a timer, an event or a sibling. It settles once.
type Future struct {
	x       *Code
	waiters list[*strand]
	source  source // nil if the future cannot be withdrawn
	settled bool
	taken   bool // whether its value was read
	value   history.Payload
	err     error
}

// source is what a future gets its value from, and what is withdrawn with it.
type source interface {
	// withdraw is called when the result is no longer needed. If the future is settled, the only thing to return is an event that was
	// not read. withdraw reports whether the future becomes cancelled.
	withdraw(cause cancel.Cancelled) bool
}

// settle sets the value and wakes the waiting strands in the order in which they began to wait. Only the first value counts.
func (f *Future) settle(value history.Payload, err error) {
	if f.settled {
		return
	}
	f.settled, f.value, f.err = true, value, err
	for n := f.waiters.head; n != nil; n = n.next {
		f.x.wake(n.value)
	}
}

// Refuse returns a future that is already settled with the error.
func (x *Code) Refuse(err error) *Future {
	return &Future{x: x, settled: true, err: err}
}

// Value returns what the future settled with: a payload, a *history.Failure, a *cancel.Cancelled or a *Misuse. Reading the value of an
// event consumes the event.
func (f *Future) Value() (history.Payload, error) {
	f.taken = f.settled
	if p, ok := f.source.(*place); ok && f.settled {
		p.used()
		p.x.taken(p.event)
	}
	return f.value, f.err
}

// Withdraw cancels the work behind the future. A settled future keeps its value, except for an unread event, which returns to the front
// of its mailbox. Only the execution that made the future may call it.
func (f *Future) Withdraw(reason cancel.Reason, text string) {
	f.x.mustEnter()
	f.discard(cancel.Cancelled{Reason: reason, Text: text})
	f.x.exit()
}

// discard withdraws the future, unless it is settled with a value that it keeps.
func (f *Future) discard(cause cancel.Cancelled) {
	if f.source == nil || !f.source.withdraw(cause) {
		return
	}
	cause.At = f.x.Now()
	if f.settled {
		f.value, f.err = history.Payload{}, &cause
		return
	}
	f.settle(history.Payload{}, &cause)
}

// Wait blocks until the future is settled. It returns a *cancel.Cancelled when the scope ends, and at once if the scope is over.
func (x *Code) Wait(f *Future, in *Scope) error {
	s, err := x.enter()
	if err != nil {
		return err
	}
	if f.x != x {
		return foreign(x)
	}
	for !f.settled {
		if over := x.over(in); over != nil {
			return over
		}
		f.waiters.push(&s.wait)
		x.in(in).waiting.push(&s.within)
		s.park()
	}
	return nil
}

// Join is like Wait, but the end of a scope does not end it.
func (x *Code) Join(f *Future) error {
	s, err := x.enter()
	if err != nil {
		return err
	}
	if f.x != x {
		return foreign(x)
	}
	for !f.settled {
		f.waiters.push(&s.wait)
		s.park()
	}
	return nil
}

func foreign(x *Code) error {
	return &Misuse{Instance: x.id.Instance, What: "to wait for a future of another instance"}
}

// WaitAny blocks until one of the futures is settled and returns its index, the lowest if several are. It returns a *cancel.Cancelled
// when the scope ends, even if a future is settled by then. Without futures it waits for the end of the scope only.
func (x *Code) WaitAny(fs []*Future, in *Scope) (int, error) {
	s, err := x.enter()
	if err != nil {
		return -1, err
	}
	for _, f := range fs {
		if f.x != x {
			return -1, foreign(x)
		}
	}
	for {
		if over := x.over(in); over != nil {
			return -1, over
		}
		for i, f := range fs {
			if f.settled {
				return i, nil
			}
		}
		if cap(s.waits) < len(fs) {
			s.waits = make([]node[*strand], 0, len(fs))
		}
		s.waits = s.waits[:len(fs)]
		for i, f := range fs {
			s.waits[i].value = s
			f.waiters.push(&s.waits[i])
		}
		x.in(in).waiting.push(&s.within)
		s.park()
	}
}
