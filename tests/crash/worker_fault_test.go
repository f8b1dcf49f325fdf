package crash

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

// disconnectable is a worker with proxied connections to NATS and Redis.
type disconnectable struct {
	*stack.Process

	nats, redis *netfault.Proxy
}

// proxiedWorker starts such a worker.
func (a *harness) proxiedWorker() disconnectable {
	a.t.Helper()
	var d disconnectable
	var err error
	d.nats, err = netfault.Listen(a.nats.Addr)
	a.must(err)
	a.t.Cleanup(d.nats.Close)
	d.redis, err = netfault.Listen(a.redis.Addr)
	a.must(err)
	a.t.Cleanup(d.redis.Close)
	d.Process = a.worker("disconnectable", "PAWL_NATS=nats://"+d.nats.Addr(), "PAWL_REDIS=redis://"+d.redis.Addr())
	return d
}

func (d disconnectable) heal() {
	d.nats.Heal()
	d.redis.Heal()
	d.Signal(syscall.SIGCONT)
}

// startHold starts an instance whose activity runs until ReleaseHolders, and waits until the activity runs.
func (a *harness) startHold(instance string) *client.Instance[pawl.None] {
	a.t.Helper()
	run, err := client.Start(a.ctx, a.Client, work.CallHold, instance, pawl.None{})
	a.must(err)
	poll.Until(a.t, within, "the activity runs", func() bool { return len(a.lines(work.Held)) > 0 })
	return run
}

// runSteps runs instances of one activity, one after another, and returns their durations.
func (a *harness) runSteps(prefix string, n int) []time.Duration {
	a.t.Helper()
	took := make([]time.Duration, n)
	for i := range n {
		began := time.Now()
		run, err := client.Start(a.ctx, a.Client, work.CallStep, fmt.Sprint(prefix, "-", i), i)
		a.must(err)
		if got, err := run.Result(a.ctx); err != nil || got != i+1 {
			a.t.Fatalf("%s-%d: %d, %v", prefix, i, got, err)
		}
		took[i] = time.Since(began)
	}
	return took
}

// Two workers share the queues, and one of them is disconnected. It delays a few tasks until it, or the server, has detected it,
// and each for at most one AckWait. After that it receives no tasks, its own activity runs on the other worker, and what it
// does after it is reconnected takes effect once.
func TestDisconnectedWorkerDelaysFewTasksAndRepeatsNone(t *testing.T) {
	for name, fault := range map[string]func(disconnectable){
		"Redis, black hole": func(d disconnectable) { d.redis.BlackHole() },
		"NATS, black hole":  func(d disconnectable) { d.nats.BlackHole() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const reconcile = 20 * time.Second
			a := newHarness(t, startServers(t), "PAWL_LEASE_TTL=6s", "PAWL_RECONCILE_INTERVAL="+reconcile.String())
			a.orchestrator("orchestrator")
			d := a.proxiedWorker()
			a.join()
			run := a.startHold("held")
			connected := a.worker("connected")
			pid := strconv.Itoa(connected.Pid())
			served := func() bool {
				return slices.ContainsFunc(a.lines("step"), func(f []string) bool { return f[4] == pid })
			}
			for i := 0; !served(); i++ {
				a.runSteps(fmt.Sprint("warm-", i), 1)
			}
			usual := a.runSteps("usual", 9)
			slices.Sort(usual)
			delayed := max(900*time.Millisecond, 10*usual[len(usual)/2]) // an unanswered claim is given up after a second
			before := len(a.lines("step"))

			fault(d)
			const n = 40
			took := a.runSteps("canary", n)
			slow, longest := 0, slices.Max(took)
			for _, d := range took {
				if d > delayed {
					slow++
				}
			}
			t.Logf("%d instances, %d of them delayed, at most by %v", n, slow, longest.Round(time.Millisecond))
			if slow > 8 || longest > reconcile-2*time.Second {
				t.Errorf("a disconnected worker delays tasks: %v", took)
			}
			a.must(work.Ledger(a.ledger).ReleaseHolders())
			_, err := run.Result(a.ctx) // while the fault lasts
			a.must(err)

			d.heal()
			connected.Stop()
			a.runSteps("back", 5)
			d.Stop()
			if ran := len(a.lines("step")) - before; ran != n+5 {
				t.Errorf("%d activities were run for %d instances", ran, n+5)
			}
			a.check()
		})
	}
}

// The snapshot from which Redis starts contains the claim, but not its end. The lease would expire after an hour, and the
// instance would be reconciled after another hour.
func TestAckLostByRedisIsRepeatedBeforeTheLeaseExpires(t *testing.T) {
	t.Parallel()
	s := servers{nats: stack.StartNATS(t, bin), redis: redistest.Start(t)} // without an AOF, it restarts from the snapshot
	a := newHarness(t, s, "PAWL_LEASE_TTL=1h", "PAWL_RECONCILE_INTERVAL=1h")
	a.orchestrator("orchestrator")
	a.worker("worker")
	a.join()
	run := a.startHold("held")
	a.must(a.rdb.Save(a.ctx).Err())
	a.must(work.Ledger(a.ledger).ReleaseHolders())
	_, err := run.Result(a.ctx)
	a.must(err)
	a.redis.Kill()
	a.redis.Restart(t)
	a.ended("held")
	if n := len(a.lines(work.Held)); n != 1 {
		t.Errorf("the activity has run %d times", n)
	}
	a.check()
}
