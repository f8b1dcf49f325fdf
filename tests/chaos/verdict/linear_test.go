package verdict_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/tests/chaos/verdict"
	"github.com/pawlrun/pawl/tests/chaos/work"
)

func TestLinearFindsStaleAndLostState(t *testing.T) {
	at := int64(0)
	op := func(do, status string, votes int) work.Op {
		at += 10
		return work.Op{Client: "c", Instance: "ballot-1", Do: do, Call: at, Return: at + 5, Status: status, Votes: votes}
	}
	see := func(status string, votes int) work.Op { return op("describe", status, votes) }
	for _, c := range []struct {
		name string
		ops  []work.Op
		ok   bool
	}{
		{"in order", []work.Op{see("", 0), op("start", "", 0), see("running", 0), op("send", "", 0), see("running", 1), op("cancel", "", 0), see("cancelled", 1)}, true},
		{"inputs take effect late", []work.Op{op("send", "", 0), op("start", "", 0), op("cancel", "", 0), see("", 0), see("running", 0), see("running", 1), see("cancelled", 1)}, true},
		{"never started", []work.Op{op("send", "", 0), see("", 0)}, true},
		{"runs again after its end", []work.Op{op("start", "", 0), op("cancel", "", 0), see("cancelled", 0), see("running", 0)}, false},
		{"loses a vote", []work.Op{op("start", "", 0), op("send", "", 0), see("running", 1), see("running", 0)}, false},
		{"counts a vote twice", []work.Op{op("start", "", 0), op("send", "", 0), see("running", 2)}, false},
		{"ends without a cause", []work.Op{op("start", "", 0), see("cancelled", 0)}, false},
		{"vanishes", []work.Op{op("start", "", 0), see("running", 0), see("", 0)}, false},
	} {
		findings, _, undecided := verdict.Linear(c.ops, time.Minute)
		if (len(findings) == 0) != c.ok || undecided != 0 {
			t.Errorf("%s: %v, %d undecided", c.name, findings, undecided)
		}
	}
}
