package crash

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

// A worker is paused for longer than its lease, and another one runs the activity. When the first is resumed, it cancels its
// own run.
func TestWorkerPausedBeyondItsLeaseCancelsActivityWhenResumed(t *testing.T) {
	t.Parallel()
	a := newHarness(t, startServers(t), "PAWL_LEASE_TTL=5s") // the lease must not expire before the pause
	a.orchestrator("orchestrator")
	first := a.worker("worker-1")
	a.join()
	run, err := client.Start(a.ctx, a.Client, work.CallHanging, "hanging", pawl.None{})
	a.must(err)
	poll.Until(t, within, "the first worker has begun", func() bool { return len(a.lines("hanging")) == 1 })
	first.Signal(syscall.SIGSTOP)
	a.worker("worker-2")
	a.ended("hanging")
	if got, err := run.Result(a.ctx); err != nil || got != "reclaimed" {
		t.Fatalf("result %q, %v", got, err)
	}
	if n := len(a.lines("hanging.cancelled")); n != 0 {
		t.Fatalf("the paused worker has written %d lines", n)
	}
	first.Signal(syscall.SIGCONT)
	poll.Until(t, within, "the first worker's context is done", func() bool { return len(a.lines("hanging.cancelled")) == 1 })
	first.Stop()
	a.check()
}

// pausedOf waits until one of the orchestrators is paused.
func pausedOf(t *testing.T, all []*stack.Process) (paused *stack.Process) {
	t.Helper()
	poll.Until(t, within, "an orchestrator is paused", func() bool {
		for _, p := range all {
			if p.Paused() {
				paused = p
			}
		}
		return paused != nil
	})
	return paused
}

// An orchestrator is paused in the middle of a turn, and resumed after others have taken its partitions.
func TestOrchestratorPausedInTurnDoesNoHarmWhenResumed(t *testing.T) {
	s := startServers(t)
	// A busy owner ingests all inputs of a partition at once, and may own only two partitions.
	for point, pass := range map[string]string{"orchestrator.turned": "3", "orchestrator.committed": "3", "orchestrator.ingested": "2"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "passed")
			a := newHarness(t, s, "PAWL_FAILPOINT="+point+":"+pass+":stop", "PAWL_FAILPOINT_FILE="+mark)
			a.worker("worker")
			both := []*stack.Process{a.orchestrator("orchestrator-1"), a.orchestrator("orchestrator-2")}
			a.begin(8)
			paused := pausedOf(t, both)
			a.end()
			paused.Signal(syscall.SIGCONT)
			a.begin(4)
			a.end()
			for _, p := range both {
				p.Stop()
			}
			a.check()
		})
	}
}

// Each process is killed at random times, and restarted.
func TestNothingIsLostWhenProcessesAreKilledAtRandom(t *testing.T) {
	t.Parallel()
	a := newHarness(t, startServers(t))
	all := []*stack.Process{
		a.orchestrator("orchestrator-1"), a.orchestrator("orchestrator-2"), a.worker("worker-1"), a.worker("worker-2"),
	}
	a.join()
	const every = 400 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range 12 {
		a.begin(2)
		<-tick.C
		p := all[(i*7+i/3)%len(all)]
		p.Kill()
		p.Start()
	}
	a.end()
	a.started()
	for _, p := range all {
		p.Stop()
	}
}
