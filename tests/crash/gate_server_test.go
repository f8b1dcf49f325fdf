package crash

import (
	"slices"
	"testing"

	"github.com/pawlrun/pawl/pkg/gate"
	"github.com/pawlrun/pawl/tests/crash/work"
)

func TestRedisRestartedWithWaitersLosesNobodyAndNobodysTurn(t *testing.T) {
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
	q.stand(work.Booth.Name(), func(s gate.Stats) bool { return s.TotalCompleted >= 5 })
	q.redis.Kill() // and once more in the middle of it
	q.redis.Restart(t)
	q.end()
}

// The words of the gates go with it: the sweep says them again.
func TestNATSRestartedWithWaitersLosesNobodyAndNobodysTurn(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	q.fleets()
	q.begin()
	q.open()
	q.stand(work.Booth.Name(), func(s gate.Stats) bool { return s.TotalCompleted >= 5 })
	q.nats.Kill()
	q.nats.Start()
	q.end()
}

// Nobody owns anything while they stand in line.
func TestQueuesWithoutOrchestratorsOnlyWait(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	o := q.orchestrator("orchestrator")
	q.worker("worker")
	q.begin()
	o.Kill()
	q.open()
	for _, in := range []string{work.BoothOut, work.LobbyIn} {
		q.until("those who are in have done what they wanted", func() bool { return len(q.lines(in)) == work.Places })
	}
	o.Start()
	q.end()
}
