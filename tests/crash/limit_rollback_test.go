package crash

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/tests/crash/work"
)

func TestWaitersKeepTheirOrderAcrossRedisRestart(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startDurableServers(t))
	q.fleets()
	q.begin()
	q.redis.Kill()
	q.redis.Restart(t)
	for name, before := range q.orders {
		if after := q.order(name); !slices.Equal(before, after) {
			t.Errorf("%s: waiters before\n%v, and after\n%v", name, before, after)
		}
	}
	q.releaseHolders()
	q.untilStats(work.Limited.Name(), func(s limiter.Stats) bool { return s.TotalCompleted >= 5 })
	q.redis.Kill() // and once more while they are admitted
	q.redis.Restart(t)
	q.end()
}

// The notices of the limits are lost with NATS, and the sweep resends them.
func TestWaitersKeepTheirOrderAcrossNATSRestart(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startDurableServers(t))
	q.fleets()
	q.begin()
	q.releaseHolders()
	q.untilStats(work.Limited.Name(), func(s limiter.Stats) bool { return s.TotalCompleted >= 5 })
	q.nats.Kill()
	q.nats.Start()
	q.end()
}

// No partition has an owner while calls wait.
func TestWaitersWaitWhileNoOrchestratorRuns(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t), "PAWL_LEASE_TTL=60s") // no owner could dispatch an activity again whose lease expires
	o := q.orchestrator("orchestrator")
	q.worker("worker")
	q.begin()
	o.Kill()
	q.releaseHolders()
	for _, in := range []string{work.LimitedReleased, work.LimitedRunAdmitted} {
		q.until("the holders have begun", func() bool { return len(q.admitted(in)) == work.Slots })
	}
	o.Start()
	q.end()
}

// Instances and their limits are on different masters, which lose writes separately. Limit and order may be violated once.
// Everything ends, and no slot or waiter remains.
func TestLimitsRecoverWhenRedisRollsBack(t *testing.T) {
	for _, c := range []struct {
		name              string
		limits, instances bool // which master is rolled back
		empty             bool // to a state before the first call; otherwise to the state in which all wait
	}{
		{"the limits, during admission", true, false, false},
		{"the instances, during admission", false, true, false},
		{"both, during admission", true, true, false},
		{"the limits, with holders and waiters", true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t, twoMasters(t))
			q.fleets()
			q.join()
			masters := q.masters()
			f := &family{harness: q.harness}
			kept := map[*redistest.Server]string{}
			keep := func() {
				if c.limits {
					kept[masters[0]] = f.keep(masters[0])
				}
				if c.instances {
					kept[masters[1]] = f.keep(masters[1])
				}
			}
			if c.empty {
				keep()
			}
			q.begin()
			if !c.empty {
				keep()
				q.releaseHolders()
				q.untilStats(work.Limited.Name(), func(s limiter.Stats) bool { return s.TotalCompleted >= 10 })
			}
			q.lostWrites = true
			for server, log := range kept {
				f.restore(server, log)
			}
			if c.empty {
				q.untilStats(work.Limited.Name(), func(s limiter.Stats) bool { return s.QueueLength+s.Active == callers*callsEach })
				q.releaseHolders()
			}
			q.end()
		})
	}
}

// Instances do not block on the server of their limit: they are committed, wait for a notice, and repeat the request.
func TestLimitThatDoesNotAnswerIsRequestedAgain(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, twoMasters(t))
	q.fleets()
	q.join()
	q.started() // this needs both servers
	silent := q.masters()[0]
	silent.Pause()
	id := q.callerID(0)
	q.call(id, callsEach)
	q.until("it is committed", func() bool { return q.Record(id) != nil })
	if n := len(q.lines(work.LimitedAdmitted)); n > 0 {
		t.Errorf("%d were admitted by an unreachable limit", n)
	}
	silent.Resume()
	q.releaseHolders()
	q.completed(id, callsEach)
	q.checkReleased(map[string]uint64{work.Limited.Name(): callsEach})
	q.check()
}

// masters returns the server of the limit of the activity first, and places the instances on the other.
func (q *queueing) masters() [2]*redistest.Server {
	q.t.Helper()
	node, err := q.rdb.(*redis.ClusterClient).MasterForKey(q.ctx, redisx.NewSpace(q.Namespace).Limit(work.Limited.Name()).Waiters())
	q.must(err)
	if strings.HasSuffix(q.redis.Addr, node.Options().Addr) { // the client strips the loopback address
		q.home = children
		return [2]*redistest.Server{q.redis, q.other}
	}
	q.home = parents
	return [2]*redistest.Server{q.other, q.redis}
}
