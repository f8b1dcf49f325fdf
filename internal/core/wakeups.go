package core

import (
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/record"
)

// How often the wakeups are read, and how many at a time.
const (
	pollEvery = time.Second           // the maximum time between two polls
	pollRest  = 2 * time.Second       // the maximum if no wakeup is scheduled: then no lease exists, and only limits are entered from outside
	pollGap   = 20 * time.Millisecond // the minimum before a poll for a wakeup that the last poll has seen
	pollFull  = 10 * time.Millisecond // the minimum if the last poll was full
	DueBatch  = 256                   // the maximum number of instances, and of limits, that one poll returns

	maxLoads      = 128 // busy instances at which notices of limits and the horizon load no further instance
	maxReconciles = 32  // busy instances at which a takeover or a loss of tasks reconciles no further instance
)

// schedule reads the wakeups of the partition, and keeps the horizon of its inputs.
type schedule struct {
	owner     *Owner
	polling   bool      // a poll is outstanding
	pollAgain bool      // a poll was due while one was outstanding, which may have read the wakeups too early
	polled    time.Time // time of the last poll, rounded down to a multiple of pollEvery
	pollAt    time.Time // latest time of the next poll
	todo      []string  // instances to be reconciled when fewer are busy, such as those that a takeover found
	horizon   horizon
}

// wakeupsDue reads which instances and limits are due.
func (s *schedule) wakeupsDue() {
	s.polled = s.owner.clock.wall.Truncate(pollEvery) // the same for all partitions: one pipeline
	s.pollAt = s.polled.Add(pollEvery)
	if s.polling {
		s.pollAgain = true
		return
	}
	s.polling = true
	if len(s.horizon.held) > 0 || s.horizon.began == 0 { // the last read failed, or its last input will never be ingested
		s.readHorizon(0)
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
	if d.Next == 0 && d.NextLimit == 0 && s.pollAt.Equal(s.polled.Add(pollEvery)) { // nothing is scheduled, and pollBy has not brought the next poll forward
		s.pollAt = s.polled.Truncate(pollRest).Add(pollRest)
	}
	s.pollFor(d.Now, d.Next, len(d.Instances))
	for _, id := range d.Instances {
		s.wake(id)
	}
	s.pollFor(d.Now, d.NextLimit, len(d.Limits))
	for _, name := range d.Limits {
		s.owner.notices.visitLimit(name)
	}
}

// pollFor brings the next poll forward to the next wakeup (0: none). found is the number of wakeups that the last poll returned.
func (s *schedule) pollFor(now, next int64, found int) {
	if next == 0 {
		return
	}
	gap := pollGap
	if found == DueBatch { // thousands of stalled instances must not delay the timers of others
		gap = pollFull
	}
	s.pollBy(s.owner.clock.wall.Add(max(time.Duration(next-now)*time.Millisecond, gap)))
}

// pollBy brings the next poll forward to t.
func (s *schedule) pollBy(t time.Time) {
	if t.Before(s.pollAt) {
		s.pollAt = t
	}
}

// wake reconciles the instance, unless the outstanding request sets its next wakeup.
func (s *schedule) wake(id string) {
	in := s.owner.instance(id)
	if in.phase.busy() { // a commit or a reconciliation sets the next wakeup; a load does not
		in.wakeupDue = in.wakeupDue || in.phase == loading || in.phase == fetchingHead
		return
	}
	in.wakeupDue = true
	s.owner.advance(in)
}

// advanceOrDefer makes the next step of an instance. If it would have to be loaded while maxLoads are busy, the step is deferred.
func (s *schedule) advanceOrDefer(in *instance) {
	if in.phase == Absent && s.owner.busy >= maxLoads {
		s.todo = append(s.todo, in.id)
		return
	}
	s.owner.advance(in)
}

// startDeferred reconciles deferred instances, at most maxReconciles at a time.
func (s *schedule) startDeferred() {
	for len(s.todo) > 0 && s.owner.busy < maxReconciles && !s.owner.leaving && s.owner.err == nil {
		id := s.todo[0]
		s.todo = s.todo[1:]
		in := s.owner.instance(id)
		in.wakeupDue = true // even if it is busy: the outstanding request may set a wakeup that is far away
		s.owner.advance(in)
	}
}

// Takeover is the stored state that a new owner starts from.
type Takeover struct {
	Stalls   map[string]string // encoded Stall, by instance
	Due      []string          // instances to reconcile
	Now      int64             // Redis TIME, Unix ms
	Clean    bool              // the previous owner released the partition
	Lost     time.Time         // tasks published before it are lost; zero: none are known to be
	Watched  time.Time         // changes are watched until then
	Policies *limit.Overrides  // policies set at runtime
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
	s.owner.clock.set(found.Now) // before any timer is compared with it: the clock of this process may be ahead
	s.todo = append(s.todo, found.Due...)
	s.readHorizon(0)
}
