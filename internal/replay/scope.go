package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Scope groups work that is cancelled together: calls, timers, waits for events, other waits, siblings, and further scopes.
//
//	open ──its own end, or that of a scope around it──▶ over ──Close──▶ closed
//
// When a scope is over, everything that is outstanding in it and in the scopes inside it is cancelled, in ascending order
// of id; then its futures settle; then the strands that wait in it are woken, in the order of their creation; and no method
// can be used in it any more. The root scope is over when the cancellation of the instance is recorded.
//
// A detached scope is inside no other. Its home is the scope from which it was detached, and it may outlive its home by at
// most its bound. The timer for that is set when it is first needed: at the end of the home, if work is outstanding in the
// detached scope, otherwise with the first method used in it after that. Nothing is recorded for a detached scope that is
// not used.
//
// A child that is to be abandoned, and the deadline of its call, are in no scope; a wait for it is in one like any other.
//
// A nil *Scope is the root.
type Scope struct {
	number   uint64 // in order of creation
	parent   *Scope // nil for the root and for a detached scope
	self     node[*Scope]
	children list[*Scope] // those that are not closed
	sibling  *sibling     // whose scope it is, if any

	works   list[*work]
	places  list[*place] // that wait, or have an unread event
	waiting list[*strand]

	cause *cancel.Cancelled // set once it is over
	since int64             // the execution's Now when that was

	home     *Scope // of a detached scope
	bound    time.Duration
	armed    bool // its timer is set
	shelters []*Scope
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

// in returns the scope itself, or the root for nil.
func (x *Code) in(s *Scope) *Scope {
	if s == nil {
		return x.root
	}
	return s
}

// Open makes a scope inside another. A scope that is opened in one that is over, is over. The caller must close it. Where
// methods may not be called it returns the parent, as Detach does: the next call returns the error.
func (x *Code) Open(parent *Scope) *Scope {
	if _, err := x.enter(); err != nil {
		return parent
	}
	return newScope(x, x.in(parent))
}

// Close ends the scope with ScopeEnded, returns the unread events that had arrived in it, and waits for the siblings that
// were started in it. Only their return ends that wait.
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

// Detach returns the scope that outlives the given one by at most the bound; zero or less is no bound. For one scope and
// one bound it is always the same. Of a detached scope it is the detached scope of its home.
func (x *Code) Detach(s *Scope, bound time.Duration) *Scope {
	if _, err := x.enter(); err != nil {
		return s
	}
	home, bound := x.in(s), max(bound, 0)
	if home.home != nil {
		home = home.home
	}
	for _, d := range home.shelters {
		if d.bound == bound {
			return d
		}
	}
	d := newScope(x, nil)
	d.home, d.bound = home, bound
	home.shelters = append(home.shelters, d)
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

// Over returns the *cancel.Cancelled of a scope that is over, or nil. Every operation in a scope begins with it.
func (x *Code) Over(s *Scope) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	if c := x.over(s); c != nil {
		return c
	}
	return nil
}

// over returns the cause of a scope that is over, or nil. It leaves the strand if the bound that it may have to set breaks
// the execution.
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

// arm bounds a detached scope whose home is over.
func (s *Scope) arm(x *Code) {
	if s.armed || s.bound == 0 || s.cause != nil || x.unwinding {
		return
	}
	s.armed = true
	b := &bound{Future: Future{x: x}, scope: s}
	left := time.Duration(s.home.since+history.Millis(s.bound)-x.now) * time.Millisecond
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
		Text: fmt.Sprintf("detached work went on for longer than %s", b.scope.bound),
	})
}

// reach is what the end of a scope affects.
type reach struct {
	works    []*work
	places   []*place
	waiting  []*strand
	shelters []*Scope
}

// end makes a scope over. Of a scope that is over it has no effect.
func (s *Scope) end(x *Code, why cancel.Cancelled) {
	if s.cause != nil {
		return
	}
	var r reach
	s.mark(&why, x.now, &r)
	slices.SortFunc(r.works, func(a, b *work) int { return cmp.Compare(a.id, b.id) })
	slices.SortFunc(r.places, func(a, b *place) int { return cmp.Compare(a.seq, b.seq) })
	slices.SortFunc(r.waiting, func(a, b *strand) int { return cmp.Compare(a.number, b.number) })
	slices.SortFunc(r.shelters, func(a, b *Scope) int { return cmp.Compare(a.number, b.number) })
	for _, w := range r.works {
		w.cancel(x, why)
	}
	for _, w := range r.works {
		w.owner.future().settle(history.Payload{}, &why)
	}
	for _, p := range r.places {
		p.self.unlink()
		p.member.unlink()
		p.settle(history.Payload{}, &why)
	}
	for _, w := range r.waiting {
		x.wake(w)
	}
	for _, d := range r.shelters {
		d.arm(x)
	}
}

// mark makes the scope, and all inside it, over and collects what that affects.
func (s *Scope) mark(why *cancel.Cancelled, now int64, r *reach) {
	s.cause, s.since = why, now
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
	for _, d := range s.shelters {
		if d.busy() {
			r.shelters = append(r.shelters, d)
		}
	}
	for n := s.children.head; n != nil; n = n.next {
		if n.value.cause == nil {
			n.value.mark(why, now, r)
		}
	}
}

// busy reports whether anything is outstanding in the scope.
func (s *Scope) busy() bool {
	return s.works.head != nil || s.places.head != nil || s.waiting.head != nil || s.children.head != nil
}
