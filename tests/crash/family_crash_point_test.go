package crash

import (
	"path/filepath"
	"strings"
	"testing"
)

// Of the only orchestrator of a family, and of its only worker, every incarnation dies when it passes
// the crash point so many times, and is followed by another.
func TestFamilyLosesNothingWhenMembersDieRepeatedlyAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, c := range tellingPoints() {
		t.Run(c.point+":"+c.passes, func(t *testing.T) {
			t.Parallel()
			// Fewer slots than passes: some activities end before the worker dies. An activity that it claims ten times and never
			// ends is failed as its killer.
			f := newFamily(t, s, "FLEET_OWNER_TTL=600ms", "PAWL_RECONCILE_INTERVAL=500ms", "PAWL_CONCURRENCY=2")
			f.tended = true
			deadly := "PAWL_FAILPOINT=" + c.point + ":" + c.passes
			for _, role := range []string{"orchestrator", "worker"} {
				if strings.HasPrefix(c.point, role) {
					f.process(role, role, deadly)
				} else {
					f.process(role, role)
				}
			}
			f.begin(3)
			f.end()
			if f.deaths == 0 {
				t.Errorf("no process has died")
			}
			t.Logf("%d deaths", f.deaths)
		})
	}
}

// One of two dies and stays dead; its partitions, with their outboxes, go to the other. At the other points
// TestFamilyLosesNothingWhenMembersDieRepeatedlyAtCrashPoint kills: what an owner finds there does not depend on whose it was.
func TestFamilyIsTakenOverWhenMemberDiesAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, c := range []tellingPoint{
		{"orchestrator.committed", "40"}, {"orchestrator.messaged", "30"}, {"orchestrator.published", "15"}, {"worker.acked", "12"},
	} {
		t.Run(c.point+":"+c.passes, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "passed")
			f := newFamily(t, s, "FLEET_OWNER_TTL=600ms", "PAWL_RECONCILE_INTERVAL=500ms", "PAWL_FAILPOINT="+c.point+":"+c.passes, "PAWL_FAILPOINT_FILE="+mark)
			f.fleets()
			f.begin(3)
			f.end()
		})
	}
}
