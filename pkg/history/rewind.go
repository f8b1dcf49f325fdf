package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNoRewind is the error of a rewind or a retry that the history does not allow.
var ErrNoRewind = errors.New("the history does not allow this")

// RewindPlan is the result of planning a rewind. A history is a sequence of steps, and each step is kept or undone as a whole:
//
//	kept:  1 … Keep                          undone: Keep+1 … end
//	 activities outstanding there             their results ──▶ put back into the inbox; failures are not: those activities run again
//	 children outstanding there               their results ──▶ put back; otherwise they are still awaited
//	 timers                                   keep their times
//	                                          events received ──▶ put back, in order
//	                                          children started ──▶ undone: cancelled, and their explicit ids freed
//	                                          events sent, detached starts: stay sent
type RewindPlan struct {
	Keep     uint64               // last event that is kept; 0: none, the instance starts again
	State    *State               // state after the events that are kept
	PutBack  []Event              // inputs that are put back into the inbox, in order
	Answered []uint64             // activities outstanding in State whose results are put back, or are in the inbox already
	Reruns   []*ActivityScheduled // activities that are scheduled again
	Awaited  []*ChildScheduled    // children outstanding in State
	Undone   []*ChildScheduled    // children whose starts are not kept
}

// PlanRewind plans to keep the events up to the id to, and the rest of its step. unread reports whether the result of an outstanding
// activity is in the inbox; nil: no result is. The error matches ErrNoRewind.
func PlanRewind(events []Event, to uint64, unread func(*ActivityScheduled) bool) (*RewindPlan, error) {
	decided := decidedByCode(events)
	if to == 0 || to > uint64(len(decided)) {
		return nil, fmt.Errorf("%w: there is no event %d; the last one is %d", ErrNoRewind, to, len(decided))
	}
	for to < uint64(len(decided)) && !decided[to].Input() {
		to++
	}
	if to == uint64(len(events)) && isEnd(events[to-1]) {
		return nil, fmt.Errorf("%w: the step of that event ends the execution; name an event before event %d", ErrNoRewind, lastInput(decided)+1)
	}
	return plan(events, to, unread)
}

// PlanRetry plans to continue from before the failure that ended the execution: before the failure of the last activity or child
// that is part of the instance's failure, otherwise before the last input. An instance that its owner failed keeps everything; a
// cancelled one keeps the events before its cancellation. With fromStart nothing is kept. The error matches ErrNoRewind.
func PlanRetry(events []Event, fromStart bool) (*RewindPlan, error) {
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrNoRewind)
	}
	if fromStart {
		return plan(events, 0, nil)
	}
	decided := decidedByCode(events)
	keep := uint64(len(decided))
	switch end := events[len(events)-1].(type) {
	case *Failed:
		if len(decided) == len(events) {
			keep = beforeFailure(events, &end.Failure)
		}
	case *Cancelled:
		if i := slices.IndexFunc(events, func(e Event) bool { return e.Kind() == KindCancelRequested }); i >= 0 {
			keep = uint64(i)
		}
	default:
		return nil, fmt.Errorf("%w: the instance has not failed", ErrNoRewind)
	}
	return plan(events, keep, nil)
}

// decidedByCode returns the history without the events that the owner recorded to end it: cancellations and the end.
func decidedByCode(events []Event) []Event {
	n := len(events)
	if n == 0 || !forced(events[n-1]) {
		return events
	}
	for n--; n > 0 && (events[n-1].Kind() == KindActivityCancelRequested || events[n-1].Kind() == KindChildCancelRequested); n-- {
	}
	return events[:n]
}

// forced reports whether the owner, not the code, ended the execution.
func forced(e Event) bool {
	switch e := e.(type) {
	case *Failed:
		return e.Forced
	case *Cancelled:
		return e.Forced
	default:
		return false
	}
}

func isEnd(e Event) bool {
	k := e.Kind()
	return k == KindCompleted || k == KindFailed || k == KindCancelled || k == KindContinuedAsNew
}

// lastInput returns the index of the last input.
func lastInput(events []Event) uint64 {
	for i := len(events) - 1; i > 0; i-- {
		if events[i].Input() {
			return uint64(i)
		}
	}
	return 0
}

// beforeFailure returns the number of events before the activity or child failure that made the execution fail.
func beforeFailure(events []Event, end *Failure) uint64 {
	for i := len(events) - 1; i > 0; i-- {
		var f *Failure
		switch e := events[i].(type) {
		case *ActivityFailed:
			f = &e.Failure
		case *ChildFailed:
			f = &e.Failure
		default:
			continue
		}
		if f.Code != "" && f.Code == end.Code || strings.Contains(end.Message, f.Message) {
			return uint64(i)
		}
	}
	return lastInput(events)
}

// plan plans to keep the first keep events.
func plan(events []Event, keep uint64, unread func(*ActivityScheduled) bool) (*RewindPlan, error) {
	p := &RewindPlan{Keep: keep, State: &State{}}
	for _, e := range events[:keep] {
		if err := p.State.Apply(e); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoRewind, err)
		}
	}
	calls := make(map[string]uint64) // outstanding activities by call key: the result may belong to a later attempt
	for _, id := range p.State.Outstanding() {
		calls[p.State.Activity(id).CallKey()] = id
	}
	scheduled := make(map[uint64]*ActivityScheduled)
	for _, e := range events[keep:] {
		p.undo(e, calls, scheduled)
	}
	for _, id := range p.State.Outstanding() {
		e := p.State.Activity(id)
		switch {
		case slices.Contains(p.Answered, id):
		case unread != nil && unread(e):
			p.Answered = append(p.Answered, id)
		default:
			p.Reruns = append(p.Reruns, e)
		}
	}
	for _, id := range p.State.Children() {
		p.Awaited = append(p.Awaited, p.State.Child(id))
	}
	slices.SortFunc(p.Answered, cmp.Compare)
	return p, nil
}

// undo adds the consequences of undoing an event.
func (p *RewindPlan) undo(e Event, calls map[string]uint64, scheduled map[uint64]*ActivityScheduled) {
	switch e := e.(type) {
	case *EventReceived, *UpdateReceived:
		p.PutBack = append(p.PutBack, e)
	case *ActivityScheduled:
		scheduled[e.ID] = e
	case *ActivityCompleted:
		id := e.Scheduled
		if s := scheduled[id]; s != nil {
			id = calls[s.CallKey()]
		}
		if p.State.Activity(id) != nil {
			again := *e
			again.Scheduled = id
			p.PutBack, p.Answered = append(p.PutBack, &again), append(p.Answered, id)
		}
	case *ChildScheduled:
		if !e.Detached {
			p.Undone = append(p.Undone, e)
		}
	case *ChildCompleted:
		if c := p.State.Child(e.Scheduled); c != nil && c.Effect == e.Effect {
			p.PutBack = append(p.PutBack, e)
		}
	}
}
