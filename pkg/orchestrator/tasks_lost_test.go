package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// backlog starts n instances whose tasks wait for a worker, and returns when all of them are in the queue.
func (s streamHarness) backlog(n int) {
	s.t.Helper()
	for i := range n {
		s.start("hello", fmt.Sprint("n-", i), `"you"`)
	}
	s.until("all tasks are in the queue", func() bool { return s.tasksInStream() >= uint64(n) })
}

// refilled waits until the queue has n tasks again, while there is no worker, and returns how long that took.
func (s streamHarness) refilled(n int) time.Duration {
	s.t.Helper()
	begun := time.Now()
	js := s.jetStream()
	s.until("the tasks are in the queue again", func() bool {
		info, err := js.StreamInfo(s.stream("TASKS"), nats.MaxWait(time.Second))
		return err == nil && info.State.Msgs >= uint64(n)
	})
	return time.Since(begun)
}

func (s streamHarness) jetStream() nats.JetStreamContext {
	s.t.Helper()
	js, err := s.nats.JetStream()
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// tasks describes the TASKS stream.
func (s streamHarness) tasks() *nats.StreamInfo {
	s.t.Helper()
	info, err := s.jetStream().StreamInfo(s.stream("TASKS"), nats.MaxWait(time.Minute))
	if err != nil {
		s.t.Fatal(err)
	}
	return info
}

func (s streamHarness) deleteTasks() {
	s.t.Helper()
	if err := s.jetStream().DeleteStream(s.stream("TASKS"), nats.MaxWait(time.Minute)); err != nil {
		s.t.Fatal(err)
	}
}

// waiting starts an orchestrator that reconciles only once an hour, and n instances whose tasks wait for a worker.
func waiting(t *testing.T, s *harness, n int) (o *orchestrator.Orchestrator, counts counted) {
	t.Helper()
	counts = counters(t)
	o = s.orchestrate(orchestrator.Config{ReconcileInterval: time.Hour, Metrics: counts.reg}, hello.Do(callGreet))
	s.backlog(n)
	return o, counts
}

// The reconcile interval is an hour, so that only the detection of the loss can send the tasks again. There is no worker,
// and nothing is published: the orchestrator must detect the loss without a request.
func TestLostTasksStreamIsRefilledWithoutWaitingForTheReconcileInterval(t *testing.T) {
	const n = 40
	for _, c := range []struct {
		name string
		on   func(testing.TB) *harness
		lose func(*harness)
	}{
		{"the stream is deleted", newHarness, (*harness).deleteTasks},
		{"the server is restarted", newOwnHarness, (*harness).restartNATS},
		{"the stream is deleted and another process recreates it", newHarness, func(s *harness) {
			was := s.tasks()
			s.deleteTasks()
			if _, err := s.jetStream().AddStream(&was.Config); err != nil {
				s.t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // mostly waits
			s := c.on(t)
			_, counts := waiting(t, s, n)
			c.lose(s)
			t.Logf("%d tasks in the queue again after %v", n, s.refilled(n))
			s.work(worker.Config{}, greet.Do(doGreet))
			for i := range n {
				if d := s.ended(fmt.Sprint("n-", i)); d.Status != "completed" {
					t.Fatalf("%+v", d)
				}
			}
			if sent := counts.get("pawl_orchestrator_tasks_published_total"); sent > 3*n {
				t.Errorf("%v tasks were sent for %d activities: the backlog was multiplied", sent, n)
			}
		})
	}
}

// All orchestrators were stopped cleanly, so that none has anything to repair, and TASKS was lost while none was running.
func TestTasksLostBetweenACleanStopAndTheNextStartAreSentAtOnce(t *testing.T) {
	t.Parallel() // mostly waits
	const n = 20
	s := newHarness(t)
	first, _ := waiting(t, s, n)
	created := s.tasks().Created
	s.until("the namespace is older than two seconds", func() bool { return time.Since(created) > 2*time.Second })
	s.stop(first)
	s.deleteTasks()
	s.orchestrate(orchestrator.Config{ReconcileInterval: time.Hour}, hello.Do(callGreet))
	s.refilled(n)
}

// A task that is published to the new stream before the loss is detected is not lost, but the others are.
func TestTasksOfALostStreamAreSentAlthoughTheNewStreamHasTasks(t *testing.T) {
	t.Parallel() // mostly waits
	const n = 50
	s := newHarness(t)
	waiting(t, s, n)
	s.deleteTasks()
	s.start("hello", "n-new", `"you"`) // publishing its task recreates the stream
	s.refilled(n + 1)
}

// No orchestrator has published a task to the stream that is lost.
func TestWorkerThatRecreatesTheTasksStreamDoesNotHideTheLoss(t *testing.T) {
	t.Parallel() // mostly waits
	const n = 20
	s := newHarness(t)
	waiting(t, s, n)
	s.deleteTasks()
	p, err := s.conn.Pull(s.ctx(), greet.Queue()) // as a worker does, which recreates the stream
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	p.Request(n)
	var got []*transport.Delivery
	deadline := time.After(time.Minute)
	for len(got) < n {
		select {
		case d := <-p.Tasks():
			d.Ack()
			got = append(got, d)
		case <-deadline:
			t.Fatalf("%d of %d tasks within a minute", len(got), n)
		}
	}
	for i := range n { // without a worker they would not end, as the invariant checker requires
		s.publish(message.OutInput{Instance: fmt.Sprint("n-", i), Kind: message.KindCancel, By: "test"})
	}
	for i := range n {
		s.ended(fmt.Sprint("n-", i))
	}
}
