package crash

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
)

// resultWithin is the maximum time from an end until Result returns, on a busy machine. An idle one needs less than 100 ms
// across a hand-over. Without the repeat that the new owner causes, it would be an hour.
const resultWithin = 30 * time.Second

// The client does not repeat requests periodically: it receives the result only if the new owner causes a repeat.
func TestWaitingClientsGetResultsAcrossRollingRestartAndKill(t *testing.T) {
	t.Parallel()
	a := newHarnessOf(t, startServers(t), 32)
	rdb := a.redis.Client(t)
	a.worker("worker")
	first := a.orchestrator("orchestrator-1")
	a.Join(a.nats.Client(), client.Options{RepeatInterval: time.Hour})

	a.waitFor(40)
	a.orchestrator("orchestrator-2")
	a.spread(rdb, 2)
	a.release("joined by a second orchestrator", 40)

	a.waitFor(40)
	first.Signal(syscall.SIGTERM) // the instances end while the partitions are handed over
	a.release("hand-over by SIGTERM", 40)
	first.Stopped()
	a.spread(rdb, 1)

	a.waitFor(40)
	third := a.orchestrator("orchestrator-3")
	a.spread(rdb, 2)
	third.Kill()
	a.spread(rdb, 1)
	a.release("taken over after kill -9", 40)
	a.end()
}

// waitFor starts n instances and a client for each, and waits until all instances need only their event.
func (a *harness) waitFor(n int) {
	a.t.Helper()
	for range n {
		i := len(a.mixed)
		run, err := client.Start(a.ctx, a.Client, work.Mixed, id(i), i)
		a.must(err)
		a.wait(run)
	}
	for i := len(a.mixed) - n; i < len(a.mixed); i++ {
		poll.Until(a.t, within, id(i)+" waits for its event", func() bool {
			d, err := a.Client.Describe(a.ctx, id(i))
			return err == nil && d.Events >= beforeGo && len(d.Activities) == 0 && d.Timers == 0
		})
	}
}

// beforeGo is less than the number of events of a Mixed that waits for Go, and more than the number before its last timer.
const beforeGo = 12

// release sends the event to the last n instances, and logs how long after its end each client received the result.
func (a *harness) release(what string, n int) {
	a.t.Helper()
	from := len(a.mixed) - n
	for i := from; i < len(a.mixed); i++ {
		a.must(client.Send(a.ctx, a.Client, work.Go, id(i), 10*i))
	}
	late := make([]time.Duration, 0, n)
	for i := from; i < len(a.mixed); i++ {
		a.result(i)
		if o := a.mixed[i]; o.err == nil {
			late = append(late, o.at.Sub(time.UnixMilli(a.ended(id(i)).Ended)))
		}
	}
	slices.Sort(late)
	a.t.Logf("%s: results after the ends p50 %v, max %v", what, late[len(late)/2].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
	if m := late[len(late)-1]; m > resultWithin {
		a.t.Errorf("%s: a client received the result %v after the end", what, m)
	}
}
