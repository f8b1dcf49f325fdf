package pawltest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/replay"
)

// Replay demands that today's code fits a history that was recorded with yesterday's.
// exported is what pawl history --json wrote, of an instance that has ended or still
// runs. The replay is strict: a payload that encodes differently fails it, too. Keep
// the histories of instances that matter beside the code, and replay them before it is
// released.
func Replay(tb testing.TB, exported []byte, bindings ...pawl.Binding) {
	tb.Helper()
	p := read(tb, exported, bindings)
	if err := p.check(len(p.events)); err != nil {
		tb.Fatalf("%v\n%s", err, text(p.events))
	}
}

// EveryPrefix is Replay of every beginning of the history, as though the process had
// died after each of its turns: after each, the inputs that remain must lead to the
// decisions that were recorded. Inputs behind the next side effect are left out, for it
// would have another value now. Of a history of more than 200 turns it takes two
// hundred beginnings, evenly, and the last.
func EveryPrefix(tb testing.TB, exported []byte, bindings ...pawl.Binding) {
	tb.Helper()
	p := read(tb, exported, bindings)
	ends := []int{0}
	for i := 1; i < len(p.events); i++ {
		if p.events[i].Input() {
			ends = append(ends, i)
		}
	}
	ends = append(ends, len(p.events))
	stride := (len(ends)-1)/200 + 1
	for i := len(ends) - 1; i >= 0; i -= stride {
		if err := p.check(ends[i]); err != nil {
			tb.Fatalf("%v\n%s", err, text(p.events))
		}
	}
}

// past is a history together with the code that is to have made it.
type past struct {
	id      replay.Identity
	program replay.Program
	events  []history.Event
}

func read(tb testing.TB, exported []byte, bindings []pawl.Binding) past {
	tb.Helper()
	instance, events, err := show.Read(bytes.NewReader(exported))
	if err != nil {
		tb.Fatal(err)
	}
	if _, broken := history.Check(events); len(broken) > 0 {
		tb.Fatalf("the exported history is broken: %v", broken)
	}
	if len(events) == 0 {
		tb.Fatal("the exported history is empty")
	}
	registry, err := pawl.NewRegistry(bindings...)
	if err != nil {
		tb.Fatal(err)
	}
	start := events[0].(*history.Started) // Check has seen to it
	b, ok := registry.Orchestration(start.Name)
	if !ok {
		tb.Fatalf("the history is of orchestration %s, which is not among the bindings", start.Name)
	}
	return past{
		id:      replay.Identity{Instance: instance, Born: start.Born, Execution: start.Execution},
		program: b.Program(), events: events,
	}
}

// checkWhole gives all inputs to the code without a crash.
func (e *Env) checkWhole() {
	e.tb.Helper()
	p := past{id: e.id, program: e.program, events: e.events}
	for _, n := range []int{0, len(p.events)} {
		if err := p.check(n); err != nil {
			e.failf("%v", err)
		}
	}
}

// check replays the first n events, which end with a step, and feeds the inputs that
// remain.
func (p past) check(n int) error {
	x := replay.New(p.id, p.program, strict())
	defer func() { _ = x.Evict() }() // a panic in code that is unwound is its own business here
	if err := x.Replay(p.events[:n]); err != nil {
		return fmt.Errorf("replay of the first %d events: %w", n, err)
	}
	rest := untilSideEffect(p.events[n:])
	for _, ev := range rest {
		if !ev.Input() {
			continue
		}
		in, err := clone(ev)
		if err != nil {
			return err
		}
		outcome, err := x.Apply(in)
		if err != nil {
			return fmt.Errorf("after a replay of %d events, at event %d: %w", n, ev.Meta().ID, err)
		}
		if outcome.Dropped() {
			return fmt.Errorf("after a replay of %d events, %s %d was %s", n, show.Kind(ev), ev.Meta().ID, outcome)
		}
	}
	made := x.Take()
	for i := range min(len(made), len(rest)) {
		a, b, err := bare(made[i], rest[i])
		if err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return fmt.Errorf("after a replay of %d events, event %d is %s %s, and was %s %s", n, rest[i].Meta().ID,
				show.Kind(made[i]), show.Summary(made[i]), show.Kind(rest[i]), show.Summary(rest[i]))
		}
	}
	if len(made) != len(rest) {
		return fmt.Errorf("after a replay of %d events, %d events are made, and were %d", n, len(made), len(rest))
	}
	return nil
}

// untilSideEffect gives the steps before the first that has a side effect.
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

// bare encodes two events without the stack of a panic, which differs from run to run.
func bare(a, b history.Event) (left, right []byte, err error) {
	if left, err = withoutStack(a); err != nil {
		return nil, nil, err
	}
	right, err = withoutStack(b)
	return left, right, err
}

func withoutStack(ev history.Event) ([]byte, error) {
	if f, ok := ev.(*history.Failed); ok {
		copied := *f
		copied.Failure.Stack = ""
		ev = &copied
	}
	return history.Encode(ev)
}

func clone(ev history.Event) (history.Event, error) {
	raw, err := history.Encode(ev)
	if err != nil {
		return nil, err
	}
	return history.Decode(ev.Meta().ID, raw)
}
