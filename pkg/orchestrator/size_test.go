package orchestrator_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// One turn schedules more activities than a reconciliation and a worker handle at a time, and another turn cancels all of them.
func TestThousandsOfActivitiesAreScheduledInOneTurnAndCancelledInAnother(t *testing.T) {
	s := newHarness(t)
	const n = 2000
	fan := pawl.NewOrchestration[int, string]("fan")
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, fan.Do(func(ctx *pawl.Context, n int) (string, error) {
		for i := range n {
			slow.Start(ctx, fmt.Sprint(i))
		}
		return ping.Receive(ctx)
	}))
	var running, cancelled atomic.Int64
	s.work(worker.Config{LeaseTTL: 60 * time.Second, Concurrency: 100}, slow.Do(func(ctx context.Context, _ string) (string, error) {
		running.Add(1)
		<-ctx.Done()
		cancelled.Add(1)
		return "", ctx.Err()
	}))
	begin := time.Now()
	s.start("fan", "f-1", fmt.Sprint(n))
	s.until("a hundred run", func() bool { return running.Load() >= 100 })
	t.Logf("scheduled and published in %v", time.Since(begin))
	begin = time.Now()
	s.event("ping", "f-1", `"enough"`)
	if d := s.ended("f-1"); d.Status != "completed" || len(d.Activities) != 0 {
		t.Fatalf("%+v", d)
	}
	t.Logf("ended after %v", time.Since(begin))
	s.until("all running activities were cancelled", func() bool { return cancelled.Load() >= 100 && cancelled.Load() == running.Load() })
	t.Logf("received by the workers after %v", time.Since(begin))
	requested := 0
	for _, e := range s.history("f-1") {
		if _, ok := e.(*history.ActivityCancelRequested); ok {
			requested++
		}
	}
	if requested != n {
		t.Errorf("%d cancellations in history, want %d", requested, n)
	}
	s.until("the queue drains: the leases of the remaining tasks are deleted", func() bool { return s.tasksInStream() == 0 })
}

func TestPayloadsAtTheLimitPassThroughInputsInboxTurnAndResult(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	big := strings.Repeat("x", 500<<10)
	const events = 3
	sum := pawl.NewOrchestration[string, int]("sum")
	s.orchestrate(orchestrator.Config{}, sum.Do(func(ctx *pawl.Context, in string) (int, error) {
		n := len(in)
		for range events {
			v, err := ping.Receive(ctx)
			if err != nil {
				return 0, err
			}
			n += len(v)
		}
		return n, nil
	}))
	for range events {
		s.event("ping", "b-1", `"`+big+`"`) // before the start, so that all events are in the inbox at once
	}
	s.until("all are in the inbox", func() bool { return s.describe("b-1").UnreadInputs == events })
	s.start("sum", "b-1", `"`+big+`"`)
	d := s.ended("b-1")
	if got, err := author.Result(sum).Decode(d.Result); err != nil || got != (events+1)*len(big) {
		t.Fatalf("%d, %v, %v", got, err, d.Failure)
	}
}

// TASKS is kept in memory: a server that restarts loses all tasks, including unclaimed ones.
func TestTasksLostByARestartOfNATSArePublishedAgain(t *testing.T) {
	s := newOwnHarness(t)
	const n = 30
	s.orchestrate(orchestrator.Config{ReconcileInterval: 500 * time.Millisecond}, hello.Do(callGreet))
	for i := range n {
		s.start("hello", fmt.Sprint("n-", i), `"you"`)
	}
	s.until("all tasks are in the queue", func() bool { return s.tasksInStream() >= n })
	s.restartNATS()
	s.work(worker.Config{}, greet.Do(doGreet))
	for i := range n {
		if d := s.ended(fmt.Sprint("n-", i)); d.Status != "completed" {
			t.Fatalf("%+v", d)
		}
	}
	s.publish(message.OutInput{Instance: "n-new", Kind: message.KindStart, Name: "hello", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"you"`)}})
	s.ended("n-new")
}

// restartNATS restarts the server on its port and directory.
func (s *harness) restartNATS() {
	s.t.Helper()
	port, dir := s.srv.Addr().(*net.TCPAddr).Port, strings.TrimSuffix(s.srv.StoreDir(), "/jetstream")
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.until("the client detects the disconnection", func() bool { return !s.nats.IsConnected() }) // otherwise it appears to be connected at once
	s.srv = natstest.Start(s.t, func(o *server.Options) { o.Port, o.StoreDir = port, dir })
	s.until("the connection is back", s.nats.IsConnected)
}
