package model

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// walks is the number of random walks of each program. Their seeds are fixed, so that a failure can be repeated.
const walks = 20

// found are further seeds, which have found mistakes.
var found = map[string][]uint64{
	"sweep": {26},  // an event was ingested between a read of the inbox and its answer, and the code polled
	"alarm": {138}, // time passed before the horizon that the stream had reported was reached
}

// crowd is a plan for three concurrent instances.
func crowd(program string) []planned { return plans(program, "start", "e1", "stop", "purge", "start2") }

// repaired is a plan with every request of operators.
func repaired(program string) []planned {
	return plans(program, "start", "e1", "hold", "rewind2", "e2", "pause", "resume", "term", "again", "retry")
}

func plans(program string, names ...string) (all []planned) {
	for _, name := range names {
		for _, id := range []string{"x", "y", "z"} {
			in := plan(program, name+id)[0]
			in.Instance = id
			all = append(all, in)
		}
	}
	return all
}

func TestRandomWalksWithEveryFaultBreakNoPromise(t *testing.T) {
	for _, program := range []string{"both", "race", "deadline", "churn", "stop", "cycle", "count", "report", "brief", "sweep", "window", "alarm"} {
		t.Run(program, func(t *testing.T) {
			seeds := found[program]
			for seed := range Bound(t, walks) {
				seeds = append(seeds, uint64(seed))
			}
			for _, seed := range seeds {
				pick := rand.New(rand.NewPCG(seed, 1))
				plan := crowd(program)
				if seed%4 == 3 && !slices.Contains(found[program], seed) {
					plan = repaired(program)
				}
				setup := &Setup{Program: program, Plan: plan, Retire: pick.IntN(2) == 0, Parked: 2,
					Faults: Faults{Rollbacks: 2, Crashes: 2, Resends: 3, Fails: 2, Deaths: 2, Losses: 1, Doubles: 2, Echoes: 2, Repeats: 3, Silent: 2, Dues: 2, Ticks: 4}}
				if broken, trace := Walk(NewWorld(setup), 1+pick.IntN(150), pick.IntN); broken != "" {
					t.Fatalf("seed %d: %s:\n  %s", seed, broken, strings.Join(trace, "\n  "))
				}
			}
		})
	}
}

// Bound is the number of states that a search visits: PAWL_MODEL_STATES, or a number that suits the test suite.
func Bound(t testing.TB, most int) int {
	t.Helper()
	if s := os.Getenv("PAWL_MODEL_STATES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return most
}
