package replaytest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
)

// Past is a history together with code that must match it: after a replay of any prefix, the
// code must make the decisions that the history records. A check changes neither.
type Past struct {
	ID      effectid.Identity
	Program replay.Program
	Options replay.Options
	Events  []history.Event

	// From is the number of events, up to the end of a step, that other code made. The code
	// must replay them, but need not make the same decisions.
	From int
	// Live is the execution that the events were taken from; nil if there is none. If it is set,
	// its state outside the events (custom status, unread events) must also match.
	Live *replay.Execution
}

// Difference is a decision that differs from the recorded one.
type Difference struct {
	After   int           // number of events replayed before
	Event   uint64        // id of the event
	Is, Was history.Event // nil if there is none
}

// Error returns a text that names both decisions.
func (d *Difference) Error() string {
	switch {
	case d.Is == nil:
		return fmt.Sprintf("after a replay of %d events, event %d is not made, and was %s", d.After, d.Event, short(d.Was))
	case d.Was == nil:
		return fmt.Sprintf("after a replay of %d events, %s is made as event %d, and was not", d.After, short(d.Is), d.Event)
	default:
		return fmt.Sprintf("after a replay of %d events, event %d is %s, and was %s", d.After, d.Event, short(d.Is), short(d.Was))
	}
}

func short(ev history.Event) string { return strings.TrimSpace(show.Kind(ev) + " " + show.Summary(ev)) }

// CheckPrefixes runs Check on every prefix that ends with a step and is not shorter than
// From. Of more than limit prefixes it checks about limit, evenly spaced, and always the whole history.
func (p Past) CheckPrefixes(limit int) error {
	ends := []int{p.From}
	for i := p.From + 1; i <= len(p.Events); i++ {
		if i == len(p.Events) || p.Events[i].Input() {
			ends = append(ends, i)
		}
	}
	stride := (len(ends)-1)/limit + 1
	for i := len(ends) - 1; i >= 0; i -= stride {
		if err := p.Check(ends[i]); err != nil {
			return err
		}
	}
	return nil
}

// Check replays the first n events, which must end with a step, and then feeds the inputs
// that remain: the decisions must be those recorded. It stops before a step with a side
// effect, whose value would differ. The error is a *replay.Divergence of the
// replay, a *Difference, or one that names a dropped input or a panic during unwinding.
func (p Past) Check(n int) error {
	x := replay.New(p.ID, p.Program, p.Options)
	if err := p.check(x, n); err != nil {
		return errors.Join(err, x.Evict())
	}
	return x.Evict()
}

func (p Past) check(x *replay.Execution, n int) error {
	if err := x.Replay(p.Events[:n]); err != nil {
		return fmt.Errorf("replay of the first %d events: %w", n, err)
	}
	if made := x.Take(); len(made) > 0 {
		return &Difference{After: n, Event: made[0].Meta().ID, Is: made[0]}
	}
	rest := untilSideEffect(p.Events[n:])
	var made []history.Event
	for _, ev := range rest {
		if !ev.Input() {
			continue
		}
		outcome, err := x.Apply(clone(ev))
		if err != nil {
			return fmt.Errorf("after a replay of %d events, at event %d: %w", n, ev.Meta().ID, err)
		}
		if outcome.Dropped() {
			return fmt.Errorf("after a replay of %d events, %s %d was %s", n, show.Kind(ev), ev.Meta().ID, outcome)
		}
		made = append(made, p.takeDecisions(x)...)
	}
	if len(rest) > 0 && !x.Ended() && p.endedWhilePending() {
		rest = rest[:len(rest)-1]
	}
	if err := compare(n, made, rest); err != nil {
		return err
	}
	if p.Live != nil && n+len(rest) == len(p.Events) {
		return p.compareState(x)
	}
	return nil
}

// endedWhilePending reports whether the owner ended the instance while it waited at its limit, which is not a decision of the code.
func (p Past) endedWhilePending() bool {
	k := p.Events[len(p.Events)-1].Kind()
	state, _ := fold.Check(p.Events[:len(p.Events)-1])
	return (k == history.KindFailed || k == history.KindCancelled) && state.Waiting(1)
}

// takeDecisions takes the decisions, and copies the limits of activities and the times of attempt timeouts from the history: the owner sets
// those, not the code.
func (p Past) takeDecisions(x *replay.Execution) []history.Event {
	made := x.Take()
	for _, ev := range made {
		id := ev.Meta().ID
		if id > uint64(len(p.Events)) {
			continue
		}
		switch e := ev.(type) {
		case *history.ActivityScheduled:
			if was, ok := p.Events[id-1].(*history.ActivityScheduled); ok {
				e.Limit = was.Limit
			}
		case *history.TimerScheduled:
			if was, ok := p.Events[id-1].(*history.TimerScheduled); ok {
				x.ExtendTimer(e, e.At+was.FireAt-e.FireAt)
				if e.AttemptTimeoutOf != 0 {
					e.AttemptTimeoutOf = was.AttemptTimeoutOf // an earlier build did not record it
				}
			}
		}
	}
	return made
}

func compare(n int, made, rest []history.Event) error {
	for i := range max(len(made), len(rest)) {
		d := &Difference{After: n, Event: uint64(n+i) + 1} //nolint:gosec // a length
		switch {
		case i >= len(made):
			d.Was = rest[i]
		case i >= len(rest):
			d.Is = made[i]
		default:
			same, err := equal(made[i], rest[i])
			if err != nil {
				return err
			}
			if same {
				continue
			}
			d.Is, d.Was = made[i], rest[i]
		}
		return d
	}
	return nil
}

// compareState compares the state outside the events after a replay of the whole history.
func (p Past) compareState(x *replay.Execution) error {
	is, version := x.Status()
	if was, v := p.Live.Status(); v != version || was.Type != is.Type || !bytes.Equal(was.Data, is.Data) {
		return fmt.Errorf("after a replay the custom status is %s, version %d, and was %s, version %d", show.Payload(is), version, show.Payload(was), v)
	}
	end, _ := x.Continued()
	wasEnd, _ := p.Live.Continued()
	unread, wasUnread := inputs(x), inputs(p.Live)
	if (end == nil) != (wasEnd == nil) || len(unread) != len(wasUnread) {
		return fmt.Errorf("after a replay %d events are unread at the end, and were %d", len(unread), len(wasUnread))
	}
	for i, ev := range unread {
		same, err := equal(ev, wasUnread[i])
		if err != nil || !same {
			return errors.Join(fmt.Errorf("after a replay, unread event %d is %s, and was %s", i+1, short(ev), short(wasUnread[i])), err)
		}
	}
	return nil
}

// inputs returns the inputs that an ended execution has not consumed.
func inputs(x *replay.Execution) []history.Event {
	out := slices.Clone(x.Carried())
	for _, ev := range x.Unread() {
		out = append(out, ev)
	}
	return out
}

// untilSideEffect returns the steps before the first that has a side effect.
func untilSideEffect(events []history.Event) []history.Event {
	step := 0
	for i, ev := range events {
		if ev.Input() {
			step = i
		}
		if ev.Kind() == history.KindSideEffectRecorded {
			return events[:step]
		}
	}
	return events
}

// equal compares two events as they are stored, except the stack of a panic, which
// differs in every run.
func equal(a, b history.Event) (bool, error) {
	left, err := eventcodec.Encode(withoutStack(a))
	if err != nil {
		return false, err
	}
	right, err := eventcodec.Encode(withoutStack(b))
	return a.Meta().ID == b.Meta().ID && bytes.Equal(left, right), err
}

func withoutStack(ev history.Event) history.Event {
	f, ok := ev.(*history.Failed)
	if !ok || f.Failure.Stack == "" {
		return ev
	}
	copied := *f
	copied.Failure.Stack = ""
	return &copied
}

func cloneAll(events []history.Event) []history.Event {
	copies := make([]history.Event, len(events))
	for i, ev := range events {
		copies[i] = clone(ev)
	}
	return copies
}

func clone(ev history.Event) history.Event {
	dup := reflect.New(reflect.TypeOf(ev).Elem())
	dup.Elem().Set(reflect.ValueOf(ev).Elem())
	return dup.Interface().(history.Event) //nolint:forcetypeassert // a copy of an Event
}

// Text formats events, one per line: the id, the time since the first event, and the summary
// that pawl history prints.
func Text(events []history.Event) string {
	var b strings.Builder
	for _, ev := range events {
		since := time.Duration(ev.Meta().At-events[0].Meta().At) * time.Millisecond
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%3d  %-8s  %-23s  %s", ev.Meta().ID, since, show.Kind(ev), show.Summary(ev)), " "))
	}
	return b.String()
}
