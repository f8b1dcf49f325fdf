package model

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/tests/model/explore"
)

// seconds are rules with the intervals of the design, one tick a second.
func seconds(wrong Mistake) Rules {
	return Rules{Soon: 2, Early: 100, Look: 10, LeaseTTL: 10, OwnerTTL: 5, Claims: 10, Inbox: 100, Seen: 3600, Wrong: wrong}
}

// crowd is a plan for three instances at once.
func crowd() (all []Message) {
	for _, m := range []Message{{ID: "start", Kind: "start"}, {ID: "go", Kind: "event"}, {ID: "stop", Kind: "cancel"}, {ID: "heir", Kind: "start"}, {ID: "purge", Kind: "purge"}, {ID: "start2", Kind: "start"}} {
		for _, id := range []string{"x", "y", "z"} {
			m.Instance = id
			all = append(all, m)
		}
	}
	return all
}

// walk takes random steps in the world of a setup, and tells what broke.
func walk(rt *rapid.T, setup *Setup, steps int) (string, []string) {
	return explore.Walk(NewWorld(setup), rapid.IntRange(1, steps).Draw(rt, "steps"), func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "step") })
}

func TestRandomWalksWithEveryFaultBreakNoPromise(t *testing.T) {
	for name, program := range map[string]Program{"both": Both, "race": Race, "deadline": Deadline, "churn": Churn, "stop": Stop, "cycle": Cycle, "count": Count, "report": Report, "brief": Brief, "sweep": Sweep} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				setup := &Setup{Rules: seconds(None), Program: program, Plan: crowd(), Pipe: 3, Hurry: true, Retire: rapid.Bool().Draw(rt, "retire"),
					Faults: Faults{Rollbacks: 2, Crashes: 2, Resends: 3, Deaths: 2, Losses: 1, Doubles: 2, Echoes: 2, Repeats: 3, Ticks: 4}}
				if broken, trace := walk(rt, setup, 150); broken != "" {
					rt.Fatalf("%s:\n  %s", broken, strings.Join(trace, "\n  "))
				}
			})
		})
	}
}
