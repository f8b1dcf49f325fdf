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
	q := newQueueing(t, startServers(t))
	q.fleets()
	q.begin()
	q.redis.Kill()
	q.redis.Restart(t)
	for name, before := range q.orders {
		if after := q.order(name); !slices.Equal(before, after) {
			t.Errorf("%s: there waited\n%v, and wait\n%v", name, before, after)
		}
	}
	q.open()
	q.stand(work.Booth.Name(), func(s limiter.Stats) bool { return s.TotalCompleted >= 5 })
	q.redis.Kill() // and once more in the middle of it
	q.redis.Restart(t)
	q.end()
}

// The words of the gates go with it: the sweep says them again.
func TestWaitersKeepTheirOrderAcrossNATSRestart(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	q.fleets()
	q.begin()
	q.open()
	q.stand(work.Booth.Name(), func(s limiter.Stats) bool { return s.TotalCompleted >= 5 })
	q.nats.Kill()
	q.nats.Start()
	q.end()
}

// Nobody owns anything while they stand in line.
func TestWaitersWaitWhileNoOrchestratorRuns(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	o := q.orchestrator("orchestrator")
	q.worker("worker")
	q.begin()
	o.Kill()
	q.open()
	for _, in := range []string{work.BoothOut, work.LobbyIn} {
		q.until("those who are in have done what they wanted", func() bool { return len(q.came(in)) == work.Places })
	}
	o.Start()
	q.end()
}

// Instances and their gates are on different masters, of which each forgets for itself. What that may break is broken once: all
// end, and no slot and no waiter is left.
func TestLimitsRecoverWhenRedisRollsBack(t *testing.T) {
	for _, c := range []struct {
		name             string
		gates, instances bool // which master goes back
		empty            bool // to before anybody came; else to when all stood in line
	}{
		{"the gates, while they are let in", true, false, false},
		{"the instances, while they are let in", false, true, false},
		{"both, while they are let in", true, true, false},
		{"the gates, who was in and who waited", true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t, twoMasters(t))
			q.fleets()
			q.join()
			masters := q.masters()
			f := &family{arena: q.arena}
			kept := map[*redistest.Server]string{}
			keep := func() {
				if c.gates {
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
				q.open()
				q.stand(work.Booth.Name(), func(s limiter.Stats) bool { return s.TotalCompleted >= 10 })
			}
			q.forgot = true
			for server, log := range kept {
				f.restore(server, log)
			}
			if c.empty {
				q.stand(work.Booth.Name(), func(s limiter.Stats) bool { return s.QueueLength+s.Active == visitors*booths })
				q.open()
			}
			q.end()
		})
	}
}

// Instances do not wait for their gate's server: they are committed, wait for a word, and ask again.
func TestLimitThatDoesNotAnswerIsRequestedAgain(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, twoMasters(t))
	q.fleets()
	q.join()
	silent := q.masters()[0]
	silent.Pause()
	id := q.visitorID(0)
	q.visit(id, booths)
	q.until("it is committed", func() bool { return q.record(id) != nil })
	if n := len(q.lines(work.BoothIn)); n > 0 {
		t.Errorf("%d have come through a gate that does not answer", n)
	}
	silent.Resume()
	q.open()
	q.completed(id, booths)
	q.left(map[string]uint64{work.Booth.Name(): booths})
	q.check()
}

// masters finds the server that has the gate of the booths, and puts the instances on the other.
func (q *queueing) masters() [2]*redistest.Server {
	q.t.Helper()
	node, err := q.rdb.(*redis.ClusterClient).MasterForKey(q.ctx, redisx.NewSpace(q.ns).Limit(work.Booth.Name()).Waiters())
	q.must(err)
	if strings.HasSuffix(q.redis.Addr, node.Options().Addr) { // the client takes the loopback address away
		q.home = children
		return [2]*redistest.Server{q.redis, q.other}
	}
	q.home = parents
	return [2]*redistest.Server{q.other, q.redis}
}
