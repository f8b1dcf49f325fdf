package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Ticket is a place at a gate that an execution wants: it waits there, or has been let in and has not left.
//
// A ticket is wanted from the schedule (or the start) that has it until that is answered or cancelled. One that is kept
// goes from a failed attempt to the pause before the next, and from there to that attempt; in the middle of a turn it may
// be with neither, and if it still is at the end, it has left.
type Ticket struct {
	ID      string
	Limit   *Limit
	Event   uint64 // of the schedule, or of Started
	Waiting bool
}

// tickets is the part of a State that is about gates.
type tickets struct {
	byEvent    map[uint64]*Ticket // by the event that has it
	byID       map[string]*Ticket // the same, and those that are kept
	byTimer    map[uint64]*Ticket // kept, by the timer that keeps it
	unassigned []*Ticket          // kept, by nothing so far
	released   []Ticket
	waiting    int
}

func (t *tickets) add(event uint64, g *Limit) {
	if g == nil || g.Name == "" {
		return
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
}

func (t *tickets) grant(event uint64) {
	if k := t.byEvent[event]; k != nil && k.Waiting {
		k.Waiting = false
		t.waiting--
	}
}

// settle ends the schedule that has a ticket. A slot that may be kept is, for now.
func (t *tickets) settle(event uint64, completed bool) {
	k := t.byEvent[event]
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
	if k := t.byTimer[timer]; k != nil {
		delete(t.byTimer, timer)
		t.unassigned = append(t.unassigned, k)
	}
}

// end closes the execution. The slot of the instance itself goes on with it if it continues as new.
func (t *tickets) end(more bool) {
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

// Enter is the owner's note on an event that it has folded and not yet committed: which gate it has passed, or waits
// at; nil: none. It sets the event's Gate.
func (s *State) SetLimit(event uint64, g *Limit) {
	if event == 1 {
		s.Started.Limit = g
	} else if e := s.Activity(event); e != nil {
		e.Limit = g
	} else {
		return
	}
	s.tickets.add(event, g)
}

// Kept gives the gate of a ticket that is kept and has not gone to the next attempt yet.
func (s *State) Retained(ticket string) (Limit, bool) {
	for _, k := range s.tickets.unassigned {
		if k.ID == ticket {
			g := *k.Limit
			g.Waiting = false
			return g, true
		}
	}
	return Limit{}, false
}

// Find gives a ticket that is wanted, by its id.
func (s *State) Find(id string) (Ticket, bool) {
	if k := s.tickets.byID[id]; k != nil {
		return *k, true
	}
	return Ticket{}, false
}

// Tickets lists all that are wanted, by event. One that is kept through a pause has the event of the attempt that failed.
func (s *State) Tickets() []Ticket {
	t := &s.tickets
	if len(t.byEvent)+len(t.byTimer) == 0 {
		return nil
	}
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

// TicketLen is the number of them, without listing.
func (s *State) TicketLen() int { return len(s.tickets.byEvent) + len(s.tickets.byTimer) }

// Waits reports whether the activity, or (event 1) the instance, waits at its gate: it has no lease and no task.
func (s *State) Waiting(event uint64) bool {
	k := s.tickets.byEvent[event]
	return k != nil && k.Waiting
}

// WaitingLen is how many wait.
func (s *State) WaitingLen() int { return s.tickets.waiting }

// AdmittedLen is the number of outstanding activities that have a lease, or should have one.
func (s *State) AdmittedLen() int {
	n := s.OutstandingLen() - s.tickets.waiting
	if s.Waiting(1) {
		n++ // no activity
	}
	return n
}

// Admitted lists the outstanding activities that have a lease, or should have one, ascending.
func (s *State) Admitted() []uint64 {
	all := s.Outstanding()
	if s.tickets.waiting == 0 {
		return all
	}
	return slices.DeleteFunc(all, s.Waiting)
}

// Left gives the tickets that are not wanted any more, once, by event. It is for the end of a turn.
func (s *State) TakeReleased() []Ticket {
	t := &s.tickets
	for _, k := range t.unassigned {
		t.release(k)
	}
	left := t.released
	t.released, t.unassigned = nil, nil
	slices.SortFunc(left, compareEvents)
	return left
}

// refuseGate gives the rule about gates that the event would break.
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
	case *CancelRequested, *EventReceived, *Failed, *Cancelled:
		return ""
	default:
		return "stands before the grant that the instance waits for"
	}
}
