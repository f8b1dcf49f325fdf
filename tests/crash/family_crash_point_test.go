package crash

import (
	"path/filepath"
	"strings"
	"testing"
)

// Every incarnation of the only orchestrator, or of the only worker, of a family dies after a number of passes of the crash
// point, and is replaced by another.
func TestFamilyLosesNothingWhenMembersDieRepeatedlyAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, c := range familyPoints() {
		t.Run(c.point+":"+c.passes, func(t *testing.T) {
			t.Parallel()
			// Fewer slots than passes: some activities end before the worker dies. An activity that exhausts its ten claims
			// without ending fails as poison.
			f := newFamily(t, s, "FLEET_OWNER_TTL=600ms", "PAWL_RECONCILE_INTERVAL=500ms", "PAWL_CONCURRENCY=2")
			f.restartsDead = true
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

// One of two members dies and stays dead, and the other takes over its partitions with their outboxes. At the remaining
// points, TestFamilyLosesNothingWhenMembersDieRepeatedlyAtCrashPoint kills: the state that an owner finds there does not
// depend on the previous owner.
func TestFamilyIsTakenOverWhenMemberDiesAtCrashPoint(t *testing.T) {
	s := startServers(t)
	for _, c := range []pointAndPasses{
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
