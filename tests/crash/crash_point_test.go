package crash

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/pawlrun/pawl/tests/stack"
)

// points returns the crash points of a fleet by role, in the order in which work passes them.
func points() map[string][]string {
	return map[string][]string{
		"orchestrator": {"orchestrator.ingested", "orchestrator.turned", "orchestrator.committed", "orchestrator.published", "orchestrator.answered"},
		"worker":       {"worker.delivered", "worker.claimed", "worker.acked-nats", "worker.handled", "worker.acked", "worker.notified"},
	}
}

// The only member of its fleet dies at one crash point after another, both on the first and on the third pass, and is
// restarted.
func TestNothingIsLostWhenProcessRestartsAfterCrashPoint(t *testing.T) {
	s := startServers(t)
	for role, points := range points() {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			a := newHarness(t, s, "FLEET_OWNER_TTL=600ms")
			a.process(map[string]string{"orchestrator": "worker", "worker": "orchestrator"}[role], "survivor")
			for _, point := range points {
				for _, pass := range []string{"1", "3"} {
					victim := a.process(role, role, "PAWL_FAILPOINT="+point+":"+pass)
					a.begin(3)
					died(t, victim)
				}
			}
			a.process(role, role)
			a.end()
		})
	}
}

// The only process of its fleet has both roles, so its tasks do not go through NATS and its commits also claim. It dies at
// one crash point after another, and is restarted.
func TestNothingIsLostWhenProcessOfBothRolesRestartsAfterCrashPoint(t *testing.T) {
	t.Parallel()
	a := newHarness(t, startServers(t), "FLEET_OWNER_TTL=600ms")
	for _, point := range []string{"orchestrator.committed", "worker.claimed", "worker.acked"} {
		victim := a.process("both", "both", "PAWL_FAILPOINT="+point+":3")
		a.begin(3)
		died(t, victim)
	}
	a.process("both", "both")
	a.end()
}

// Each role has two members. One dies at the crash point and stays dead, and the other takes over.
// TestFamilyIsTakenOverWhenMemberDiesAtCrashPoint covers further points.
func TestOthersTakeOverWhenProcessDiesAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, point := range []string{"worker.delivered", "worker.acked-nats", "worker.handled", "worker.notified"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "passed")
			a := newHarness(t, s, "PAWL_FAILPOINT="+point+":3", "PAWL_FAILPOINT_FILE="+mark)
			a.fleets()
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

// pointAndPasses is the crash point at which members of a family die, and the passes on which they die.
type pointAndPasses struct{ point, passes string }

// familyPoints are passed often by a family, amid starts, notes, ends and cancellations. The tests of purges cover
// "orchestrator.purged".
func familyPoints() []pointAndPasses {
	return []pointAndPasses{
		{"orchestrator.ingested", "25"}, {"orchestrator.turned", "40"}, {"orchestrator.committed", "40"},
		{"orchestrator.messaged", "30"}, {"orchestrator.published", "15"}, {"orchestrator.answered", "15"},
		{"worker.claimed", "12"}, {"worker.acked", "12"},
	}
}
