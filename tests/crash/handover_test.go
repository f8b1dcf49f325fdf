package crash

import (
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redisx"
)

// owners counts the partitions of each member.
func (a *harness) owners(rdb redis.UniversalClient) map[string]int {
	space := redisx.NewSpace(a.Namespace)
	all := map[string]int{}
	for p := range a.Partitions {
		m, err := rdb.HGet(a.ctx, space.Part(p).Owner(), "member").Result()
		if err == nil && m != "" {
			all[m]++
		}
	}
	return all
}

// spread waits until the given number of members own all partitions.
func (a *harness) spread(rdb redis.UniversalClient, members int) map[string]int {
	a.t.Helper()
	var now map[string]int
	poll.Until(a.t, within, "the partitions are spread", func() bool {
		now = a.owners(rdb)
		sum := 0
		for _, n := range now {
			sum += n
		}
		return len(now) == members && sum == a.Partitions
	})
	return now
}

// ownerTTL is the ownership time in production.
const ownerTTL = 5 * time.Second

func TestPartitionsMoveWhenOrchestratorsJoinLeaveOrDie(t *testing.T) {
	t.Parallel()
	const ownerTTL = 30 * time.Second // so long that a busy machine hands over earlier than ownerships expire
	a := newHarnessOf(t, startServers(t), 32, "FLEET_OWNER_TTL="+ownerTTL.String())
	rdb := a.redis.Client(t)
	a.worker("worker")
	first := a.orchestrator("orchestrator-1")
	a.spread(rdb, 1)
	a.begin(4)

	began := time.Now()
	second := a.orchestrator("orchestrator-2")
	t.Logf("scale-out: %v after %v", a.spread(rdb, 2), since(began))
	a.begin(4)

	began = time.Now()
	first.Signal(syscall.SIGTERM)
	a.spread(rdb, 1)
	took := time.Since(began)
	first.Stopped()
	t.Logf("hand-over by SIGTERM: %v; the process had ended after %v", took.Round(time.Millisecond), since(began))
	if took > ownerTTL-5*time.Second { // ownerships are renewed every second
		t.Errorf("the hand-over took %v: partitions expired instead of being handed over", took)
	}
	a.begin(4)

	third := a.orchestrator("orchestrator-3")
	a.spread(rdb, 2)
	began = time.Now()
	second.Kill()
	a.spread(rdb, 1)
	t.Logf("take-over after kill -9: %v", since(began))
	if took, limit := time.Since(began), 2*ownerTTL; took > limit {
		t.Errorf("the takeover took %v, more than %v", took, limit)
	}
	a.end()
	third.Stop()
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// NATS reports the death of a process. Its partitions therefore do not wait until the ownership expires, which would take
// longer than the test.
func TestKilledOrchestratorIsReplacedBeforeItsOwnershipExpires(t *testing.T) {
	t.Parallel()
	a := newHarnessOf(t, startServers(t), 32, "FLEET_OWNER_TTL=10m")
	rdb := a.redis.Client(t)
	a.worker("worker")
	first, second := a.orchestrator("orchestrator-1"), a.orchestrator("orchestrator-2")
	a.spread(rdb, 2)
	a.begin(4)
	began := time.Now()
	first.Kill()
	a.spread(rdb, 1)
	t.Logf("after one of two was killed: %v", since(began))
	a.begin(4)
	began = time.Now()
	second.Kill()
	third := a.orchestrator("orchestrator-3")
	a.begin(4)
	a.end()
	t.Logf("after all were killed: %v", since(began))
	third.Stop()
}
