package history

import "fmt"

// Message is something that an execution tells another instance, whatever becomes of
// itself: an event, the start of somebody detached or abandoned, the cancellation of a
// child, and, to its parent, its own end. Each is owed until the inputs stream has it.
//
// The start of any other child is no such message: it is owed for as long as the child
// is outstanding.
type Message struct {
	ID     uint64          // of the event that decided it: messages are confirmed up to an id
	Event  Event           // EventSent, ChildScheduled (detached or abandoned), ChildCancelRequested, or the end
	Cancel *ChildScheduled // of ChildCancelRequested: whom it concerns
}

// Messages are those that nobody has confirmed, in order.
func (s *State) PendingMessages() []Message { return s.outbox }

// Confirm forgets the messages up to the event id.
func (s *State) TrimAcked(upTo uint64) {
	for len(s.outbox) > 0 && s.outbox[0].ID <= upTo {
		s.outbox = s.outbox[1:]
	}
}

// Children lists the ids of the children whose end is waited for, ascending.
func (s *State) Children() []uint64 { return s.children.Outstanding() }

// ChildLen is the number of them, without listing.
func (s *State) ChildLen() int { return s.children.Len() }

// Child gives the schedule of an outstanding child, or nil.
func (s *State) Child(id uint64) *ChildScheduled {
	e, _ := s.children.Lookup(id)
	return e
}

func (s *State) applyMessage(e Event) {
	m := e.Meta()
	switch e := e.(type) {
	case *ChildScheduled:
		if e.Detached || e.Abandon {
			s.outbox = append(s.outbox, Message{ID: m.ID, Event: e})
		}
		if !e.Detached {
			s.children.Schedule(m.ID, e)
		}
	case *ChildCompleted:
		s.children.Settle(e.Scheduled)
	case *ChildFailed:
		s.children.Settle(e.Scheduled)
	case *ChildCancelRequested:
		s.outbox = append(s.outbox, Message{ID: m.ID, Event: e, Cancel: s.Child(e.Scheduled)})
		s.children.Settle(e.Scheduled)
	case *EventSent:
		s.outbox = append(s.outbox, Message{ID: m.ID, Event: e})
	}
}

// end closes the execution. A child hears nothing of an execution that goes on as another.
func (s *State) end(e Event) {
	s.End = e
	s.timers, s.queue = nil, nil
	for _, id := range s.children.Outstanding() { // they are abandoned
		s.children.Settle(id)
	}
	_, more := e.(*ContinuedAsNew)
	s.tickets.end(more)
	if !more && s.Started != nil && s.Started.Parent != nil { // Check folds histories whose first event cannot be read
		s.outbox = append(s.outbox, Message{ID: e.Meta().ID, Event: e})
	}
}

func (s *State) childViolation(e Event) string {
	switch e := e.(type) {
	case *ChildCompleted:
		return s.childViolationOf("completes", e.Scheduled, e.Effect)
	case *ChildFailed:
		return s.childViolationOf("fails", e.Scheduled, e.Effect)
	case *ChildCancelRequested:
		return s.childViolationOf("cancels", e.Scheduled, "")
	case *PurgeRequested:
		return "a purge stands in no history"
	default:
		return ""
	}
}

func (s *State) childViolationOf(verb string, id uint64, effect string) string {
	c := s.Child(id)
	switch {
	case c == nil:
		return fmt.Sprintf("%s child %d, which is not outstanding", verb, id)
	case effect != "" && effect != c.Effect:
		return fmt.Sprintf("%s child %d for another effect", verb, id)
	default:
		return ""
	}
}

// leavesChild names a child that the end of the execution would leave without a word.
func (s *State) outstandingChild() string {
	for _, id := range s.children.Outstanding() {
		if !s.Child(id).Abandon {
			return fmt.Sprintf("ends with child %d outstanding", id)
		}
	}
	return ""
}
