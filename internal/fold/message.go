package fold

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// Message is a message of an execution to another instance that is sent no matter how the execution continues: an event, a detached
// or abandoned start, the cancellation of a child, or the report of its own end to its parent. It stays in the outbox until INPUTS
// acknowledges it.
//
// The start of any other child is not such a message: it is required only as long as the child is outstanding.
type Message struct {
	ID     uint64                  // id of the event that decided it; messages are acknowledged up to an id
	Event  history.Event           // EventSent, Broadcast, ChildScheduled (detached or abandoned), ChildCancelRequested, or the end
	Cancel *history.ChildScheduled // child that a ChildCancelRequested cancels
	To     string                  // recipient of a Broadcast; all messages of one id are acknowledged together
}

// PendingMessages returns the messages of the outbox, in order.
func (s *State) PendingMessages() []Message { return s.outbox }

// TrimAcked removes the messages up to the event id upTo from the outbox.
func (s *State) TrimAcked(upTo uint64) {
	for len(s.outbox) > 0 && s.outbox[0].ID <= upTo {
		s.outbox = s.outbox[1:]
	}
}

// Children lists the ids of the outstanding children, ascending.
func (s *State) Children() []uint64 { return s.children.Outstanding() }

// ChildLen returns the number of outstanding children.
func (s *State) ChildLen() int { return s.children.Len() }

// Child returns the schedule of an outstanding child, or nil.
func (s *State) Child(id uint64) *history.ChildScheduled {
	e, _ := s.children.Lookup(id)
	return e
}

func (s *State) applyMessage(e history.Event) {
	m := e.Meta()
	switch e := e.(type) {
	case *history.ChildScheduled:
		if e.Detached || e.Abandon {
			s.outbox = append(s.outbox, Message{ID: m.ID, Event: e})
		}
		if !e.Detached {
			s.children.Schedule(m.ID, e)
		}
	case *history.ChildCompleted:
		s.children.Settle(e.Scheduled)
	case *history.ChildFailed:
		s.children.Settle(e.Scheduled)
	case *history.ChildCancelRequested:
		s.outbox = append(s.outbox, Message{ID: m.ID, Event: e, Cancel: s.Child(e.Scheduled)})
		s.children.Settle(e.Scheduled)
	case *history.EventSent:
		s.outbox = append(s.outbox, Message{ID: m.ID, Event: e})
	case *history.Broadcast:
		for _, to := range e.Instances {
			s.outbox = append(s.outbox, Message{ID: m.ID, Event: e, To: to})
		}
	}
}

// end ends the execution. Continue-as-new is not reported to the parent.
func (s *State) end(e history.Event) {
	s.End = e
	s.timers, s.queue = nil, nil
	for _, id := range s.children.Outstanding() { // only abandoned children are left
		s.children.Settle(id)
	}
	_, more := e.(*history.ContinuedAsNew)
	s.tickets.end(more)
	if !more && s.Started != nil && s.Started.Parent != nil { // Check also folds histories whose first event cannot be read
		s.outbox = append(s.outbox, Message{ID: e.Meta().ID, Event: e})
	}
}

func (s *State) childViolation(e history.Event) string {
	switch e := e.(type) {
	case *history.ChildCompleted:
		return s.childViolationOf("completes", e.Scheduled, e.Effect)
	case *history.ChildFailed:
		return s.childViolationOf("fails", e.Scheduled, e.Effect)
	case *history.ChildCancelRequested:
		return s.childViolationOf("cancels", e.Scheduled, "")
	case *history.PurgeRequested:
		return "a purge must not be in a history"
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

// outstandingChild returns the violation of an end while a child is outstanding that is not abandoned, or "".
func (s *State) outstandingChild() string {
	for _, id := range s.children.Outstanding() {
		if !s.Child(id).Abandon {
			return fmt.Sprintf("ends with child %d outstanding", id)
		}
	}
	return ""
}
