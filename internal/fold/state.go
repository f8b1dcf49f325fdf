// Package fold computes what a history amounts to, without the code that produced it: what is outstanding, what is left to send, whether it
// has ended, and what a rewind would keep.
package fold

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/pkg/history"
)

// Violation is the error of an event that breaks a rule of histories.
type Violation struct {
	EventID uint64
	Rule    string
}

// Error returns the event and the rule.
func (v *Violation) Error() string { return fmt.Sprintf("event %d: %s", v.EventID, v.Rule) }

// State is the fold of a history for the runtime: outstanding activities, running timers, the end. It is computed without
// orchestration code, so that an instance whose orchestration is not registered, or that is stalled, can be reconciled. The zero
// value is the state before event 1. It is not safe for concurrent use.
type State struct {
	Started *history.Started
	End     history.Event // Completed, Failed, Cancelled or ContinuedAsNew; nil while it runs
	Len     uint64        // number of events
	Now     int64         // greatest time of an input so far, Unix ms
	Cancel  *history.CancelRequested

	ledger   outstanding[*history.ActivityScheduled]
	children outstanding[*history.ChildScheduled]
	timers   map[uint64]int64
	queue    timerHeap
	outbox   []Message
	tickets  *tickets // nil: no event has had a limit
	updates
	paused   *history.Paused // event that began the current pause; nil: not paused
	rewound  uint64          // execution that the last Rewound began; 0: none
	deadline int64           // time at which the run times out, Unix ms; 0: never
}

// Clone returns a copy: events that are applied to one of the two do not change the other. The clone of nil is the zero value.
func (s *State) Clone() *State {
	if s == nil {
		return &State{}
	}
	c := *s
	c.ledger, c.children, c.tickets, c.updates = s.ledger.Clone(), s.children.Clone(), s.tickets.clone(), maps.Clone(s.updates)
	c.timers, c.queue, c.outbox = maps.Clone(s.timers), slices.Clone(s.queue), slices.Clone(s.outbox)
	return &c
}

// Apply adds the next event. It returns a *Violation and changes nothing if the event is not allowed at its position.
func (s *State) Apply(e history.Event) error {
	m := e.Meta()
	if rule := s.violation(e); rule != "" {
		return &Violation{EventID: m.ID, Rule: rule}
	}
	s.Len++
	if e.Input() {
		s.Now = max(s.Now, m.At)
	}
	switch e := e.(type) {
	case *history.Started:
		s.Started, s.deadline = e, e.Deadline
		s.tickets = s.tickets.add(1, e.Limit)
	case *history.Granted:
		s.tickets.grant(e.Scheduled)
	case *history.EventReceived, *history.SideEffectRecorded, *history.PatchMarked, *history.Observed, *history.Refused:
	case *history.Paused, *history.Resumed, *history.Rewound:
		s.applyOperator(e)
	case *history.CancelRequested:
		s.Cancel = e
	case *history.ChildScheduled, *history.ChildCompleted, *history.ChildFailed, *history.ChildCancelRequested, *history.EventSent, *history.Broadcast:
		s.applyMessage(e)
	case *history.UpdateReceived, *history.UpdateAnswered:
		s.applyUpdate(e)
	case *history.ActivityScheduled:
		s.ledger.Schedule(m.ID, e)
		s.tickets = s.tickets.add(m.ID, e.Limit)
	case *history.ActivityCompleted:
		s.settle(e.Scheduled, true)
	case *history.ActivityFailed:
		s.settle(e.Scheduled, false)
	case *history.ActivityCancelRequested:
		s.settle(e.Scheduled, false)
	case *history.TimerScheduled:
		if s.timers == nil {
			s.timers = make(map[uint64]int64)
		}
		s.timers[m.ID] = e.FireAt
		heap.Push(&s.queue, Timer{ID: m.ID, FireAt: e.FireAt})
		s.tickets.retain(m.ID, e.RetainsSlotOf)
	case *history.TimerFired:
		s.stop(e.Timer)
	case *history.TimerCancelled:
		s.stop(e.Timer)
	case *history.Completed, *history.Failed, *history.Cancelled, *history.ContinuedAsNew:
		s.end(e)
	}
	return nil
}

func (s *State) settle(activity uint64, completed bool) {
	s.ledger.Settle(activity)
	s.tickets.settle(activity, completed)
}

func (s *State) stop(timer uint64) {
	delete(s.timers, timer)
	s.tickets.unassign(timer)
}

// violation returns the rule that the event would break, or "".
func (s *State) violation(e history.Event) string {
	_, isStart := e.(*history.Started)
	switch {
	case e.Meta().ID != s.Len+1:
		return fmt.Sprintf("ids are not dense: want event %d", s.Len+1)
	case isStart != (s.Len == 0):
		return "Started must be the first event, and only the first"
	case s.End != nil:
		return fmt.Sprintf("follows the end, event %d", s.End.Meta().ID)
	}
	if rule := cmp.Or(s.limitViolation(e), s.operatorViolation(e)); rule != "" {
		return rule
	}
	switch e := e.(type) {
	case *history.ActivityCompleted:
		return s.activityViolation("completes", e.Scheduled)
	case *history.ActivityFailed:
		return s.activityViolation("fails", e.Scheduled)
	case *history.ActivityCancelRequested:
		return s.activityViolation("cancels", e.Scheduled)
	case *history.TimerFired:
		return s.timerViolation("fires", e.Timer)
	case *history.TimerCancelled:
		return s.timerViolation("cancels", e.Timer)
	case *history.Completed, *history.Failed, *history.Cancelled, *history.ContinuedAsNew:
		if n := s.ledger.Len(); n > 0 {
			return fmt.Sprintf("ends with %d activities outstanding", n)
		}
		return s.outstandingChild()
	case *history.UpdateAnswered:
		return s.updateViolation(e)
	default:
		return s.childViolation(e)
	}
}

func (s *State) activityViolation(verb string, id uint64) string {
	if _, ok := s.ledger.Lookup(id); ok {
		return ""
	}
	return fmt.Sprintf("%s activity %d, which is not outstanding", verb, id)
}

func (s *State) timerViolation(verb string, id uint64) string {
	if _, ok := s.timers[id]; ok {
		return ""
	}
	return fmt.Sprintf("%s timer %d, which is not running", verb, id)
}

// Outstanding lists the ids of the outstanding activities, ascending.
func (s *State) Outstanding() []uint64 { return s.ledger.Outstanding() }

// OutstandingLen returns the number of outstanding activities.
func (s *State) OutstandingLen() int { return s.ledger.Len() }

// Activity returns the schedule of an outstanding activity, or nil.
func (s *State) Activity(id uint64) *history.ActivityScheduled {
	e, _ := s.ledger.Lookup(id)
	return e
}

// TimerLen returns the number of running timers.
func (s *State) TimerLen() int { return len(s.timers) }

// NextTimer returns the timer that is due first; among equal times, the one that was set first.
func (s *State) NextTimer() (Timer, bool) {
	for len(s.queue) > 0 {
		if at, ok := s.timers[s.queue[0].ID]; ok && at == s.queue[0].FireAt {
			return s.queue[0], true
		}
		heap.Pop(&s.queue) // fired or cancelled since
	}
	return Timer{}, false
}

// Timer is a running timer.
type Timer struct {
	ID     uint64
	FireAt int64 // Unix ms
}

type timerHeap []Timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	return h[i].FireAt < h[j].FireAt || h[i].FireAt == h[j].FireAt && h[i].ID < h[j].ID
}

func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *timerHeap) Push(x any) { *h = append(*h, x.(Timer)) } //nolint:forcetypeassert // only Apply pushes

func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// Check folds a whole history and returns its state and every violation: ids are dense, every completion has its schedule,
// no event follows the end. An event that is not allowed at its position is skipped but still counted, so that each later event
// is judged independently.
func Check(events []history.Event) (*State, []error) {
	s := &State{}
	var bad []error
	for _, e := range events {
		id := e.Meta().ID
		if id > s.Len+1 {
			bad = append(bad, &Violation{EventID: id, Rule: fmt.Sprintf("ids are not dense: want event %d", s.Len+1)})
			s.Len = id - 1
		}
		if err := s.Apply(e); err != nil {
			bad = append(bad, err)
			s.Len = max(s.Len, id)
		}
	}
	return s, bad
}
