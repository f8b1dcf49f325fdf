package replay

import (
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// sibling is a strand that runs concurrently with the main one, in its own scope.
type sibling struct {
	Future
	scope *Scope
}

// Go runs fn on a sibling strand, interleaved with the others at the methods that wait, never in parallel. The sibling has its own scope
// inside the given one, which is closed when fn returns. Then the future settles, without a value. Withdrawing the future ends that
// scope. A panic in fn fails the execution.
func (x *Code) Go(in *Scope, fn func(*Scope)) *Future {
	if _, err := x.enter(); err != nil {
		return x.Refuse(err)
	}
	g := &sibling{Future: Future{x: x}, scope: newScope(x, x.in(in))}
	g.source, g.scope.sibling = g, g
	newStrand(x, func() {
		fn(g.scope)
		x.Close(g.scope)
	}).done = &g.Future
	return &g.Future
}

// withdraw ends the sibling's scope. The future settles when the sibling's code has returned.
func (g *sibling) withdraw(cause cancel.Cancelled) bool {
	if !g.settled {
		cause.At = g.x.Now()
		g.scope.end(g.x, cause)
	}
	return false
}

// Await blocks until cond, which depends on other strands, is true. cond is evaluated at once. After that, whenever everything that an
// input has woken has run, every awaited condition is evaluated once, in the order in which the waits began, and a strand whose condition
// is true continues at once. This repeats until no condition is true. Await returns a *cancel.Cancelled when the scope ends. A method
// that cond calls returns a *Misuse.
func (x *Code) Await(cond func() bool, in *Scope) error {
	s, err := x.enter()
	if err != nil {
		return err
	}
	for !s.evaluate(cond) {
		if over := x.over(in); over != nil {
			x.moved = true
			return over
		}
		x.awaiting.push(&s.wait)
		x.in(in).waiting.push(&s.within)
		s.park()
	}
	x.moved = true
	return nil
}

func (s *strand) evaluate(cond func() bool) bool {
	s.barred = "in the condition of an Await, which must not wait or decide"
	defer s.unbar()
	return cond()
}

func (s *strand) unbar() { s.barred = "" }

// recheck makes every strand in Await evaluate its condition once more, and reports whether one has continued.
func (x *Execution) recheck() bool {
	x.moved = false
	waiting := 0
	for n := x.awaiting.head; n != nil; n = n.next {
		waiting++
	}
	for ; waiting > 0 && x.left == nil && !x.unwinding; waiting-- {
		first := x.awaiting.head
		if first == nil {
			break
		}
		x.resume(first.value)
		x.after(first.value)
	}
	return (x.moved || len(x.runnable) > 0) && x.left == nil && !x.unwinding
}

// SideEffect runs fn, which must not call a method of Code, and records its result. On replay it returns the recorded result without
// running fn. A payload over the limit is recorded as a failure. If the process dies between the run and the commit of the turn, fn runs
// again.
func (x *Code) SideEffect(fn func() (history.Payload, *history.Failure), in *Scope) (history.Payload, error) {
	s, err := x.enter()
	if err != nil {
		return history.Payload{}, err
	}
	if over := x.over(in); over != nil {
		return history.Payload{}, over
	}
	var result history.Payload
	var failure *history.Failure
	switch {
	case x.past.active:
		met, ok := x.match(new(history.SideEffectRecorded)).(*history.SideEffectRecorded)
		if ok {
			result, failure = x.unseal(met.Result), x.unsealFailure(met.Failure)
		}
	case x.overdrawn():
		x.exceed()
	default:
		result, failure = s.effect(fn)
		ev := &history.SideEffectRecorded{Result: result, Failure: failure}
		x.append(ev)
		x.room -= sizeOf(ev)
	}
	x.exit()
	if failure != nil {
		return history.Payload{}, failure
	}
	return result, nil
}

func (s *strand) effect(fn func() (history.Payload, *history.Failure)) (history.Payload, *history.Failure) {
	s.barred = "in a SideEffect, which must not wait or decide"
	defer s.unbar()
	result, failure := fn()
	if failure == nil {
		failure = s.x.tooLarge(result, "the value of a side effect")
	}
	if failure == nil {
		failure = s.x.noRoom(&history.SideEffectRecorded{Result: result})
	}
	if failure != nil {
		return history.Payload{}, failure
	}
	return result, nil
}
