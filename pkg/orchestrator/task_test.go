package orchestrator_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

func (s streamHarness) tasksInStream() uint64 {
	s.t.Helper()
	info, err := s.jetStream().StreamInfo(s.stream("TASKS"), nats.MaxWait(time.Minute))
	if err != nil {
		s.t.Fatal(err)
	}
	return info.State.Msgs
}

func (s streamHarness) loseTasks() {
	s.t.Helper()
	if err := s.jetStream().PurgeStream(s.stream("TASKS"), nats.MaxWait(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
}

// The reconciliation of an instance that is not resident ends before its task queue has been read.
func TestTaskLostBeforeATakeoverIsPublishedByAnOwnerThatHasNotReplayed(t *testing.T) {
	s := newHarness(t)
	first := s.orchestrate(orchestrator.Config{}, hello.Do(callGreet))
	s.start("hello", "t-1", `"you"`)
	s.until("the task is published", func() bool { return s.tasksInStream() >= 1 })
	s.stop(first)
	s.loseTasks()
	s.orchestrate(orchestrator.Config{ReconcileInterval: 300 * time.Millisecond}, hello.Do(callGreet))
	s.work(worker.Config{}, greet.Do(doGreet))
	if d := s.ended("t-1"); d.Status != "completed" {
		t.Fatalf("%+v", d)
	}
}

// Trap: a backlog that multiplies, even with an owner that has no record of earlier publications.
func TestQueuedTaskIsNotPublishedAgainAtEveryReconciliation(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	first := s.orchestrate(orchestrator.Config{}, hello.Do(callGreet))
	s.start("hello", "t-1", `"you"`)
	s.until("the task is published", func() bool { return s.tasksInStream() >= 1 })
	s.stop(first)
	s.loseTasks()
	looks := counters(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 100 * time.Millisecond, Metrics: looks.reg}, hello.Do(callGreet))
	s.until("it was reconciled four times", func() bool { return looks.get("pawl_orchestrator_reconciliations_total") >= 4 })
	if n := s.tasksInStream(); n > 2 {
		t.Errorf("%d copies of one task in its queue after four reconciliations", n)
	}
	s.work(worker.Config{}, greet.Do(doGreet))
	s.ended("t-1")
}

// The keeper of a worker ignores a hint that does not name the effect.
func TestCancellationReachesTheWorkerBeforeItsNextRenewal(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(callSlow))
	running, stopped := make(chan struct{}), make(chan time.Time, 1)
	s.work(worker.Config{LeaseTTL: time.Hour}, slow.Do(func(ctx context.Context, _ string) (string, error) {
		close(running)
		<-ctx.Done()
		stopped <- time.Now()
		return "", ctx.Err()
	}))
	s.start("race", "c-1", `"x"`)
	<-running
	requested := time.Now()
	s.publish(message.OutInput{Instance: "c-1", Kind: message.KindCancel, By: "ops", Text: "wrong customer"})
	select {
	case at := <-stopped:
		t.Logf("%v after the cancellation was requested", at.Sub(requested))
	case <-time.After(time.Minute):
		t.Error("the activity was not cancelled within a minute; the next renewal is after 20 minutes")
	}
	s.ended("c-1")
}
