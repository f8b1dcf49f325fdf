package orchestrator

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/pkg/history/store"
)

const (
	pollEvery = time.Second            // the schedule is read at least so often
	pollGap   = 250 * time.Millisecond // and, for what memory does not know, at most so often
	pollFull  = 10 * time.Millisecond  // but sooner if there were more than one poll takes
	dueBatch  = 256

	startsAtOnce = 32 // instances that a takeover or a loss of tasks has reconciled at a time
)

// poll asks the schedule which instances and gates are due.
func (a *actor) poll() {
	if a.polling {
		a.pollAgain = true
		return
	}
	a.polling = true
	a.checkHorizon()
	a.emit(effect{kind: readDue})
}

func (a *actor) dueRead(d store.DueSet, err error) {
	a.polling = false
	if a.pollAgain {
		a.pollAgain = false
		a.pollBy(time.Now())
	}
	if err != nil {
		a.failed("due", err)
		return
	}
	a.heard(d.Now)
	a.pollFor(d.Now, d.Next, len(d.Instances))
	for _, id := range d.Instances {
		a.lookAt(id)
	}
	a.pollFor(d.Now, d.NextLimit, len(d.Limits))
	for _, name := range d.Limits {
		a.lookGate(name)
	}
}

// pollFor brings the next poll forward to what is due next, 0: nothing, when the last poll has found so many.
func (a *actor) pollFor(now, next int64, found int) {
	if next == 0 {
		return
	}
	gap := pollGap
	if found == dueBatch { // thousands of stalled ones must not keep a neighbor's timer waiting
		gap = pollFull
	}
	a.pollBy(time.Now().Add(max(time.Duration(next-now)*time.Millisecond, gap)))
}

// pollBy brings the next poll forward.
func (a *actor) pollBy(t time.Time) {
	if t.Before(a.pollAt) {
		a.pollAt = t
	}
}

// lookAt has the instance reconciled, unless what is outstanding sets its next wake-up.
func (a *actor) lookAt(id string) {
	in := a.instance(id)
	if in.phase.busy() { // a commit or reconciliation sets the next wake-up; a load does not
		in.look = in.look || in.phase == loading || in.phase == fetchingHead
		return
	}
	in.look = true
	a.advance(in)
}

// startDeferred reconciles what a takeover or a loss of tasks has found, a bounded number at a time.
func (a *actor) startDeferred() {
	for len(a.todo) > 0 && a.busy < startsAtOnce && !a.leaving {
		id := a.todo[0]
		a.todo = a.todo[1:]
		in := a.instance(id)
		in.look = true // also of one that is busy: what is outstanding may set a wake-up that is far away
		a.advance(in)
	}
}

// takeover is what the store has for a new owner.
type takeover struct {
	stalls map[string]string // encoded, by instance
	due    []string
	now    int64
}

// takeOver begins the tenure.
func (a *actor) takeOver(found takeover, clean bool) {
	for id, why := range found.stalls {
		a.stalls[id] = parseStall(why)
		a.forced[id] = true
		a.todo = append(a.todo, id)
	}
	if !clean {
		a.doubted = found.now
	}
	a.heard(found.now) // before the first timer is judged: this process' own clock may be ahead
	a.todo = append(a.todo, found.due...)
	a.askHorizon(0)
}

// unfinished tells what the next owner has to repair; nil if there is nothing.
func (a *actor) unfinished() error {
	switch {
	case a.unsent > 0 || len(a.resends.failed) > 0:
		return fmt.Errorf("hand-over: %d messages and tasks of %d instances could not be published", a.unsent, len(a.resends.failed))
	case len(a.todo) > 0:
		return fmt.Errorf("hand-over: %d instances of the owner before have not been looked at", len(a.todo))
	default:
		return nil
	}
}
