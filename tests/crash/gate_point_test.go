package crash

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/tests/stack"
)

// gatePoints are where somebody dies who has to do with a gate, and at which pass.
func gatePoints() []tellingPoint {
	return []tellingPoint{
		{"gate.listed", "2"}, {"orchestrator.entered", "3"}, {"orchestrator.left", "6"}, {"orchestrator.swept", "2"}, {"orchestrator.turned", "14"},
		{"orchestrator.committed", "14"}, {"orchestrator.published", "9"}, {"worker.claimed", "9"}, {"worker.acked", "9"},
	}
}

// Of the only orchestrator, or the only worker, every incarnation dies when it passes the crash point so many times, and is
// followed by another: while they come to stand in line, and while they are let in.
func TestQueuesWhoseOwnersDieAtACrashPointAgainAndAgainKeepTheirOrderAndTheirLimits(t *testing.T) {
	s := startServers(t)
	for _, c := range gatePoints() {
		t.Run(c.point+":"+c.passes, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t, s)
			q.tended = true
			for _, role := range []string{"orchestrator", "worker"} {
				q.process(role, role, "PAWL_FAILPOINT="+c.point+":"+c.passes)
			}
			q.begin()
			q.open()
			q.end()
			if q.deaths == 0 {
				t.Errorf("nobody has died")
			}
			t.Logf("%d deaths", q.deaths)
		})
	}
}

// One of two stands still at the crash point, goes on when all is over, and finds nothing that is still its own.
func TestAnOrchestratorThatWasPausedAtAGateDoesNoHarmWhenItWakes(t *testing.T) {
	s := startServers(t)
	for _, point := range []string{"orchestrator.entered:4", "orchestrator.left:6", "orchestrator.swept:3"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "passed")
			q := newQueueing(t, s, "PAWL_FAILPOINT="+point+":stop", "PAWL_FAILPOINT_FILE="+mark)
			both := []*stack.Process{q.orchestrator("orchestrator-1"), q.orchestrator("orchestrator-2")}
			q.worker("worker")
			q.begin()
			q.open()
			q.end()
			var paused *stack.Process
			poll.Until(t, within, "an orchestrator stands still", func() bool {
				for _, p := range both {
					if p.Paused() {
						paused = p
					}
				}
				return paused != nil
			})
			paused.Signal(syscall.SIGCONT)
			paused.Stop()
			q.left()
			q.check()
		})
	}
}

// Everybody is killed while they stand in line and while they are let in, one after the other.
func TestQueuesWhoseFleetsAreKilledAtAnyMomentKeepTheirOrderAndTheirLimits(t *testing.T) {
	t.Parallel()
	q := newQueueing(t, startServers(t))
	q.fleets()
	all := q.all
	q.begin()
	q.open()
	const every = 300 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range 8 {
		<-tick.C
		p := all[(i*7+i/3)%len(all)]
		p.Kill()
		p.Start()
	}
	q.end()
}
