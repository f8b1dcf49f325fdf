package pawltest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
)

// patience is how long, by the real clock, an activity may run.
const patience = time.Minute

// run is an activity under way.
type run struct {
	scheduled *history.ActivityScheduled
	step      Step
	due       int64 // Unix milliseconds; math.MaxInt64: never
}

func (e *Env) run(name string, input history.Payload) history.Event {
	e.tb.Helper()
	if e.x != nil {
		e.tb.Fatal("an Env runs one instance once; make another with New")
	}
	b, ok := e.registry.Orchestration(name)
	if !ok {
		e.tb.Fatalf("orchestration %s is not among the bindings given to New", name)
	}
	e.program = b.Program()
	e.x = e.fresh()
	e.tb.Cleanup(func() {
		if err := e.x.Evict(); err != nil {
			e.tb.Errorf("evict: %v", err)
		}
	})
	e.feed(&history.Started{
		Name: name, Version: b.Version(), Payload: input, Born: e.id.Born, Execution: e.id.Execution, By: "test",
	})
	for _, do := range e.early {
		do()
	}
	for !e.x.Ended() {
		e.next()
	}
	e.checkWhole()
	return e.events[len(e.events)-1]
}

// next does the one thing that is due first, and lets time pass up to it.
func (e *Env) next() {
	e.tb.Helper()
	timer, at, ok := e.x.NextTimer()
	if !ok {
		at = math.MaxInt64
	}
	do := func() { e.feed(&history.TimerFired{Timer: timer}) }
	if i := first(e.runs, func(r run) int64 { return r.due }); i >= 0 && e.runs[i].due < at {
		at, do = e.runs[i].due, func() { e.finish(i) }
	}
	if i := first(e.timed, func(t timed) int64 { return t.at }); i >= 0 && e.timed[i].at < at {
		at, do = e.timed[i].at, func() {
			t := e.timed[i]
			e.timed = slices.Delete(e.timed, i, i+1)
			t.do()
		}
	}
	switch {
	case at > e.now && len(e.blocked) > 0:
		do, e.blocked = e.blocked[0], e.blocked[1:]
	case at == math.MaxInt64:
		e.failf("the orchestration waits for something that never comes, %d activities among it", len(e.runs))
	default:
		e.now = max(e.now, at)
	}
	do()
}

// first gives the place of the least; of equals, of the first.
func first[T any](all []T, at func(T) int64) int {
	least := -1
	for i := range all {
		if least < 0 || at(all[i]) < at(all[least]) {
			least = i
		}
	}
	return least
}

// feed applies an input and does what the code decides.
func (e *Env) feed(in history.Event) {
	e.tb.Helper()
	if e.x.Ended() {
		return
	}
	if in.Meta().At == 0 {
		in.Meta().At = e.now
	}
	if _, err := e.x.Apply(in); err != nil {
		e.failf("%v", err)
	}
	for _, ev := range e.x.Take() {
		e.record(ev)
	}
	e.turns++
	if !e.x.Ended() && e.crashes.now(e.turns, len(e.events)) {
		e.crash()
	}
}

// record keeps an event as a store would give it back.
func (e *Env) record(made history.Event) {
	e.tb.Helper()
	raw, err := history.Encode(made)
	if err != nil {
		e.failf("event %d: %v", made.Meta().ID, err)
	}
	ev, err := history.Decode(made.Meta().ID, raw)
	if err != nil {
		e.failf("%v", err)
	}
	e.events = append(e.events, ev)
	if err := e.state.Apply(ev); err != nil {
		e.failf("the turn breaks its history: %v", err)
	}
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		r := run{scheduled: ev, step: e.step(ev.Name), due: math.MaxInt64}
		if !r.step.never {
			r.due = e.now + r.step.after.Milliseconds()
		}
		e.runs = append(e.runs, r)
	case *history.ActivityCancelRequested:
		e.runs = slices.DeleteFunc(e.runs, func(r run) bool { return r.scheduled.ID == ev.Scheduled })
	default: // nothing for the world to do
	}
}

// finish runs an activity that is due and feeds what comes of it.
func (e *Env) finish(i int) {
	e.tb.Helper()
	r := e.runs[i]
	e.runs = slices.Delete(e.runs, i, i+1)
	s := r.scheduled
	var result history.Payload
	var failure *history.Failure
	if r.step.err != nil {
		failure = pawl.ToFailure(r.step.err)
	} else {
		a, ok := e.fakes[s.Name]
		if !ok {
			a, ok = e.registry.Activity(s.Name)
		}
		if !ok {
			e.failf("activity %s is neither bound nor faked", s.Name)
		}
		ctx, stop := context.WithTimeout(context.Background(), patience)
		result, failure = a.Handle(pawl.WithInfo(ctx, pawl.ActivityInfo{
			Instance: e.id.Instance, Execution: e.id.Execution, Activity: s.ID, Name: s.Name, Queue: s.Queue,
			Worker: "test", Attempt: s.Attempt, Claim: 1, Key: s.Effect,
		}), s.Payload)
		stop()
	}
	if failure != nil {
		e.feed(&history.ActivityFailed{Scheduled: s.ID, Failure: *failure, Worker: "test", Claims: 1})
		return
	}
	e.feed(&history.ActivityCompleted{Scheduled: s.ID, Result: result, Worker: "test", Claims: 1})
}

// failf ends the test and shows the history.
func (e *Env) failf(format string, args ...any) {
	e.tb.Helper()
	e.tb.Fatalf(format+"\n%s", append(args, e.History())...)
}
