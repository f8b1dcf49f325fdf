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
	ID    string
	Gate  *Gate
	Event uint64 // of the schedule, or of Started
	Waits bool
}

// tickets is the part of a State that is about gates.
type tickets struct {
	of    map[uint64]*Ticket // by the event that has it
	ids   map[string]*Ticket // the same, and those that are kept
	pause map[uint64]*Ticket // kept, by the timer that keeps it
	loose []*Ticket          // kept, by nothing so far
	left  []Ticket
	wait  int
}

func (t *tickets) enter(event uint64, g *Gate) {
	if g == nil || g.Name == "" {
		return
	}
	t.loose = slices.DeleteFunc(t.loose, func(l *Ticket) bool { return l.ID == g.Ticket })
	if t.of == nil {
		t.of = make(map[uint64]*Ticket)
	}
	k := &Ticket{ID: g.Ticket, Gate: g, Event: event, Waits: g.Waits}
	t.of[event] = k
	if t.ids == nil {
		t.ids = make(map[string]*Ticket)
	}
	t.ids[k.ID] = k
	if g.Waits {
		t.wait++
	}
}

func (t *tickets) grant(event uint64) {
	if k := t.of[event]; k != nil && k.Waits {
		k.Waits = false
		t.wait--
	}
}

// settle ends the schedule that has a ticket. A slot that may be kept is, for now.
func (t *tickets) settle(event uint64, completed bool) {
	k := t.of[event]
	if k == nil {
		return
	}
	delete(t.of, event)
	switch {
	case k.Gate.Keep && !completed && !k.Waits:
		t.loose = append(t.loose, k)
		return
	case k.Waits:
		t.wait--
	}
	t.leaves(k)
}

func (t *tickets) leaves(k *Ticket) {
	t.left = append(t.left, *k)
	if t.ids[k.ID] == k {
		delete(t.ids, k.ID)
	}
}

func (t *tickets) keep(timer, event uint64) {
	i := slices.IndexFunc(t.loose, func(l *Ticket) bool { return l.Event == event })
	if event == 0 || i < 0 {
		return
	}
	if t.pause == nil {
		t.pause = make(map[uint64]*Ticket)
	}
	t.pause[timer] = t.loose[i]
	t.loose = slices.Delete(t.loose, i, i+1)
}

func (t *tickets) stopKeeping(timer uint64) {
	if k := t.pause[timer]; k != nil {
		delete(t.pause, timer)
		t.loose = append(t.loose, k)
	}
}

// end closes the execution. The slot of the instance itself goes on with it if it continues as new.
func (t *tickets) end(more bool) {
	if more {
		delete(t.of, 1)
	}
	for _, id := range slices.Sorted(maps.Keys(t.of)) {
		t.left = append(t.left, *t.of[id])
	}
	for _, k := range t.pause {
		t.loose = append(t.loose, k)
	}
	*t = tickets{left: t.left, loose: t.loose}
}

// Enter is the owner's note on an event that it has folded and not yet committed: which gate it has passed, or waits
// at; nil: none. It sets the event's Gate.
func (s *State) Enter(event uint64, g *Gate) {
	if event == 1 {
		s.Started.Gate = g
	} else if e := s.Activity(event); e != nil {
		e.Gate = g
	} else {
		return
	}
	s.tickets.enter(event, g)
}

// Kept gives the gate of a ticket that is kept and has not gone to the next attempt yet.
func (s *State) Kept(ticket string) (Gate, bool) {
	for _, k := range s.tickets.loose {
		if k.ID == ticket {
			g := *k.Gate
			g.Waits = false
			return g, true
		}
	}
	return Gate{}, false
}

// Find gives a ticket that is wanted, by its id.
func (s *State) Find(id string) (Ticket, bool) {
	if k := s.tickets.ids[id]; k != nil {
		return *k, true
	}
	return Ticket{}, false
}

// Tickets lists all that are wanted, by event. One that is kept through a pause has the event of the attempt that failed.
func (s *State) Tickets() []Ticket {
	t := &s.tickets
	if len(t.of)+len(t.pause) == 0 {
		return nil
	}
	out := make([]Ticket, 0, len(t.of)+len(t.pause))
	for _, k := range t.of {
		out = append(out, *k)
	}
	for _, k := range t.pause {
		out = append(out, *k)
	}
	slices.SortFunc(out, byEvent)
	return out
}

func byEvent(a, b Ticket) int { return cmp.Compare(a.Event, b.Event) }

// TicketLen is the number of them, without listing.
func (s *State) TicketLen() int { return len(s.tickets.of) + len(s.tickets.pause) }

// Waits reports whether the activity, or (event 1) the instance, waits at its gate: it has no lease and no task.
func (s *State) Waits(event uint64) bool {
	k := s.tickets.of[event]
	return k != nil && k.Waits
}

// WaitingLen is how many wait.
func (s *State) WaitingLen() int { return s.tickets.wait }

// AdmittedLen is the number of outstanding activities that have a lease, or should have one.
func (s *State) AdmittedLen() int {
	n := s.OutstandingLen() - s.tickets.wait
	if s.Waits(1) {
		n++ // no activity
	}
	return n
}

// Admitted lists the outstanding activities that have a lease, or should have one, ascending.
func (s *State) Admitted() []uint64 {
	all := s.Outstanding()
	if s.tickets.wait == 0 {
		return all
	}
	return slices.DeleteFunc(all, s.Waits)
}

// Left gives the tickets that are not wanted any more, once, by event. It is for the end of a turn.
func (s *State) Left() []Ticket {
	t := &s.tickets
	for _, k := range t.loose {
		t.leaves(k)
	}
	left := t.left
	t.left, t.loose = nil, nil
	slices.SortFunc(left, byEvent)
	return left
}

// refuseGate gives the rule about gates that the event would break.
func (s *State) refuseGate(e Event) string {
	if g, ok := e.(*Granted); ok {
		if !s.Waits(g.Scheduled) {
			return fmt.Sprintf("grants event %d, which does not wait", g.Scheduled)
		}
		return ""
	}
	if !s.Waits(1) {
		return ""
	}
	switch e.(type) {
	case *CancelRequested, *EventReceived, *Failed, *Cancelled:
		return ""
	default:
		return "stands before the grant that the instance waits for"
	}
}
