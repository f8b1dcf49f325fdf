package replay

import (
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// poll is a future that the next Observed settles, after every input that had arrived. It belongs to no scope, because it completes
// within the turn. In a step whose input is Observed, it is settled from the start.
type poll struct {
	Future

	self node[*poll] // node in Code.polls, while the poll is neither settled nor withdrawn
}

func newPoll(x *Code) *poll {
	p := &poll{Future: Future{x: x}}
	if p.settled = x.observed; p.settled {
		return p
	}
	p.source, p.self.value = p, p
	x.polls.push(&p.self)
	return p
}

func (p *poll) withdraw(cancel.Cancelled) bool {
	p.self.unlink()
	return !p.settled
}

// observe completes the polls, in the order in which they began.
func (x *Execution) observe() {
	x.observed = true
	for n := x.polls.head; n != nil; n = x.polls.head {
		n.unlink()
		n.value.settle(history.Payload{}, nil)
	}
}

// Polling reports whether the code polls, that is, waits for Observed. The owner applies Observed once it has applied every input that
// had arrived.
func (x *Execution) Polling() bool { return x.polls.head != nil && x.left == nil }

// Poll blocks until every input that had arrived has been applied. Like Wait, it returns a *cancel.Cancelled when the scope ends.
func (x *Code) Poll(in *Scope) error {
	if err := x.Over(in); err != nil {
		return err
	}
	if x.observed {
		return nil
	}
	p := newPoll(x)
	err := x.Wait(&p.Future, in)
	p.self.unlink()
	return err
}

// Ready reports whether the future is settled, with a value, a failure or a cancellation, once every input that had arrived has been
// applied. It is a poll that no end of a scope ends. Where methods of Code must not be called, it is the same as Settled.
func (f *Future) Ready() bool {
	if f.settled {
		return true
	}
	if _, err := f.x.enter(); err != nil {
		return false
	}
	p := newPoll(f.x)
	_ = f.x.Join(&p.Future) // fails only if enter does
	return f.settled
}

// Settled reports whether the future is already settled.
func (f *Future) Settled() bool { return f.settled }
