package crash

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// queueing is a harness whose instances wait at limits; see package work. First all of them wait, and none is released,
// whatever happens to the fleet. Then the holders are released, and end waits until all calls were admitted, and checks the order and
// the number of concurrent holders.
type queueing struct {
	*harness
	limits     *limiter.Limiter
	home       int                         // Redis master of the instances, if there are several
	lostWrites bool                        // a Redis server has lost writes: limit and order may be violated once
	over       map[string]int              // by limit: the number of concurrent holders, if it was exceeded
	orders     map[string][]limiter.Waiter // by limit: the waiters when the holders were released
}

const (
	callers   = 6 // instances that call the limited activity
	callsEach = 5 // calls of each caller
	runs      = 6 // instances of the limited orchestration
)

// leakedFor is the maximum time for which a slot may be lost, once all partitions have an owner: five seconds, and as much again on a
// busy machine.
const leakedFor = 10 * time.Second

func newQueueing(t *testing.T, s servers, env ...string) *queueing {
	t.Helper()
	a := newHarness(t, s, append([]string{"FLEET_OWNER_TTL=600ms", "PAWL_RECONCILE_INTERVAL=500ms"}, env...)...)
	run := redisx.NewRunner(a.rdb)
	t.Cleanup(run.Close)
	return &queueing{
		harness: a, orders: make(map[string][]limiter.Waiter), over: make(map[string]int),
		limits: limiter.New(run, redisx.NewSpace(a.Namespace), func(name string) int { return transport.PartitionOf(name, a.Partitions) }),
	}
}

func (q *queueing) callerID(n int) string {
	return (&family{harness: q.harness}).at(q.home, "caller", n)
}
func (q *queueing) runID(n int) string { return (&family{harness: q.harness}).at(q.home, "run", n) }

// begin starts all instances, and waits until all slots are taken and the other calls wait.
func (q *queueing) begin() {
	q.t.Helper()
	q.join()
	for i := range callers {
		q.call(q.callerID(i), callsEach)
	}
	for i := range runs {
		_, err := client.Start(q.ctx, q.Client, work.LimitedRun, q.runID(i), 0)
		q.must(err)
	}
	for _, c := range []struct {
		limit, in string
		waiting   int
	}{{work.Limited.Name(), work.LimitedAdmitted, callers*callsEach - work.Slots}, {work.LimitedRun.Name(), work.LimitedRunAdmitted, runs - work.Slots}} {
		q.untilStats(c.limit, func(s limiter.Stats) bool {
			return s.QueueLength == c.waiting && s.Active == work.Slots && len(q.admitted(c.in)) == work.Slots
		})
		q.orders[c.limit] = q.order(c.limit)
	}
}

func (q *queueing) call(id string, callsEach int) {
	q.t.Helper()
	_, err := client.Start(q.ctx, q.Client, work.Caller, id, callsEach)
	q.must(err)
}

// untilStats waits for a state of a limit, and restarts processes that have died.
func (q *queueing) untilStats(name string, yes func(limiter.Stats) bool) {
	q.t.Helper()
	var s limiter.Stats
	defer func() {
		if q.t.Failed() {
			q.t.Logf("%s: %+v; admitted %v", name, s, q.admitted(name+"-admitted"))
		}
	}()
	q.until(name+" has the expected state", func() bool {
		s = q.stats(name)
		return yes(s)
	})
}

// stats reads a limit, and checks that its holders do not exceed its slots. It returns the zero value while Redis is down.
func (q *queueing) stats(name string) limiter.Stats {
	q.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	s, _, err := q.limits.Stats(ctx, name)
	if err != nil {
		return limiter.Stats{}
	}
	if s.Active > max(work.Slots, q.over[name]) && !q.lostWrites {
		q.over[name] = s.Active // report it once
		q.t.Errorf("%s has %d holders, want at most %d", name, s.Active, work.Slots)
	}
	return s
}

func (q *queueing) order(name string) []limiter.Waiter {
	q.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	all, err := q.limits.Waiters(ctx, name, 0, 1000)
	q.must(err)
	return all
}

// admitted returns the first ledger line of each admitted call, in the form of a limit's tickets: instance and place.
func (q *queueing) admitted(in string) (all []string) {
	q.t.Helper()
	for _, l := range q.lines(in) {
		if ticket := place(l); !slices.Contains(all, ticket) {
			all = append(all, ticket)
		}
	}
	return all
}

func place(l []string) string {
	if l[0] == work.LimitedRunAdmitted || l[0] == work.LimitedRunReleased {
		return l[1]
	}
	return l[1] + " 1." + l[2]
}

// releaseHolders releases the holders, so that the waiters are admitted.
func (q *queueing) releaseHolders() {
	q.t.Helper()
	q.must(work.Ledger(q.ledger).ReleaseHolders())
}

// end waits until all calls were admitted, and checks everything.
func (q *queueing) end() {
	q.t.Helper()
	for i := range callers {
		q.completed(q.callerID(i), callsEach)
	}
	for i := range runs {
		q.completed(q.runID(i), 2)
	}
	q.checkReleased(map[string]uint64{work.Limited.Name(): callers * callsEach, work.LimitedRun.Name(): runs})
	q.check()
	if q.lostWrites {
		return
	}
	q.checkOrder(work.Limited.Name(), work.LimitedAdmitted, work.LimitedReleased, func(w limiter.Waiter) string { return w.Instance + " " + w.Place })
	q.checkOrder(work.LimitedRun.Name(), work.LimitedRunAdmitted, work.LimitedRunReleased, func(w limiter.Waiter) string { return w.Instance })
}

func (q *queueing) completed(id string, want int) {
	q.t.Helper()
	var event history.Event
	defer func() {
		if q.t.Failed() {
			q.t.Log(q.describe(id))
		}
	}()
	q.until(id+" has ended", func() bool {
		q.stats(work.Limited.Name())
		rec := q.Record(id)
		if rec == nil || !rec.Status.Ended() {
			return false
		}
		var err error
		event, err = rec.EndEvent()
		q.must(err)
		return true
	})
	c, ok := event.(*history.Completed)
	if !ok {
		q.t.Errorf("%s ended with %T %+v", id, event, event)
		return
	}
	if got, err := author.Result(work.Caller).Decode(c.Result); err != nil || got != want {
		q.t.Errorf("%s returned %d (%v), want %d", id, got, err, want)
	}
}

// checkReleased checks that all slots are released soon, and that no call was counted twice.
func (q *queueing) checkReleased(calls map[string]uint64) {
	q.t.Helper()
	began := time.Now()
	for name, n := range calls {
		var s limiter.Stats
		q.untilStats(name, func(now limiter.Stats) bool {
			s = now
			return s.TotalEnqueued > 0 && s.Active == 0 && s.QueueLength == 0
		})
		if took := time.Since(began); took > leakedFor && !q.lostWrites {
			q.t.Errorf("%s: a slot was not released for %v after all instances had ended", name, took)
		}
		if s.TotalEnqueued < n && !q.lostWrites || s.TotalEnqueued != s.TotalCompleted+s.Withdrawn || s.TimedOut+s.Cleared+s.Rejected != 0 {
			q.t.Errorf("%s: %d calls, and the limit reports %+v", name, n, s)
		}
		for _, err := range q.limits.Check(q.ctx, name) {
			q.t.Errorf("invariant broken: %v", err)
		}
	}
}

// checkOrder checks from the ledger that no call has overtaken another, and that there were never more holders than slots. All
// calls before an admitted one were admitted earlier: they hold a slot, have held one, or are about to run with one. So the
// holders and the calls about to run never exceed the slots.
func (q *queueing) checkOrder(name, in, out string, as func(limiter.Waiter) string) {
	q.t.Helper()
	rank := make(map[string]int)
	for i, w := range q.orders[name] {
		rank[as(w)] = i
	}
	upTo, admitted := 0, make(map[string]bool)
	holders, released := make(map[string]bool), make(map[string]bool)
	for _, l := range q.lines(in, out) {
		ticket := place(l)
		if l[0] == out {
			delete(holders, ticket)
			released[ticket] = true
			continue
		}
		if released[ticket] { // a run that had lost its lease before it began, and does not hold the slot
			continue
		}
		holders[ticket] = true
		if r, waited := rank[ticket]; waited {
			admitted[ticket] = true
			upTo = max(upTo, r+1)
		}
		if late := upTo - len(admitted); len(holders)+late > work.Slots {
			q.t.Errorf("%s, waiter %d of %s, was admitted before %d earlier waiters, with the holders %v and %d slots",
				ticket, rank[ticket]+1, name, late, slices.Collect(maps.Keys(holders)), work.Slots)
			return
		}
	}
	if len(admitted) != len(rank) {
		q.t.Errorf("%s: %d of %d waiters were admitted", name, len(admitted), len(rank))
	}
}
