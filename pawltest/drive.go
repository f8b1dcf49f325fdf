package pawltest

import (
	"fmt"
	"math"
	"strings"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

func (e *world) run(start *message.OutInput) {
	e.tb.Helper()
	if e.begun {
		e.tb.Fatal("an Env runs one instance once; make another with New")
	}
	if !e.code.has(start.Name) {
		e.tb.Fatalf("orchestration %s is not among the bindings given to New", start.Name)
	}
	start.Instance = e.setup.id
	for _, option := range e.setup.options {
		option.apply(start)
	}
	e.open(start)
	e.drive(func() {
		for !e.ended(e.setup.id) && e.endless == nil {
			if !e.next(math.MaxInt64, true) {
				e.failStalled()
			}
		}
		for e.endless == nil && e.next(e.part.Now, false) { // finish what is due at this instant
		}
		e.finished = true
		e.checkLive()
	})
}

// open begins the tenure of the first owner, and accepts the start of the instance under test, if there is one.
func (e *world) open(start *message.OutInput) {
	e.begun = true
	e.tb.Cleanup(e.part.clear)
	e.part.acquire()
	if start != nil {
		e.part.accept(start)
	}
	for _, do := range e.moments.early {
		do()
	}
}

// advance lets time pass until the given time. If the Env has no instance under test, it opens the world.
func (e *world) advance(until int64) {
	e.tb.Helper()
	if !e.begun {
		e.open(nil)
		e.finished = true
	}
	e.drive(func() {
		for e.endless == nil && e.next(until, true) {
		}
		if e.endless != nil {
			e.fatalf("%v", e.endless)
		}
		e.part.Now = until
		e.checkLive()
	})
}

// next does the one thing that is due first, if that is not later than until, and advances time to it. It reports whether there was one.
// If moments is false, the moments declared by the test are left out.
func (e *world) next(until int64, moments bool) bool {
	p := e.part
	e.moments.apply = moments
	if e.moments.afterLastTurn() || p.handle() || p.ingest() || p.turn() || p.wake() {
		return true
	}
	i, due, some := e.work.next()
	if some && due <= p.Now {
		e.work.finish(i)
		return true
	}
	if e.moments.due(p.Now) || e.moments.onceBlocked() {
		return true
	}
	at := e.expected(due)
	if at == math.MaxInt64 {
		return false
	}
	if at = min(at, p.due()); at > until { // wakeups of the owner on the way to at come first
		return false
	}
	p.Now = max(p.Now, at)
	return true
}

// expected returns when something that the test waits for happens next: a run ends (at due), a timer fires, a limit admits, or a moment
// is due.
func (e *world) expected(due int64) int64 {
	at := min(due, e.moments.next(), e.part.expected())
	for _, in := range e.live {
		at = min(at, in.timer())
	}
	return at
}

// timer returns when the first timer of an instance is due or its run times out; math.MaxInt64 if never.
func (in *instance) timer() int64 {
	s, at := in.now().state, int64(math.MaxInt64)
	if s.End != nil || s.PausedBy() != nil {
		return at
	}
	if t, ok := s.NextTimer(); ok {
		at = t.FireAt
	}
	if d := s.Deadline(); d != 0 {
		at = min(at, d)
	}
	return at
}

// pollMayComplete reports whether nothing is left that is due at this instant and that a poll must see: moments, and the runs up to
// number lastRun.
func (e *world) pollMayComplete(lastRun uint64) bool {
	if e.moments.next() <= e.part.Now {
		return false
	}
	for i := range e.work.runs {
		if r := &e.work.runs[i]; r.due <= e.part.Now && r.number <= lastRun {
			return false
		}
	}
	return true
}

// checkLive checks the executions that have not ended: see execution.check.
func (e *world) checkLive() {
	for _, in := range e.live {
		if x := in.now(); x.state.End == nil {
			x.check(in)
		}
	}
}

// stalled fails the test if the code of a stalled instance is not bound, unless a Deploy is still to come.
func (e *world) stalled(id string, stall *core.Stall) {
	if e.moments.deploys == 0 {
		e.failf(id, "%s", e.describeMissingCode(id, stall))
	}
}

// describeMissingCode describes the code that an instance waits for.
func (e *world) describeMissingCode(id string, stall *core.Stall) string {
	text := stall.Reason
	for _, x := range e.part.Store.Get(id).Inbox {
		ev, _ := eventcodec.Element{ID: x.ID, At: x.Time, Body: x.Body}.Event()
		s, ok := ev.(*history.Started)
		switch {
		case !ok:
		case !e.code.has(s.Name):
			return "instance " + id + " is of orchestration " + s.Name + ", which is neither bound nor faked; give a binding to New or to Fake, or set its outcome with Script"
		default:
			return fmt.Sprintf("instance %s is of orchestration %s, version %q, which is not bound; bound are %q", id, s.Name, s.Version, e.code.registry.Versions(s.Name))
		}
	}
	return text
}

// failStalled fails the test because its instance waits for something that never happens, and prints the histories of the first live
// instances.
func (e *world) failStalled() {
	e.tb.Helper()
	const maxShown = 5
	var text strings.Builder
	for id, stall := range e.part.stalled {
		text.WriteString(e.describeMissingCode(id, core.ParseStall(stall)) + "\n")
	}
	for _, in := range e.live[:min(len(e.live), maxShown)] {
		text.WriteString(in.text())
	}
	e.fatalf("the orchestration waits for something that never comes, %d activities and children by script among it\n%s", len(e.work.runs), &text)
}
