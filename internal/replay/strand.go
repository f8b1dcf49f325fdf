package replay

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"

	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// strand is one coroutine of an execution. The root runs the program; the others are its siblings.
//
//	made ──resume──▶ running ──park──▶ parked ──wake, resume──▶ running …
//	                    │                 └──dispose──▶ over
//	                    ├── returns, panics ──▶ over
//	                    └── Goexit ──▶ over, but its stack is still suspended in leave; dispose frees it
type strand struct {
	x    *Code
	fn   func()
	self node[*strand] // node in scheduler.strands

	next  func() (struct{}, bool)
	yield func(struct{}) bool

	// The waits of the strand. A waiting strand is in the lists of the futures that it waits for, and leaves all of them when it is
	// resumed.
	wait   node[*strand]   // wait for one future or a condition
	waits  []node[*strand] // waits for the first of several futures
	within node[*strand]   // node in the scope whose end ends the wait, if any
	number uint64          // number in order of creation
	barred string          // why methods must not be called at present; empty if they may

	done      *Future // future to settle when a sibling returns; nil for the root
	panicked  *history.Failure
	queued    bool // whether the strand is in scheduler.runnable
	returned  bool
	over      bool
	disposing bool // resumed by a goroutine that a Goexit may end
}

// newStrand creates a strand that runs after those that are already woken.
func newStrand(x *Code, fn func()) *strand {
	x.made++
	s := &strand{x: x, fn: fn, number: x.made}
	s.self.value, s.wait.value, s.within.value = s, s, s
	x.strands.push(&s.self)
	x.wake(s)
	return s
}

func (x *scheduler) wake(s *strand) {
	if !s.queued && !s.over {
		s.queued = true
		x.runnable = append(x.runnable, s)
	}
}

// drain runs the woken strands in order, and then those that await a condition that has become true, until all strands are blocked or the
// execution has ended or is broken.
func (x *Execution) drain() {
	for again := true; again; again = x.recheck() {
		x.runWoken()
	}
	if x.excess != nil && x.left == nil {
		x.finish(Ending{Failure: x.excess})
	}
}

func (x *Execution) runWoken() {
	for i := 0; i < len(x.runnable); i++ { //nolint:intrange // it grows while it is walked
		s := x.runnable[i]
		s.queued = false
		if x.left != nil || x.unwinding {
			continue
		}
		x.resume(s)
		x.after(s)
	}
	clear(x.runnable)
	x.runnable = x.runnable[:0]
}

// resume switches to the strand until it parks or is over.
func (x *scheduler) resume(s *strand) {
	if s.next == nil {
		s.next, _ = iter.Pull(s.body)
	}
	x.current.Store(s)
	s.next()
	x.current.Store(nil)
}

// after handles the end of a strand, if it is over, after it was resumed.
func (x *Execution) after(s *strand) {
	if !s.over {
		return
	}
	s.self.unlink()
	if !s.returned {
		s.dispose()
	}
	switch {
	case x.unwinding:
	case s.panicked != nil:
		x.finish(Ending{Failure: s.panicked})
	case !s.returned:
		x.finish(Ending{Failure: &history.Failure{
			Code: history.CodePanic, Message: "the orchestration's code called runtime.Goexit",
		}})
	case s == x.main:
		x.finish(*x.ending)
	case s.done != nil:
		s.done.settle(history.Payload{}, nil)
	}
}

// body is the coroutine. A panic is recovered in call. A Goexit is detected in leave, one level further out, because a Goexit continues
// after a panic that was raised and recovered in the meantime.
func (s *strand) body(yield func(struct{}) bool) {
	s.yield = yield
	debug.SetPanicOnFault(true)
	defer s.leave()
	s.call()
	s.returned = true
}

func (s *strand) call() {
	defer func() {
		if p := recover(); p != nil {
			s.panicked = PanicFailure(p, debug.Stack())
		}
	}()
	s.fn()
}

func (s *strand) leave() {
	s.over = true
	if !s.returned && !s.disposing {
		s.yield(struct{}{})
	}
}

// dispose runs the rest of a strand on a goroutine that its Goexit may end, and waits for that goroutine.
func (s *strand) dispose() {
	gone := make(chan struct{})
	s.disposing = true
	s.x.current.Store(s)
	go func() {
		defer close(gone)
		s.next()
	}()
	<-gone
	s.x.current.Store(nil)
}

// unwind disposes of every strand that is not over, youngest first, and returns a panic of their deferred functions.
func (x *scheduler) unwind() error {
	x.unwinding = true
	var err error
	for n := x.strands.tail; n != nil; n = x.strands.tail {
		s := n.value
		s.self.unlink()
		s.leaveWaits()
		if s.next == nil || s.over {
			continue
		}
		s.panicked = nil
		s.dispose()
		if s.panicked != nil && err == nil {
			err = fmt.Errorf("replay: %s: deferred code panicked: %w", x.id.Instance, s.panicked)
		}
	}
	return err
}

// park switches back to the caller of resume. It returns when the strand is woken, and never returns if the strand is unwound.
func (s *strand) park() {
	s.yield(struct{}{})
	s.leaveWaits()
	if s.x.unwinding {
		s.x.past.locate()
		runtime.Goexit()
	}
}

func (s *strand) leaveWaits() {
	s.wait.unlink()
	for i := range s.waits {
		s.waits[i].unlink()
	}
	s.waits = s.waits[:0]
	s.within.unlink()
}

// Misuse is the error of a method that was called where it is not allowed: on a goroutine that the author started, after the end, inside
// another execution, or in a function that must not make decisions.
type Misuse struct {
	Instance string
	What     string
	foreign  bool // called on a goroutine that runs no strand
}

// Error describes the misuse and where the context may be used.
func (m *Misuse) Error() string {
	return fmt.Sprintf("pawl: the context of instance %q was used %s; "+
		"only the orchestration's own code may use it, while it runs", m.Instance, m.What)
}

// enter is called first in every method of Code. It ends the strand if that is being unwound.
func (x *scheduler) enter() (*strand, error) {
	if !debug.SetPanicOnFault(true) {
		debug.SetPanicOnFault(false)
		return nil, &Misuse{Instance: x.id.Instance, What: "on a goroutine that is not its own", foreign: true}
	}
	s := x.current.Load()
	if s == nil {
		return nil, &Misuse{Instance: x.id.Instance, What: "after its turn, or inside another instance"}
	}
	if x.givenUp.Load() {
		x.unwinding = true
	}
	if x.unwinding {
		runtime.Goexit()
	}
	if s.barred != "" {
		return nil, &Misuse{Instance: x.id.Instance, What: s.barred}
	}
	return s, nil
}

// leaveIfGivenUp is enter for methods that only read: it ends the strand after GiveUp.
func (x *scheduler) leaveIfGivenUp() {
	if x.givenUp.Load() {
		_, _ = x.enter()
	}
}

// exit is called last in every method that makes a decision, because the decision may have broken the execution.
func (x *scheduler) exit() {
	if x.unwinding {
		runtime.Goexit()
	}
}

// Limits of the texts of a panic.
const (
	maxStack   = 16 << 10
	maxMessage = 8 << 10
)

// PanicFailure returns the failure of code that panicked with p. The message is cut at 8 KiB and the stack at 16 KiB.
func PanicFailure(p any, stack []byte) *history.Failure {
	return &history.Failure{
		Code:    history.CodePanic,
		Message: text.Shorten(fmt.Sprint("panic: ", p), maxMessage),
		Stack:   text.Shorten(string(stack), maxStack),
	}
}
