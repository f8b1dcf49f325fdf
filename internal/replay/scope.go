package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Scope groups work that is cancelled together: calls, timers, waits for events, other waits, siblings, and further scopes.
//
//	open ──its own end, or that of a scope around it──▶ over ──Close──▶ closed
//
// When a scope is over, everything that is outstanding in it and in the scopes inside it is cancelled, in ascending order of id. Then its
// futures settle, and then the strands that wait in it are woken, in the order of their creation. No method can be used in it any more.
// The root scope is over when the cancellation of the instance is recorded.
//
// A detached scope is inside no other scope. Its home is the scope from which it was detached, and it may outlive its home by at most its
// bound. The timer for the bound is set when it is first needed: at the end of the home, if work is outstanding in the detached scope,
// and otherwise when the first method is used in it after that. If a detached scope is not used, nothing is recorded for it.
//
// An abandoned child, and the deadline of its call, belong to no scope; a wait for the child belongs to a scope like any other wait.
//
// A nil *Scope is the root.
type Scope struct {
	number   uint64 // number in order of creation
	parent   *Scope // nil for the root and for a detached scope
	self     node[*Scope]
	children list[*Scope] // scopes inside this one that are not closed
	sibling  *sibling     // the sibling that the scope belongs to, if any

	works   list[*work]
	places  list[*place] // waits for events, including those with an unread event
	waiting list[*strand]

	cause *cancel.Cancelled // set once it is over
	since int64             // the execution's Now when the scope ended

	home     *Scope // the scope that this one was detached from; nil if it is not detached
	bound    time.Duration
	armed    bool // the timer of the bound is set
	detaches []*Scope
}

func newScope(x *Code, parent *Scope) *Scope {
	x.scopes++
	s := &Scope{number: x.scopes, parent: parent}
	s.self.value = s
	if parent != nil {
		s.cause, s.since = parent.cause, parent.since
		parent.children.push(&s.self)
	}
	return s
}

// in returns s, or the root if s is nil.
func (x *Code) in(s *Scope) *Scope {
	if s == nil {
		return x.root
	}
	return s
}

// Open makes a scope inside another. A scope that is opened inside one that is over is over, too. The caller must close it. Where methods
// must not be called, Open returns the parent, as Detach does, and the next call returns the error.
func (x *Code) Open(parent *Scope) *Scope {
	if _, err := x.enter(); err != nil {
		return parent
	}
	return newScope(x, x.in(parent))
}

// Close ends the scope with ScopeEnded, returns the unread events that had arrived in it to their mailboxes, and waits for the siblings
// that were started in it to return. Nothing else ends that wait.
func (x *Code) Close(s *Scope) {
	if _, err := x.enter(); err != nil {
		return
	}
	s.end(x, cancel.Cancelled{Reason: cancel.ScopeEnded, At: x.Now()})
	for n := s.places.head; n != nil; n = s.places.head {
		n.unlink()
		n.value.discard(*s.cause)
	}
	for n := s.children.head; n != nil; n = s.children.head {
		if n.value.sibling == nil {
			n.unlink()
		} else if x.Join(&n.value.sibling.Future) != nil {
			return
		}
	}
	s.self.unlink()
	x.exit()
}

// Detach returns the scope that outlives the given one by at most the bound; zero or less means no bound. Calls with the same scope and
// bound return the same scope. Detaching from a detached scope detaches from its home.
func (x *Code) Detach(s *Scope, bound time.Duration) *Scope {
	if _, err := x.enter(); err != nil {
		return s
	}
	home, bound := x.in(s), max(bound, 0)
	if home.home != nil {
		home = home.home
	}
	for _, d := range home.detaches {
		if d.bound == bound {
			return d
		}
	}
	d := newScope(x, nil)
	d.home, d.bound = home, bound
	home.detaches = append(home.detaches, d)
	return d
}

// detached reports whether the scope is inside a detached one.
func (s *Scope) detached() bool {
	if s == nil {
		return false
	}
	for s.parent != nil {
		s = s.parent
	}
	return s.home != nil
}

// Over returns the *cancel.Cancelled of a scope that is over, or nil. Every operation in a scope calls it first.
func (x *Code) Over(s *Scope) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	if c := x.over(s); c != nil {
		return c
	}
	return nil
}

// over returns the cause of a scope that is over, or nil. It may have to set the bound of a detached scope; if that breaks the execution,
// it ends the strand.
func (x *Code) over(s *Scope) *cancel.Cancelled {
	s = x.in(s)
	if s.cause == nil {
		top := s
		for top.parent != nil {
			top = top.parent
		}
		if top.home != nil && top.home.cause != nil {
			top.arm(x)
			x.exit()
		}
	}
	return s.cause
}

// arm sets the timer that bounds a detached scope whose home is over.
func (s *Scope) arm(x *Code) {
	if s.armed || s.bound == 0 || s.cause != nil || x.unwinding {
		return
	}
	s.armed = true
	b := &bound{Future: Future{x: x}, scope: s}
	left := time.Duration(s.home.since+timers.Millis(s.bound)-x.now) * time.Millisecond
	if left <= 0 {
		b.answered(nil, nil)
		return
	}
	x.scheduleTimer(&history.TimerScheduled{}, left, nil, b)
}

// bound is the timer of a detached scope.
type bound struct {
	Future
	scope *Scope
}

func (b *bound) future() *Future { return &b.Future }

func (b *bound) answered(*work, history.Event) {
	b.scope.end(b.x, cancel.Cancelled{
		Reason: cancel.ScopeEnded, At: b.x.Now(),
		Text: fmt.Sprintf("detached work ran for longer than %s", b.scope.bound),
	})
}

// reach collects what the end of a scope affects.
type reach struct {
	works    []*work
	places   []*place
	waiting  []*strand
	detaches []*Scope
}

// end makes the scope over. It has no effect on a scope that is already over.
func (s *Scope) end(x *Code, cause cancel.Cancelled) {
	if s.cause != nil {
		return
	}
	var r reach
	s.mark(&cause, x.now, &r)
	slices.SortFunc(r.works, func(a, b *work) int { return cmp.Compare(a.id, b.id) })
	slices.SortFunc(r.places, func(a, b *place) int { return cmp.Compare(a.seq, b.seq) })
	slices.SortFunc(r.waiting, func(a, b *strand) int { return cmp.Compare(a.number, b.number) })
	slices.SortFunc(r.detaches, func(a, b *Scope) int { return cmp.Compare(a.number, b.number) })
	for _, w := range r.works {
		w.cancel(x, cause)
	}
	for _, w := range r.works {
		w.owner.future().settle(history.Payload{}, &cause)
	}
	for _, p := range r.places {
		p.self.unlink()
		p.member.unlink()
		p.settle(history.Payload{}, &cause)
	}
	for _, w := range r.waiting {
		x.wake(w)
	}
	for _, d := range r.detaches {
		d.arm(x)
	}
}

// mark makes the scope and all scopes inside it over, and collects what that affects.
func (s *Scope) mark(cause *cancel.Cancelled, now int64, r *reach) {
	s.cause, s.since = cause, now
	for n := s.works.head; n != nil; n = n.next {
		r.works = append(r.works, n.value)
	}
	for n := s.places.head; n != nil; n = n.next {
		if !n.value.settled {
			r.places = append(r.places, n.value)
		}
	}
	for n := s.waiting.head; n != nil; n = n.next {
		r.waiting = append(r.waiting, n.value)
	}
	for _, d := range s.detaches {
		if d.busy() {
			r.detaches = append(r.detaches, d)
		}
	}
	for n := s.children.head; n != nil; n = n.next {
		if n.value.cause == nil {
			n.value.mark(cause, now, r)
		}
	}
}

// busy reports whether anything is outstanding in the scope.
func (s *Scope) busy() bool {
	return s.works.head != nil || s.places.head != nil || s.waiting.head != nil || s.children.head != nil
}
