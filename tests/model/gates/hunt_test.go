package gates

import (
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/memlimit"
)

// play takes the steps whose names begin so, one after the other, and returns what broke.
func play(t *testing.T, w *World, names ...string) (_ *World, broken string) {
	t.Helper()
	for _, name := range names {
		var next *World
		for _, s := range w.Steps() {
			if strings.HasPrefix(s.Name, name) {
				next = w.After(s)
				break
			}
		}
		if next == nil {
			t.Fatalf("nothing can happen now that begins with %q: %v", name, w.Steps())
		}
		w = next
		if b := w.Check(); b != "" {
			return w, b
		}
	}
	return w, ""
}

// A start is admitted, and its turn lost in a crash after it has entered the next limit. The ticket leaves that limit, for no history
// has it; then the turn is decided again and must wait there. A notice of its first entry, received now, is none for its second.
func TestLateNoticeIsNoGrant(t *testing.T) {
	story := []string{
		"i0 is started", "turn of i0", "i0 (era 0) to gate 0: +s0 arrives, and its answer does not", "turn of i0", "the commit of i0 arrives",
		"i1 is started", "turn of i1", "i1 (era 0) to gate 1: +t1.0 arrives", "the commit of i1 arrives",
		"i0 asks again", "i0 (era 0) to gate 0: +s0 arrives", "turn of i0: [{granted s0}]", "i0 (era 0) to gate 1: +t0.0 arrives",
		"the owner of i0 dies", "the commit of i0 arrives",
		"t1.0 is done", "turn of i1", "the commit of i1 arrives", "i1 (era 0) to gate 1: -t1.0 arrives",
		"word that t0.0 is granted is received, and will be again", "i0 (era 1) to gate 1: disowns t0.0 arrives",
		"i2 is started", "turn of i2", "i2 (era 0) to gate 1: +t2.0 arrives", "the commit of i2 arrives",
		"i0 asks again", "i0 (era 1) to gate 0: +s0 arrives", "turn of i0: [{granted s0}]", "i0 (era 1) to gate 1: +t0.0 arrives",
		"the commit of i0 arrives", "word that t0.0 is granted is received",
	}
	faults := Faults{Slow: 1, Asks: 2, Crashes: 1, Lates: 1}
	if _, b := play(t, NewWorld(setup(memlimit.None, faults, nil, behind(), other(), other())), append(story, "i0 (era 1) to gate 1: +t0.0 arrives")...); b != "" {
		t.Error(b)
	}
	trusts := setup(WordTimeless, faults, nil, behind(), other(), other())
	if _, b := play(t, NewWorld(trusts), append(story, "turn of i0: [{granted t0.0}]", "the commit of i0 arrives")...); b == "" {
		t.Error("an owner that accepts the notice breaks no promise")
	}
}

func TestSweepReportsThePolicyOfTheLimitThatExpires(t *testing.T) {
	g := &memlimit.Gate{Keyed: true, There: true, Force: memlimit.Force{Version: 3, Declared: "group"}}
	if s := g.Sweep(3_600_001_000, nil); g.There || s.Force.Version != 3 || s.Force.Declared != "group" {
		t.Fatalf("there: %t, policy in force: %+v", g.There, s.Force)
	}
}
