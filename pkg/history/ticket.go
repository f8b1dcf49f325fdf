package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Ticket is a caller of an execution at a limit: it waits there, or was admitted and has not left.
//
// A ticket is required from the schedule (or the start) that has it until that completes, fails or is cancelled. A retained one
// passes from a failed attempt to the backoff before the next, and from there to that attempt; within a turn it may be assigned
// to neither, and if it is unassigned at the end of the turn, it is released.
type Ticket struct {
	ID      string
	Limit   *Limit
	Event   uint64 // of the schedule, or of Started
	Waiting bool
}

// tickets is the part of a State that is about limits. Few instances have one, so that it is made for the first; nil has none.
type tickets struct {
	byEvent    map[uint64]*Ticket // by the event that has it
	byID       map[string]*Ticket // the same, and the retained ones
	byTimer    map[uint64]*Ticket // retained, by the timer of the backoff
	unassigned []*Ticket          // retained, and not assigned
	released   []Ticket
	waiting    int
}

// clone copies the tickets; one that is in several places is one in the copy too.
func (t *tickets) clone() *tickets {
	if t == nil {
		return nil
	}
	c := &tickets{
		byEvent: maps.Clone(t.byEvent), byID: maps.Clone(t.byID), byTimer: maps.Clone(t.byTimer),
		unassigned: slices.Clone(t.unassigned), released: slices.Clone(t.released), waiting: t.waiting,
	}
	copies := make(map[*Ticket]*Ticket, len(t.byID))
	copied := func(k *Ticket) *Ticket {
		if copies[k] == nil {
			one := *k
			copies[k] = &one
		}
		return copies[k]
	}
	for event, k := range c.byEvent {
		c.byEvent[event] = copied(k)
	}
	for id, k := range c.byID {
		c.byID[id] = copied(k)
	}
	for timer, k := range c.byTimer {
		c.byTimer[timer] = copied(k)
	}
	for i, k := range c.unassigned {
		c.unassigned[i] = copied(k)
	}
	return c
}

// add returns the tickets with that of an event, if it has one.
func (t *tickets) add(event uint64, g *Limit) *tickets {
	if g == nil || g.Name == "" {
		return t
	}
	if t == nil {
		t = new(tickets)
	}
	t.unassigned = slices.DeleteFunc(t.unassigned, func(l *Ticket) bool { return l.ID == g.Ticket })
	if t.byEvent == nil {
		t.byEvent = make(map[uint64]*Ticket)
	}
	k := &Ticket{ID: g.Ticket, Limit: g, Event: event, Waiting: g.Waiting}
	t.byEvent[event] = k
	if t.byID == nil {
		t.byID = make(map[string]*Ticket)
	}
	t.byID[k.ID] = k
	if g.Waiting {
		t.waiting++
	}
	return t
}

func (t *tickets) grant(event uint64) {
	if k := t.of(event); k != nil && k.Waiting {
		k.Waiting = false
		t.waiting--
	}
}

// of is the ticket that an event has; nil: none.
func (t *tickets) of(event uint64) *Ticket {
	if t == nil {
		return nil
	}
	return t.byEvent[event]
}

// settle ends the schedule that has a ticket. A slot that may be retained becomes unassigned.
func (t *tickets) settle(event uint64, completed bool) {
	k := t.of(event)
	if k == nil {
		return
	}
	delete(t.byEvent, event)
	switch {
	case k.Limit.Retain && !completed && !k.Waiting:
		t.unassigned = append(t.unassigned, k)
		return
	case k.Waiting:
		t.waiting--
	}
	t.release(k)
}

func (t *tickets) release(k *Ticket) {
	t.released = append(t.released, *k)
	if t.byID[k.ID] == k {
		delete(t.byID, k.ID)
	}
}

func (t *tickets) retain(timer, event uint64) {
	if t == nil {
		return
	}
	i := slices.IndexFunc(t.unassigned, func(l *Ticket) bool { return l.Event == event })
	if event == 0 || i < 0 {
		return
	}
	if t.byTimer == nil {
		t.byTimer = make(map[uint64]*Ticket)
	}
	t.byTimer[timer] = t.unassigned[i]
	t.unassigned = slices.Delete(t.unassigned, i, i+1)
}

func (t *tickets) unassign(timer uint64) {
	if t == nil {
		return
	}
	if k := t.byTimer[timer]; k != nil {
		delete(t.byTimer, timer)
		t.unassigned = append(t.unassigned, k)
	}
}

// end closes the execution. The slot of the instance itself passes to the next execution.
func (t *tickets) end(more bool) {
	if t == nil {
		return
	}
	if more {
		delete(t.byEvent, 1)
	}
	for _, id := range slices.Sorted(maps.Keys(t.byEvent)) {
		t.released = append(t.released, *t.byEvent[id])
	}
	for _, k := range t.byTimer {
		t.unassigned = append(t.unassigned, k)
	}
	*t = tickets{released: t.released, unassigned: t.unassigned}
}

// SetLimit sets the limit of an event that is applied and not yet committed: the one that admitted it, or at which it waits; nil:
// none.
func (s *State) SetLimit(event uint64, g *Limit) {
	if event == 1 {
		s.Started.Limit = g
	} else if e := s.Activity(event); e != nil {
		e.Limit = g
	} else {
		return
	}
	s.tickets = s.tickets.add(event, g)
}

// Retained returns the limit of a retained ticket that is not assigned to the next attempt yet.
func (s *State) Retained(ticket string) (Limit, bool) {
	if s.tickets == nil {
		return Limit{}, false
	}
	for _, k := range s.tickets.unassigned {
		if k.ID == ticket {
			g := *k.Limit
			g.Waiting = false
			return g, true
		}
	}
	return Limit{}, false
}

// Find returns a required ticket by its id.
func (s *State) Find(id string) (Ticket, bool) {
	if s.tickets == nil || s.tickets.byID[id] == nil {
		return Ticket{}, false
	}
	return *s.tickets.byID[id], true
}

// Tickets lists the required tickets by event. One that is retained during a backoff has the event of the failed attempt.
func (s *State) Tickets() []Ticket {
	if s.TicketLen() == 0 {
		return nil
	}
	t := s.tickets
	out := make([]Ticket, 0, len(t.byEvent)+len(t.byTimer))
	for _, k := range t.byEvent {
		out = append(out, *k)
	}
	for _, k := range t.byTimer {
		out = append(out, *k)
	}
	slices.SortFunc(out, compareEvents)
	return out
}

func compareEvents(a, b Ticket) int { return cmp.Compare(a.Event, b.Event) }

// TicketLen returns the number of required tickets.
func (s *State) TicketLen() int {
	if s.tickets == nil {
		return 0
	}
	return len(s.tickets.byEvent) + len(s.tickets.byTimer)
}

// Waiting reports whether the activity, or (event 1) the instance, waits at its limit: it has neither a lease nor a task.
func (s *State) Waiting(event uint64) bool {
	k := s.tickets.of(event)
	return k != nil && k.Waiting
}

// WaitingLen returns the number of waiting tickets.
func (s *State) WaitingLen() int {
	if s.tickets == nil {
		return 0
	}
	return s.tickets.waiting
}

// AdmittedLen returns the number of outstanding activities that require a lease.
func (s *State) AdmittedLen() int {
	if s.stopped() {
		return 0
	}
	n := s.OutstandingLen() - s.WaitingLen()
	if s.Waiting(1) {
		n++ // no activity
	}
	return n
}

// Admitted lists the outstanding activities that require a lease, ascending. A pause may have stopped them.
func (s *State) Admitted() []uint64 {
	if s.stopped() {
		return nil
	}
	all := s.Outstanding()
	if s.WaitingLen() == 0 {
		return all
	}
	return slices.DeleteFunc(all, s.Waiting)
}

// TakeReleased returns the tickets that are no longer required, once, by event. It is called at the end of a turn.
func (s *State) TakeReleased() []Ticket {
	t := s.tickets
	if t == nil {
		return nil
	}
	for _, k := range t.unassigned {
		t.release(k)
	}
	left := t.released
	t.released, t.unassigned = nil, nil
	slices.SortFunc(left, compareEvents)
	return left
}

// limitViolation returns the rule about limits that the event would break.
func (s *State) limitViolation(e Event) string {
	if g, ok := e.(*Granted); ok {
		if !s.Waiting(g.Scheduled) {
			return fmt.Sprintf("grants event %d, which does not wait", g.Scheduled)
		}
		return ""
	}
	if !s.Waiting(1) {
		return ""
	}
	switch e.(type) {
	case *CancelRequested, *EventReceived, *UpdateReceived, *Failed, *Cancelled, *Paused, *Resumed, *Rewound:
		return ""
	default:
		return "stands before the grant that the instance waits for"
	}
}
