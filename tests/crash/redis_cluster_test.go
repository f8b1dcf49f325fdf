package crash

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/tests/stack"
)

// onCluster returns a harness on a Redis Cluster with three masters, each with a replica, and without fleets.
func onCluster(t *testing.T) *harness {
	t.Helper()
	return newHarnessOf(t, servers{nats: stack.StartNATS(t, bin), cluster: redistest.StartReplicatedCluster(t, 3)}, 12)
}

// shard returns the shard that has the partition of an instance.
func (a *harness) shard(instance string) int {
	a.t.Helper()
	return a.cluster.Shard(a.t, redisx.NewSpace(a.Namespace).Part(transport.PartitionOf(instance, a.Partitions)).Owner())
}

// failOver starts fleets and instances, injects a fault into the master of the first shard, starts further instances, and
// checks that all of them end. It returns the time from the election of the replica to the end of the first of the later
// instances on that shard.
func (a *harness) failOver(fault func(master *redistest.Server)) time.Duration {
	a.t.Helper()
	a.fleets()
	a.begin(9)
	a.steps(8)
	fault(a.cluster.Masters[0])
	before := len(a.mixed)
	a.begin(9)
	elected := a.cluster.AwaitElection(a.t, 0)
	a.end()
	var first time.Duration
	for i := before; i < len(a.mixed); i++ {
		if after := a.mixed[i].at.Sub(elected); a.shard(id(i)) == 0 && (first == 0 || after < first) {
			first = after
		}
	}
	a.t.Logf("the first instance of the shard ended %v after the election", first.Round(time.Millisecond))
	return first
}

// recoversWithin is the maximum time from an election to the end of an instance, on a busy machine. An idle one needs a few seconds.
const recoversWithin = 30 * time.Second

func TestClusterContinuesWhenMasterDiesAndReplicaIsElected(t *testing.T) {
	t.Parallel()
	if after := onCluster(t).failOver((*redistest.Server).Kill); after > recoversWithin {
		t.Errorf("%v after the election", after)
	}
}

func TestClusterContinuesWhenMasterHangsAndReplicaIsElected(t *testing.T) {
	t.Parallel()
	if after := onCluster(t).failOver((*redistest.Server).Pause); after > recoversWithin {
		t.Errorf("%v after the election", after)
	}
}

// waited checks that no member of the fleets has ended, and that each logged at most once that it was waiting.
func (a *harness) waited() {
	a.t.Helper()
	for _, p := range a.Processes {
		select {
		case <-p.Ended():
			a.t.Error("a member has ended")
		default:
		}
		for _, server := range []string{"nats", "redis"} {
			if n := strings.Count(p.Log(), `msg="waiting for `+server+`"`); n > 1 {
				a.t.Errorf("a member logged %d times that it waits for %s", n, server)
			}
		}
	}
}

func TestFleetStartedWhileRedisLoadsItsKeysWaits(t *testing.T) {
	t.Parallel()
	a := newHarness(t, servers{nats: stack.StartNATS(t, bin), redis: redistest.StartLoading(t, 4000)})
	a.fleets()
	poll.Until(t, within, "Redis has loaded its keys", func() bool { return a.rdb.Ping(a.ctx).Err() == nil })
	loaded := time.Now()
	a.begin(3)
	a.end()
	a.waited()
	a.t.Logf("the last instance had ended %v after the load", time.Since(loaded).Round(time.Millisecond))
}

func TestFleetStartedWhileClusterMasterHangsWaitsForElection(t *testing.T) {
	t.Parallel()
	a := onCluster(t)
	a.cluster.Masters[0].Pause()
	a.fleets()
	elected := a.cluster.AwaitElection(t, 0)
	a.begin(6)
	a.end()
	a.waited()
	a.t.Logf("the last instance had ended %v after the election", time.Since(elected).Round(time.Millisecond))
}

// Running activities are completed, partitions and leases are kept, and new work waits.
func TestRedisOutOfMemoryKeepsOwnersAndAcceptsInputsLater(t *testing.T) {
	t.Parallel()
	a := newHarnessOf(t, startServers(t), 32, "FLEET_OWNER_TTL=10s")
	a.fleets()
	a.spread(a.rdb, 2) // later changes of owners count as losses
	a.begin(6)
	a.steps(4)
	a.redis.OutOfMemory(t)
	owners := a.epochs()
	a.begin(4)
	full := time.NewTimer(12 * time.Second) // longer than ownerships and leases last
	<-full.C
	if now := a.epochs(); now != owners {
		t.Errorf("partitions were acquired %s times, and now %s times", owners, now)
	}
	a.redis.HasMemory(t)
	a.end()
}

// epochs lists how often each partition was acquired.
func (a *harness) epochs() string {
	a.t.Helper()
	var all []string
	for p := range a.Partitions {
		n, err := a.rdb.HGet(a.ctx, redisx.NewSpace(a.Namespace).Part(p).Owner(), "epoch").Result()
		a.must(err)
		all = append(all, n)
	}
	return strings.Join(all, " ")
}
