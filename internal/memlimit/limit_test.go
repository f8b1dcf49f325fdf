package memlimit_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/memlimit"
)

func TestSweepReportsThePolicyOfTheLimitThatExpires(t *testing.T) {
	g := &memlimit.Limit{Keyed: true, Exists: true, Force: memlimit.Force{Version: 3, Declared: "group"}}
	if s := g.Sweep(3_600_001_000, nil); g.Exists || s.Force.Version != 3 || s.Force.Declared != "group" {
		t.Fatalf("there: %t, policy in force: %+v", g.Exists, s.Force)
	}
}
