package fold

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// ErrNoRewind is the error of a rewind or a retry that the history does not allow.
var ErrNoRewind = errors.New("the history does not allow this")

// Plan is the plan of a rewind, with the state after the events that are kept.
type Plan struct {
	history.RewindPlan
	State *State
}

// AnsweredIDs returns the event ids of the activities whose results are kept, ascending.
func (p *Plan) AnsweredIDs() (ids []uint64) {
	for _, e := range p.Answered {
		ids = append(ids, e.ID)
	}
	return ids
}

// PlanRewind plans to keep the events up to the id to, and the rest of its step. unread reports whether the result of an outstanding
// activity is in the inbox; nil: no result is. The error matches ErrNoRewind.
func PlanRewind(events []history.Event, to uint64, unread func(*history.ActivityScheduled) bool) (*Plan, error) {
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
func PlanRetry(events []history.Event, fromStart bool) (*Plan, error) {
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrNoRewind)
	}
	if fromStart {
		return plan(events, 0, nil)
	}
	decided := decidedByCode(events)
	keep := uint64(len(decided))
	switch end := events[len(events)-1].(type) {
	case *history.Failed:
		if len(decided) == len(events) {
			keep = beforeFailure(events, &end.Failure)
		}
	case *history.Cancelled:
		if i := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind() == history.KindCancelRequested }); i >= 0 {
			keep = uint64(i)
		}
	default:
		return nil, fmt.Errorf("%w: the instance has not failed", ErrNoRewind)
	}
	return plan(events, keep, nil)
}

// decidedByCode returns the history without the events that the owner recorded to end it: cancellations and the end.
func decidedByCode(events []history.Event) []history.Event {
	n := len(events)
	if n == 0 || !forced(events[n-1]) {
		return events
	}
	for n--; n > 0 && (events[n-1].Kind() == history.KindActivityCancelRequested || events[n-1].Kind() == history.KindChildCancelRequested); n-- {
	}
	return events[:n]
}

// forced reports whether the owner, not the code, ended the execution.
func forced(e history.Event) bool {
	switch e := e.(type) {
	case *history.Failed:
		return e.Forced
	case *history.Cancelled:
		return e.Forced
	default:
		return false
	}
}

func isEnd(e history.Event) bool {
	k := e.Kind()
	return k == history.KindCompleted || k == history.KindFailed || k == history.KindCancelled || k == history.KindContinuedAsNew
}

// lastInput returns the index of the last input.
func lastInput(events []history.Event) uint64 {
	for i := len(events) - 1; i > 0; i-- {
		if events[i].Input() {
			return uint64(i)
		}
	}
	return 0
}

// beforeFailure returns the number of events before the activity or child failure that made the execution fail.
func beforeFailure(events []history.Event, end *history.Failure) uint64 {
	for i := len(events) - 1; i > 0; i-- {
		var f *history.Failure
		switch e := events[i].(type) {
		case *history.ActivityFailed:
			f = &e.Failure
		case *history.ChildFailed:
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
func plan(events []history.Event, keep uint64, unread func(*history.ActivityScheduled) bool) (*Plan, error) {
	p := &Plan{RewindPlan: history.RewindPlan{Keep: keep}, State: &State{}}
	for _, e := range events[:keep] {
		if err := p.State.Apply(e); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoRewind, err)
		}
	}
	calls := make(map[string]uint64) // outstanding activities by call key: the result may belong to a later attempt
	for _, id := range p.State.Outstanding() {
		calls[p.State.Activity(id).CallKey()] = id
	}
	scheduled := make(map[uint64]*history.ActivityScheduled)
	for _, e := range events[keep:] {
		p.undo(e, calls, scheduled)
	}
	for _, id := range p.State.Outstanding() {
		e := p.State.Activity(id)
		switch {
		case slices.Contains(p.Answered, e):
		case unread != nil && unread(e):
			p.Answered = append(p.Answered, e)
		default:
			p.Reruns = append(p.Reruns, e)
		}
	}
	for _, id := range p.State.Children() {
		p.Awaited = append(p.Awaited, p.State.Child(id))
	}
	slices.SortFunc(p.Answered, func(a, b *history.ActivityScheduled) int { return cmp.Compare(a.ID, b.ID) })
	return p, nil
}

// undo adds the consequences of undoing an event.
func (p *Plan) undo(e history.Event, calls map[string]uint64, scheduled map[uint64]*history.ActivityScheduled) {
	switch e := e.(type) {
	case *history.EventReceived, *history.UpdateReceived:
		p.PutBack = append(p.PutBack, e)
	case *history.ActivityScheduled:
		scheduled[e.ID] = e
	case *history.ActivityCompleted:
		id := e.Scheduled
		if s := scheduled[id]; s != nil {
			id = calls[s.CallKey()]
		}
		if kept := p.State.Activity(id); kept != nil {
			again := *e
			again.Scheduled = id
			p.PutBack, p.Answered = append(p.PutBack, &again), append(p.Answered, kept)
		}
	case *history.ChildScheduled:
		if !e.Detached {
			p.Undone = append(p.Undone, e)
		}
	case *history.ChildCompleted:
		if c := p.State.Child(e.Scheduled); c != nil && c.Effect == e.Effect {
			p.PutBack = append(p.PutBack, e)
		}
	}
}
