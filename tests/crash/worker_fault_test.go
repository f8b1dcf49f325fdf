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

// lame is a worker with a way of its own to NATS and to Redis.
type lame struct {
	*stack.Process

	nats, redis *netfault.Proxy
}

// lameWorker starts one.
func (a *harness) lameWorker() lame {
	a.t.Helper()
	var l lame
	var err error
	l.nats, err = netfault.Listen(a.nats.Addr)
	a.must(err)
	a.t.Cleanup(l.nats.Close)
	l.redis, err = netfault.Listen(a.redis.Addr)
	a.must(err)
	a.t.Cleanup(l.redis.Close)
	l.Process = a.worker("lame", "PAWL_NATS=nats://"+l.nats.Addr(), "PAWL_REDIS=redis://"+l.redis.Addr())
	return l
}

func (l lame) heal() {
	l.nats.Heal()
	l.redis.Heal()
	l.Signal(syscall.SIGCONT)
}

// holds starts an instance whose activity runs until the ledger is opened, and waits until it runs.
func (a *harness) holds(instance string) *client.Instance[pawl.None] {
	a.t.Helper()
	run, err := client.Start(a.ctx, a.Client, work.Keep, instance, pawl.None{})
	a.must(err)
	poll.Until(a.t, within, "the activity runs", func() bool { return len(a.lines(work.Held)) == 1 })
	return run
}

// beats runs instances of one activity, one after the other, and returns how long each took.
func (a *harness) beats(prefix string, n int) []time.Duration {
	a.t.Helper()
	took := make([]time.Duration, n)
	for i := range n {
		began := time.Now()
		run, err := client.Start(a.ctx, a.Client, work.Beat, fmt.Sprint(prefix, "-", i), i)
		a.must(err)
		if got, err := run.Result(a.ctx); err != nil || got != i+1 {
			a.t.Fatalf("%s-%d: %d, %v", prefix, i, got, err)
		}
		took[i] = time.Since(began)
	}
	return took
}

// Two workers share the queues, and one of them is struck. It holds a few tasks until it, or the server, has found out, and each
// for the time of an AckWait; it takes none after that, its own activity is run elsewhere, and what it does when it
// is back takes effect once.
func TestDisconnectedWorkerDelaysFewTasksAndRepeatsNone(t *testing.T) {
	for name, strike := range map[string]func(lame){
		"Redis, black hole": func(l lame) { l.redis.BlackHole() },
		"NATS, black hole":  func(l lame) { l.nats.BlackHole() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHarness(t, startServers(t), "PAWL_LEASE_TTL=3s", "PAWL_RECONCILE_INTERVAL=8s")
			a.orchestrator("orchestrator")
			l := a.lameWorker()
			a.join()
			run := a.holds("held")
			sound := a.worker("sound")
			pid := strconv.Itoa(sound.Pid())
			served := func() bool {
				return slices.ContainsFunc(a.lines("step"), func(f []string) bool { return f[4] == pid })
			}
			for i := 0; !served(); i++ {
				a.beats(fmt.Sprint("warm-", i), 1)
			}
			before := len(a.lines("step"))

			strike(l)
			const n = 40
			took := a.beats("canary", n)
			slow, longest := 0, slices.Max(took)
			for _, d := range took {
				if d > 900*time.Millisecond {
					slow++
				}
			}
			t.Logf("of %d instances %d waited, the longest %v", n, slow, longest.Round(time.Millisecond))
			if slow > 8 || longest > 10*time.Second {
				t.Errorf("a worker that is cut off holds tasks up: %v", took)
			}
			a.must(work.Ledger(a.ledger).Open())
			_, err := run.Result(a.ctx) // while the fault lasts
			a.must(err)

			l.heal()
			sound.Stop()
			a.beats("back", 5)
			l.Stop()
			if ran := len(a.lines("step")) - before; ran != n+5 {
				t.Errorf("%d activities were run for %d instances", ran, n+5)
			}
			a.check()
		})
	}
}

// The copy that Redis starts with has the claim, and not its end. The lease would expire after an hour, and the instance be
// reconciled after another.
func TestAckLostByRedisIsRepeatedBeforeTheLeaseExpires(t *testing.T) {
	t.Parallel()
	s := servers{nats: stack.StartNATS(t, bin), redis: redistest.Start(t)} // no log: what it has after a restart is the copy
	a := newHarness(t, s, "PAWL_LEASE_TTL=1h", "PAWL_RECONCILE_INTERVAL=1h")
	a.orchestrator("orchestrator")
	a.worker("worker")
	a.join()
	run := a.holds("held")
	a.must(a.rdb.Save(a.ctx).Err())
	a.must(work.Ledger(a.ledger).Open())
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
