package crash

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/tests/stack"
)

// fleets starts two members of each role.
func (a *harness) fleets() {
	a.t.Helper()
	a.orchestrator("orchestrator-1")
	a.orchestrator("orchestrator-2")
	a.worker("worker-1")
	a.worker("worker-2")
}

// steps waits until the workers have run n steps.
func (a *harness) steps(n int) {
	a.t.Helper()
	poll.Until(a.t, within, "the workers have run enough steps", func() bool { return len(a.lines("step")) >= n })
}

func TestNothingIsLostWhenRedisRestartsFromItsAOF(t *testing.T) {
	t.Parallel()
	a := newHarness(t, startDurableServers(t))
	a.fleets()
	a.begin(10)
	a.steps(5)
	a.redis.Kill()
	a.redis.Restart(t)
	a.begin(5)
	a.end()
}

// The snapshot from which Redis starts lacks later acknowledged writes: promise 2.
func TestNothingIsLostWhenRedisRestartsFromOldSnapshot(t *testing.T) {
	for _, c := range []struct {
		name   string
		before int // instances that the snapshot contains, at least in part
		steps  int // steps that were run when it is taken
		after  int // instances that are then only in the stream
	}{
		{"during all instances", 10, 8, 4},
		{"before the first turn", 0, 0, 10},
		{"shortly before the end", 10, 44, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := servers{nats: stack.StartNATS(t, bin), redis: redistest.Start(t)} // without an AOF, it restarts from the snapshot
			a := newHarness(t, s)
			a.fleets()
			a.join()
			a.begin(c.before)
			a.steps(c.steps)
			rdb := a.redis.Client(t)
			a.must(rdb.Save(a.ctx).Err())
			saved := a.applied(rdb)
			a.begin(c.after)
			a.steps(c.steps + 6)
			poll.Until(t, within, "inputs after the snapshot are ingested", func() bool { return a.applied(rdb) > saved })
			a.redis.Kill()
			a.redis.Restart(t)
			a.begin(2)
			a.end()
		})
	}
}

// applied returns the sum of the stream positions that the partitions have read.
func (a *harness) applied(rdb redis.UniversalClient) (sum int64) {
	a.t.Helper()
	for p := range a.Partitions {
		seq, err := rdb.HGet(a.ctx, redisx.NewSpace(a.Namespace).Part(p).Owner(), "seq").Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			a.t.Fatal(err)
		}
		sum += seq
	}
	return sum
}

func TestNothingIsLostWhenNATSRestarts(t *testing.T) {
	t.Parallel()
	a := newHarness(t, startDurableServers(t))
	a.fleets()
	a.begin(10)
	a.steps(5)
	a.nats.Kill() // the tasks are held in memory and are lost with it
	a.nats.Start()
	a.begin(5)
	a.end()
}

func TestDeletedTasksStreamIsRefilledFromHistory(t *testing.T) {
	t.Parallel()
	a := newHarness(t, startServers(t), "PAWL_RECONCILE_INTERVAL=1h") // the loss itself must be detected
	a.orchestrator("orchestrator")
	a.begin(10)
	js, err := jetstream.New(a.nats.Client())
	a.must(err)
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	var name string
	poll.Until(t, within, "all ten wait for a worker", func() bool {
		for info := range js.ListStreams(ctx, jetstream.WithStreamListSubject("pawl."+a.Namespace+".task.>")).Info() {
			name = info.Config.Name
			return info.State.Msgs == 10
		}
		return false
	})
	a.must(js.DeleteStream(ctx, name))
	a.worker("worker")
	a.end()
}

// While a partition has no owner, the stream still accepts inputs, and the next owner reads them.
func TestInputsWaitWhileNoOrchestratorRuns(t *testing.T) {
	t.Parallel()
	a := newHarness(t, startServers(t))
	o := a.orchestrator("orchestrator")
	a.worker("worker")
	a.begin(3)
	o.Kill()
	a.begin(6) // the stream accepts them
	began := time.Now()
	o.Start()
	a.end()
	t.Logf("all had ended %v after the orchestrator was back", time.Since(began).Round(time.Millisecond))
}
