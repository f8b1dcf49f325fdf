package crash

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/tests/stack"
)

// points are the crash points in the order in which work passes them.
func points() []string {
	return []string{
		"orchestrator.ingested", "orchestrator.turned", "orchestrator.committed", "orchestrator.published", "orchestrator.answered",
		"worker.delivered", "worker.claimed", "worker.acked-nats", "worker.handled", "worker.acked", "worker.rung",
	}
}

// The only member of its fleet dies at the crash point and is started again.
func TestNothingIsLostWhenProcessRestartsAfterCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, point := range points() {
		for _, pass := range []string{"1", "3"} {
			t.Run(point+":"+pass, func(t *testing.T) {
				t.Parallel()
				a := newArena(t, s)
				mark := filepath.Join(t.TempDir(), "passed")
				deadly := []string{"PAWL_FAILPOINT=" + point + ":" + pass, "PAWL_FAILPOINT_FILE=" + mark}
				var victim *stack.Process
				if strings.HasPrefix(point, "worker") {
					a.orchestrator("orchestrator")
					victim = a.worker("worker", deadly...)
				} else {
					a.worker("worker")
					victim = a.orchestrator("orchestrator", deadly...)
				}
				a.begin(6)
				died(t, victim)
				victim.Start()
				a.end()
			})
		}
	}
}

// Two of each; one dies at the crash point and stays dead, the other takes over.
func TestOthersTakeOverWhenProcessDiesAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, point := range points() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "passed")
			a := newArena(t, s, "PAWL_FAILPOINT="+point+":3", "PAWL_FAILPOINT_FILE="+mark)
			a.orchestrator("orchestrator-1")
			a.orchestrator("orchestrator-2")
			a.worker("worker-1")
			a.worker("worker-2")
			a.begin(12)
			a.end()
		})
	}
}

func died(t *testing.T, p *stack.Process) {
	t.Helper()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-p.Ended():
	case <-timeout.C:
		t.Fatal("the crash point was never passed")
	}
}

// tellingPoint is where members of a family die, and at which pass.
type tellingPoint struct{ point, passes string }

// firstTellingPoints are the same, each once.
func firstTellingPoints() []tellingPoint {
	return slices.CompactFunc(tellingPoints(), func(a, b tellingPoint) bool { return a.point == b.point })
}

// tellingPoints are passed often by a family, in the middle of starts, notes, ends and cancellations. (At "orchestrator.purged"
// the tests of purges kill.)
func tellingPoints() []tellingPoint {
	return []tellingPoint{
		{"orchestrator.ingested", "25"}, {"orchestrator.turned", "40"}, {"orchestrator.committed", "40"}, {"orchestrator.committed", "57"},
		{"orchestrator.told", "30"}, {"orchestrator.told", "47"}, {"orchestrator.published", "15"}, {"orchestrator.answered", "15"},
		{"worker.claimed", "12"}, {"worker.acked", "12"},
	}
}
