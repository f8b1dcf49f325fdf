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

// schedule has what is due: it reads the wake-ups of the partition, and knows up to when all inputs are known.
type schedule struct {
	*actor
	polling   bool
	pollAgain bool // a poll was due while one was under way, which may have read the schedule too early
	pollAt    time.Time
	todo      []string // to be reconciled when there is room: what a takeover found
	horizon   horizon
}

// poll asks the schedule which instances and gates are due.
func (a *schedule) poll() {
	if a.schedule.polling {
		a.schedule.pollAgain = true
		return
	}
	a.schedule.polling = true
	a.schedule.checkHorizon()
	a.emit(effect{kind: readDue})
}

func (a *schedule) dueRead(d store.DueSet, err error) {
	a.schedule.polling = false
	if a.schedule.pollAgain {
		a.schedule.pollAgain = false
		a.schedule.pollBy(a.clock.wall)
	}
	if err != nil {
		a.storeFailed("due", err)
		return
	}
	a.sawClock(d.Now)
	a.schedule.pollFor(d.Now, d.Next, len(d.Instances))
	for _, id := range d.Instances {
		a.schedule.wake(id)
	}
	a.schedule.pollFor(d.Now, d.NextLimit, len(d.Limits))
	for _, name := range d.Limits {
		a.notices.visitGate(name)
	}
}

// pollFor brings the next poll forward to what is due next, 0: nothing, when the last poll has found so many.
func (a *schedule) pollFor(now, next int64, found int) {
	if next == 0 {
		return
	}
	gap := pollGap
	if found == dueBatch { // thousands of stalled ones must not keep a neighbor's timer waiting
		gap = pollFull
	}
	a.schedule.pollBy(a.clock.wall.Add(max(time.Duration(next-now)*time.Millisecond, gap)))
}

// pollBy brings the next poll forward.
func (a *schedule) pollBy(t time.Time) {
	if t.Before(a.schedule.pollAt) {
		a.schedule.pollAt = t
	}
}

// wake has the instance reconciled, unless what is outstanding sets its next wake-up.
func (a *schedule) wake(id string) {
	in := a.instance(id)
	if in.phase.busy() { // a commit or reconciliation sets the next wake-up; a load does not
		in.wakeupDue = in.wakeupDue || in.phase == loading || in.phase == fetchingHead
		return
	}
	in.wakeupDue = true
	a.advance(in)
}

// startDeferred reconciles what a takeover or a loss of tasks has found, a bounded number at a time.
func (a *schedule) startDeferred() {
	for len(a.schedule.todo) > 0 && a.busy < startsAtOnce && !a.leaving {
		id := a.schedule.todo[0]
		a.schedule.todo = a.schedule.todo[1:]
		in := a.instance(id)
		in.wakeupDue = true // also of one that is busy: what is outstanding may set a wake-up that is far away
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
func (a *schedule) takeOver(found takeover, clean bool) {
	for id, why := range found.stalls {
		a.removals.stalls[id] = parseStall(why)
		a.removals.forced[id] = true
		a.schedule.todo = append(a.schedule.todo, id)
	}
	if !clean {
		a.leases.doubted = found.now
	}
	a.sawClock(found.now) // before the first timer is judged: this process' own clock may be ahead
	a.schedule.todo = append(a.schedule.todo, found.due...)
	a.schedule.askHorizon(0)
}

// unfinished tells what the next owner has to repair; nil if there is nothing.
func (a *schedule) unfinished() error {
	switch {
	case a.outbox.unsent > 0 || len(a.commits.resends.failed) > 0:
		return fmt.Errorf("hand-over: %d messages and tasks of %d instances could not be published", a.outbox.unsent, len(a.commits.resends.failed))
	case len(a.schedule.todo) > 0:
		return fmt.Errorf("hand-over: %d instances of the owner before have not been looked at", len(a.schedule.todo))
	default:
		return nil
	}
}
