package core

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/record"
)

// How often the schedule is read, and how much of it.
const (
	pollEvery = time.Second           // the schedule is read at least so often
	pollRest  = 2 * time.Second       // likewise, if it has nothing: no worker has a lease then, and only limits are entered from outside
	pollGap   = 20 * time.Millisecond // and, for what memory does not know, at most so often
	pollFull  = 10 * time.Millisecond // but sooner if there were more than one poll takes
	DueBatch  = 256

	maxLoads     = 128 // instances that are brought into memory at a time by notices of limits, or the horizon
	startsAtOnce = 32  // instances that a takeover or a loss of tasks has reconciled at a time
)

// schedule has what is due: it reads the wake-ups of the partition, and keeps the horizon of its inputs.
type schedule struct {
	owner     *Owner
	polling   bool
	pollAgain bool      // a poll was due while one was under way, which may have read the schedule too early
	polled    time.Time // the multiple of pollEvery before the last poll
	pollAt    time.Time
	todo      []string // to be reconciled when there is room: what a takeover found
	horizon   horizon
}

// wakeupsDue reads the schedule when it is time.
func (s *schedule) wakeupsDue() {
	s.polled = s.owner.clock.wall.Truncate(pollEvery) // all partitions together: one pipeline
	s.pollAt = s.polled.Add(pollEvery)
	s.poll()
}

// poll asks the schedule which instances and gates are due.
func (s *schedule) poll() {
	if s.polling {
		s.pollAgain = true
		return
	}
	s.polling = true
	if len(s.horizon.held) > 0 || s.horizon.began == 0 { // the stream did not answer, or its answer cannot be reached
		s.askHorizon(0)
	}
	s.owner.emit(Effect{Kind: ReadDue})
}

func (s *schedule) dueRead(d record.DueSet, err error) {
	s.polling = false
	if s.pollAgain {
		s.pollAgain = false
		s.pollBy(s.owner.clock.wall)
	}
	if err != nil {
		s.owner.storeFailed("due", err)
		return
	}
	s.owner.clock.set(d.Now)
	s.owner.commits.sweepWaiters()
	if d.Next == 0 && d.NextLimit == 0 && s.pollAt.Equal(s.polled.Add(pollEvery)) { // and nothing has brought it forward
		s.pollAt = s.polled.Truncate(pollRest).Add(pollRest)
	}
	s.pollFor(d.Now, d.Next, len(d.Instances))
	for _, id := range d.Instances {
		s.wake(id)
	}
	s.pollFor(d.Now, d.NextLimit, len(d.Limits))
	for _, name := range d.Limits {
		s.owner.notices.visitGate(name)
	}
}

// pollFor brings the next poll forward to what is due next, 0: nothing, when the last poll has found so many.
func (s *schedule) pollFor(now, next int64, found int) {
	if next == 0 {
		return
	}
	gap := pollGap
	if found == DueBatch { // thousands of stalled ones must not keep a neighbor's timer waiting
		gap = pollFull
	}
	s.pollBy(s.owner.clock.wall.Add(max(time.Duration(next-now)*time.Millisecond, gap)))
}

// pollBy brings the next poll forward.
func (s *schedule) pollBy(t time.Time) {
	if t.Before(s.pollAt) {
		s.pollAt = t
	}
}

// wake has the instance reconciled, unless what is outstanding sets its next wake-up.
func (s *schedule) wake(id string) {
	in := s.owner.instance(id)
	if in.phase.busy() { // a commit or reconciliation sets the next wake-up; a load does not
		in.wakeupDue = in.wakeupDue || in.phase == loading || in.phase == fetchingHead
		return
	}
	in.wakeupDue = true
	s.owner.advance(in)
}

// bring makes the next step of an instance, later if it would have to be loaded and enough are.
func (s *schedule) bring(in *instance) {
	if in.phase == Absent && s.owner.busy >= maxLoads {
		s.todo = append(s.todo, in.id)
		return
	}
	s.owner.advance(in)
}

// startDeferred reconciles what a takeover or a loss of tasks has found, a bounded number at a time.
func (s *schedule) startDeferred() {
	for len(s.todo) > 0 && s.owner.busy < startsAtOnce && !s.owner.leaving && s.owner.err == nil {
		id := s.todo[0]
		s.todo = s.todo[1:]
		in := s.owner.instance(id)
		in.wakeupDue = true // also of one that is busy: what is outstanding may set a wake-up that is far away
		s.owner.advance(in)
	}
}

// Takeover is what the store has for a new owner.
type Takeover struct {
	Stalls   map[string]string // encoded, by instance
	Due      []string
	Now      int64
	Clean    bool             // the owner before has handed over
	Lost     time.Time        // tasks that were published before it are gone; zero: none are known to be
	Watched  time.Time        // changes are watched until then
	Policies *limit.Overrides // that are set
}

// takeOver begins the tenure.
func (s *schedule) takeOver(found *Takeover) {
	s.owner.leases.lost, s.owner.commits.watched, s.owner.admission.policies.Set = found.Lost, found.Watched, found.Policies
	for _, id := range sorted(found.Stalls) {
		why := found.Stalls[id]
		s.owner.removals.stalls[id] = ParseStall(why)
		s.owner.removals.forced[id] = true
		s.todo = append(s.todo, id)
	}
	if !found.Clean {
		s.owner.leases.doubted = found.Now
	}
	s.owner.clock.set(found.Now) // before the first timer is judged: this process' own clock may be ahead
	s.todo = append(s.todo, found.Due...)
	s.askHorizon(0)
}

// unfinished reports what the next owner has to repair; nil if there is nothing.
func (s *schedule) unfinished() error {
	switch {
	case s.owner.outbox.unsent > 0 || len(s.owner.commits.resends.failed) > 0:
		return fmt.Errorf("hand-over: %d messages and tasks of %d instances could not be published", s.owner.outbox.unsent, len(s.owner.commits.resends.failed))
	case len(s.todo) > 0:
		return fmt.Errorf("hand-over: %d instances of the owner before have not been looked at", len(s.todo))
	default:
		return nil
	}
}
