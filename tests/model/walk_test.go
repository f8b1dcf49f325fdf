package model

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// walks is how many random walks each program takes. Their seeds are fixed, so that a failure comes again.
const walks = 20

// found are further seeds, which have found something.
var found = map[string][]uint64{
	"sweep": {26},  // an event was ingested between a reading of the inbox and its answer, and the code polled
	"alarm": {138}, // time passed while the stream's answer about its horizon was still to be reached
}

// crowd is a plan for three instances at once.
func crowd(program string) []planned { return plans(program, "start", "e1", "stop", "purge", "start2") }

// repaired is one in which operators request what they can.
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

// Bound is how many states a search visits: PAWL_MODEL_STATES, or what the suite has time for.
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
