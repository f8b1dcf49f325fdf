package orchestrator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// listedStalled returns why an instance is listed as stalled, or "" if it is not.
func (s *harness) listedStalled(id string) string {
	s.t.Helper()
	var r request.InstancePage
	err := s.request(s.conn.PartitionOf(id), new(request.Stalled), &r)
	if err != nil {
		return err.Error()
	}
	for _, d := range r.Instances {
		if d.Instance == id {
			return d.Stalled
		}
	}
	return ""
}

func TestActivityWithoutAWorkerIsListedAsStalled(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	shared := pawl.Queue("shared")
	missing, other := pawl.NewActivity[string, string]("missing", shared), pawl.NewActivity[string, string]("other", shared)
	echo := func(_ context.Context, in string) (string, error) { return in, nil }
	code := hello.Do(func(ctx *pawl.Context, in string) (string, error) { return missing.Call(ctx, in) })
	first := s.orchestrate(orchestrator.Config{Member: "a", ReconcileInterval: 300 * time.Millisecond}, code)
	s.start("hello", "h-1", `"you"`)
	s.until("the queue without a worker is listed", func() bool {
		return strings.Contains(s.listedStalled("h-1"), `no-worker: no worker reads queue "shared", where activity "missing" waits; start a worker`)
	})
	if d := s.describe("h-1"); d.Status != "running" || d.Stalled != "" {
		t.Errorf("described as %s, %q, want an instance that is not stalled", d.Status, d.Stalled)
	}

	s.work(worker.Config{}, other.Do(echo))
	s.until("the activity without a worker is listed", func() bool {
		return strings.Contains(s.listedStalled("h-1"), `no-worker: no worker has activity "missing", which waits in queue "shared"; start a worker`)
	})
	s.stop(first)
	s.orchestrate(orchestrator.Config{Member: "b", ReconcileInterval: 300 * time.Millisecond}, code)
	s.until("the next owner lists it", func() bool { return strings.Contains(s.listedStalled("h-1"), "no-worker") })

	s.work(worker.Config{}, missing.Do(echo))
	s.ended("h-1")
	if why := s.listedStalled("h-1"); why != "" {
		t.Errorf("listed after its end: %s", why)
	}
}

func TestActivityThatWaitsForABusyWorkerIsNotListedAsStalled(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 200 * time.Millisecond}, hello.Do(callGreet))
	running, free := make(chan struct{}, 2), make(chan struct{})
	s.work(worker.Config{Concurrency: 1}, greet.Do(func(context.Context, string) (string, error) {
		running <- struct{}{}
		<-free
		return "", nil
	}))
	s.start("hello", "h-1", `"you"`)
	<-running
	s.start("hello", "h-2", `"you"`)
	looks := 0
	s.until("several reconciliations have passed", func() bool {
		if why := s.listedStalled("h-2"); strings.Contains(why, "no-worker") { // on a busy machine the partition may be without an owner for a moment
			t.Errorf("listed: %s", why)
			return true
		}
		looks++
		return looks > 200
	})
	close(free)
	s.ended("h-1")
	s.ended("h-2")
}
