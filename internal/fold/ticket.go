package fold

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/pkg/history"
)

// Ticket is a caller of an execution at a limit: a waiter, or a holder that has not left yet.
//
// A ticket is required from the event that requests it (the schedule of an activity, or the start) until that activity or instance
// completes, fails or is cancelled. A retained ticket passes from a failed attempt to the backoff before the next attempt, and from
// there to that attempt. Within a turn it may be assigned to neither; if it is unassigned at the end of the turn, it is released.
type Ticket struct {
	ID      string
	Limit   *history.Limit
	Event   uint64 // id of the ActivityScheduled, or of Started
	Waiting bool
}

// tickets is the part of a State that concerns limits. Few instances have tickets, so it is allocated for the first one; nil means none.
type tickets struct {
	byEvent    map[uint64]*Ticket // by the event that requested the ticket
	byID       map[string]*Ticket // the same tickets, and the retained ones
	byTimer    map[uint64]*Ticket // retained tickets, by the timer of the backoff
	unassigned []*Ticket          // retained tickets that are assigned to neither a backoff nor an attempt
	released   []Ticket           // no longer required, and not returned by TakeReleased yet
	waiting    int
}

// clone returns a deep copy. A ticket that several indexes share is shared in the copy, too.
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

// add returns the tickets with the ticket of an event added, if its limit requires one.
func (t *tickets) add(event uint64, g *history.Limit) *tickets {
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

// of returns the ticket of an event, or nil.
func (t *tickets) of(event uint64) *Ticket {
	if t == nil {
		return nil
	}
	return t.byEvent[event]
}

// settle ends the activity of a ticket. A slot that may be retained becomes unassigned; any other is released.
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

// retain assigns the unassigned ticket of a failed attempt to the timer of the backoff.
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

// unassign detaches a ticket from the timer of the backoff, which has fired or was cancelled.
func (t *tickets) unassign(timer uint64) {
	if t == nil {
		return
	}
	if k := t.byTimer[timer]; k != nil {
		delete(t.byTimer, timer)
		t.unassigned = append(t.unassigned, k)
	}
}

// end ends the execution. With continue-as-new (more) the slot of the instance itself passes to the next execution.
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

// SetLimit sets the limit of an event that is applied and not yet committed: the limit that admitted it, or at which it waits; nil:
// none.
func (s *State) SetLimit(event uint64, g *history.Limit) {
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
func (s *State) Retained(ticket string) (history.Limit, bool) {
	if s.tickets == nil {
		return history.Limit{}, false
	}
	for _, k := range s.tickets.unassigned {
		if k.ID == ticket {
			g := *k.Limit
			g.Waiting = false
			return g, true
		}
	}
	return history.Limit{}, false
}

// Find returns a required ticket by its id.
func (s *State) Find(id string) (Ticket, bool) {
	if s.tickets == nil || s.tickets.byID[id] == nil {
		return Ticket{}, false
	}
	return *s.tickets.byID[id], true
}

// Tickets returns the required tickets, sorted by event. A ticket that is retained during a backoff has the event of the failed attempt.
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
		n++ // the waiting start counts in WaitingLen, and is not an activity
	}
	return n
}

// Admitted lists the outstanding activities that require a lease, ascending. During a pause that stops activities, there are none.
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

// TakeReleased returns the tickets that are no longer required, sorted by event, and clears them. It is called at the end of a turn.
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

// limitViolation returns the rule about limits that the event would break, or "".
func (s *State) limitViolation(e history.Event) string {
	if g, ok := e.(*history.Granted); ok {
		if !s.Waiting(g.Scheduled) {
			return fmt.Sprintf("grants event %d, which is not waiting", g.Scheduled)
		}
		return ""
	}
	if !s.Waiting(1) {
		return ""
	}
	switch e.(type) {
	case *history.CancelRequested, *history.EventReceived, *history.UpdateReceived, *history.Failed, *history.Cancelled, *history.Paused, *history.Resumed, *history.Rewound:
		return ""
	default:
		return "precedes the grant for which the instance waits"
	}
}
