package pawltest

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

// patience is how long, by the real clock, an activity may run.
const patience = time.Minute

// run is an activity under way, or a child whose start or failure its script has put off.
type run struct {
	in       *instance // that has asked for it
	activity *history.ActivityScheduled
	child    *history.ChildScheduled
	step     Step
	due      int64 // Unix milliseconds; math.MaxInt64: never
	number   uint64
}

func (r run) of(in *instance, scheduled uint64) bool {
	if r.in != in {
		return false
	}
	return r.activity != nil && r.activity.ID == scheduled || r.child != nil && r.child.ID == scheduled
}

// schedule puts a run among those under way.
func (e *Env) schedule(r run) {
	r.due = math.MaxInt64
	if !r.step.never {
		r.due = e.now + r.step.after.Milliseconds()
	}
	e.sent++
	r.number = e.sent
	e.runs = append(e.runs, r)
}

func (e *Env) run(start *history.Started) {
	e.tb.Helper()
	if e.main != nil {
		e.tb.Fatal("an Env runs one instance once; make another with New")
	}
	if !e.code.knows(start.Name) {
		e.tb.Fatalf("orchestration %s is not among the bindings given to New", start.Name)
	}
	e.tb.Cleanup(e.evict)
	e.deliver(letter{to: e.id, ev: start})
	e.main = e.byID[e.id]
	e.soon = append(e.soon, e.early...)
	for e.main.end == nil && e.endless == nil {
		if !e.next(math.MaxInt64, true) {
			e.stuck()
		}
	}
	for e.endless == nil && e.next(e.now, false) { // what follows at once
	}
	e.finished = true
	e.checkLive()
}

// advance lets time pass up to a moment.
func (e *Env) advance(until int64) {
	e.tb.Helper()
	for e.endless == nil && e.next(until, true) {
	}
	if e.endless != nil {
		e.tb.Fatal(e.endless)
	}
	e.now = until
	e.checkLive()
}

// next does the one thing that is due first, if that is not later than until, and lets
// time pass up to it. moments says whether those that the test has declared count.
func (e *Env) next(until int64, moments bool) bool {
	e.tb.Helper()
	if e.immediate() {
		return true
	}
	if in := e.polled(moments); in != nil {
		in.observe()
		return true
	}
	at, do := int64(math.MaxInt64), action(nil)
	for _, in := range e.live {
		if timer, due, ok := in.timer(); ok && due < at {
			at, do = due, func() { in.turn(&history.TimerFired{Timer: timer}) }
		}
	}
	if len(e.mail) > 0 && e.now < at {
		at, do = e.now, func() {
			l := e.mail[0]
			e.mail = e.mail[1:]
			e.deliver(l)
		}
	}
	if i := first(e.runs, func(r run) int64 { return r.due }); i >= 0 && e.runs[i].due < at {
		at, do = e.runs[i].due, func() { e.finish(i) }
	}
	if moments {
		if i := first(e.timed, func(t timed) int64 { return t.at }); i >= 0 && e.timed[i].at < at {
			at, do = e.timed[i].at, func() {
				t := e.timed[i]
				e.timed = slices.Delete(e.timed, i, i+1)
				t.do()
			}
		}
		if at > e.now && len(e.blocked) > 0 {
			at, do, e.blocked = e.now, e.blocked[0], e.blocked[1:]
		}
	}
	if do == nil || at > until {
		return false
	}
	e.now = max(e.now, at)
	do()
	return true
}

// immediate does what comes before everything that is due.
func (e *Env) immediate() bool {
	e.tb.Helper()
	switch {
	case len(e.soon) > 0:
		do := e.soon[0]
		e.soon = e.soon[1:]
		do()
	case len(e.inputs) > 0:
		l := e.inputs[0]
		e.inputs = e.inputs[1:]
		e.byID[l.to].take(l)
	default:
		return false
	}
	return true
}

// timer gives the timer of an instance that is due first.
func (in *instance) timer() (id uint64, at int64, ok bool) {
	if x := in.now(); x.x != nil {
		return x.x.NextTimer()
	}
	return 0, 0, false
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

// finish runs an activity that is due and has its instance told what comes of it, or does
// what is due about a child.
func (e *Env) finish(i int) {
	e.tb.Helper()
	r := e.runs[i]
	e.runs = slices.Delete(e.runs, i, i+1)
	to := func(ev history.Event) { e.inputs = append(e.inputs, letter{to: r.in.id, ev: ev}) }
	var failure *history.Failure
	if r.step.err != nil {
		failure = author.ToFailure(r.step.err)
	}
	if c := r.child; c != nil {
		if failure != nil {
			to(&history.ChildFailed{Scheduled: c.ID, Effect: c.Effect, Failure: *failure})
			return
		}
		e.deliver(r.in.start(c))
		return
	}
	var result history.Payload
	s := r.activity
	if failure == nil {
		result, failure = e.handle(r.in, s)
	}
	if failure != nil {
		to(&history.ActivityFailed{Scheduled: s.ID, Failure: *failure, Worker: "test", Claims: 1})
		return
	}
	to(&history.ActivityCompleted{Scheduled: s.ID, Result: result, Worker: "test", Claims: 1})
}

func (e *Env) handle(in *instance, s *history.ActivityScheduled) (history.Payload, *history.Failure) {
	e.tb.Helper()
	a, ok := e.code.activity(s.Name)
	if !ok {
		in.failf("activity %s is neither bound nor faked", s.Name)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return a.Handle(pawl.WithInfo(ctx, pawl.ActivityInfo{
		Instance: in.id, Execution: in.now().id.Execution, Activity: s.ID, Name: s.Name, Queue: s.Queue,
		Worker: "test", Attempt: s.Attempt, Claim: 1, Key: s.CallKey(), AttemptKey: s.Effect,
	}), s.Payload)
}

// bury takes an instance that has ended out of those that may still do something.
func (e *Env) bury(in *instance) {
	e.live = slices.DeleteFunc(e.live, func(other *instance) bool { return other == in })
}

// checkLive is the check of the executions that have not ended: see execution.check.
func (e *Env) checkLive() {
	e.tb.Helper()
	for _, in := range e.live {
		if x := in.now(); x.x != nil && x.state.End == nil {
			x.check(in)
		}
	}
}

func (e *Env) evict() {
	for _, in := range e.live {
		if x := in.now(); x.x != nil {
			if err := x.x.Evict(); err != nil {
				e.tb.Errorf("evict: %v", err)
			}
		}
	}
}

// stuck fails a test whose instance waits for something that never comes, with the
// histories of those that might know what.
func (e *Env) stuck() {
	e.tb.Helper()
	const most = 5
	var text strings.Builder
	for i, in := range e.live {
		if in.now().x == nil {
			text.WriteString(in.lack() + "\n")
		}
		if i < most {
			text.WriteString(in.text())
		}
	}
	e.tb.Fatalf("the orchestration waits for something that never comes, %d activities and children by script among it\n%s", len(e.runs), &text)
}
