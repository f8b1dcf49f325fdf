package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Scope is what work is started in, and cancelled with: calls, timers, places in the
// queue of an event, waits, siblings, and further scopes.
//
//	open ──its own end, or that of what is around it──▶ over ──Close──▶ closed
//
// When a scope is over, all that is outstanding in it and in the scopes inside it is
// cancelled, in ascending order of id; then its futures settle; then the strands
// that wait in it are woken, in the order of their creation; and no word works in it
// any more. The root scope is over when the cancellation of the instance is recorded.
//
// A detached scope lies inside no other. Its home is the scope that it was detached
// from, and it may outlive its home by no more than its bound. The timer that sees to
// that is set by the first that needs it: the end of the home, if something is under
// way in the detached scope, or else the first word used in it after that. Nothing is
// recorded for a detached scope that nobody needs.
//
// A child that is to be abandoned, and the deadline of its call, are in no scope; a wait
// for it is in one like any other.
//
// A nil *Scope is the root.
type Scope struct {
	number   uint64 // in order of creation
	parent   *Scope // nil for the root and for a detached scope
	self     node[*Scope]
	children list[*Scope] // those that are not closed
	sibling  *sibling     // whose scope it is, if it is one's

	works   list[*work]
	places  list[*place] // that wait, or have a letter that nobody has read
	waiting list[*strand]

	cause *cancel.Cancelled // set once it is over
	since int64             // the execution's Now when that was

	home     *Scope // of a detached scope
	bound    time.Duration
	armed    bool // its timer is set
	shelters []*Scope
}

func (x *Code) newScope(parent *Scope) *Scope {
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

// Open makes a scope inside another. What is opened in a scope that is over, is over.
// Whoever opens a scope closes it. Where no word may be used it is the parent again, and
// so are the scopes that Detach gives: the next word says why.
func (x *Code) Open(parent *Scope) *Scope {
	if _, err := x.enter(); err != nil {
		return parent
	}
	return x.newScope(x.in(parent))
}

// Close ends the scope with ScopeEnded, gives back the events that had arrived in it
// and that nobody has read, and waits for the siblings that were started in it. That
// wait is ended by nothing but their return.
func (x *Code) Close(s *Scope) {
	if _, err := x.enter(); err != nil {
		return
	}
	x.end(s, cancel.Cancelled{Reason: cancel.ScopeEnded, At: x.Now()})
	for n := s.places.head; n != nil; n = s.places.head {
		n.unlink()
		x.withdraw(&n.value.Future, *s.cause)
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

// Detach returns the scope that outlives the given one by no more than the bound; zero
// or less is no bound at all. For one scope and one bound it is always the same. Of a
// detached scope it is the detached scope of its home.
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
	d := x.newScope(nil)
	d.home, d.bound = home, bound
	home.shelters = append(home.shelters, d)
	return d
}

// detached reports whether the scope lies in a detached one.
func (s *Scope) detached() bool {
	if s == nil {
		return false
	}
	for s.parent != nil {
		s = s.parent
	}
	return s.home != nil
}

// Over returns the *cancel.Cancelled of a scope that is over, or nil.
func (x *Code) Over(s *Scope) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	if c := x.over(s); c != nil {
		return c
	}
	return nil
}

// over is asked by every word that a scope can refuse. It leaves the strand if the
// bound that it may have to set breaks the execution.
func (x *Code) over(s *Scope) *cancel.Cancelled {
	s = x.in(s)
	if s.cause == nil {
		top := s
		for top.parent != nil {
			top = top.parent
		}
		if top.home != nil && top.home.cause != nil {
			x.arm(top)
			x.exit()
		}
	}
	return s.cause
}

// arm bounds a detached scope whose home is over.
func (x *Code) arm(s *Scope) {
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
	b.x.end(b.scope, cancel.Cancelled{
		Reason: cancel.ScopeEnded, At: b.x.Now(),
		Text: fmt.Sprintf("detached work went on for longer than %s", b.scope.bound),
	})
}

// reach is what the end of a scope concerns.
type reach struct {
	works    []*work
	places   []*place
	waiting  []*strand
	shelters []*Scope
}

// end makes a scope over. If it was already, nothing happens.
func (x *Code) end(s *Scope, why cancel.Cancelled) {
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
		x.cancel(w, why)
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
		x.arm(d)
	}
}

// mark makes the scope over, and all inside it, and collects what that concerns.
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

// busy reports whether anything is under way in the scope.
func (s *Scope) busy() bool {
	return s.works.head != nil || s.places.head != nil || s.waiting.head != nil || s.children.head != nil
}
