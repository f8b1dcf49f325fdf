package gates

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/memlimit"
	"github.com/pawlrun/pawl/tests/model/explore"
)

// TestMain walks as much as the suite has time for; the flags of rapid still rule.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "100", "rapid.nofailfile": "true", "rapid.shrinktime": "10s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// The programs. All stand at gate 0, or at the gates 0 and 1.
func one() Program   { return Program{Start: Open, Stages: [][]int{{0}}} }
func two() Program   { return Program{Start: Open, Stages: [][]int{{0, 0}}} }
func chain() Program { return Program{Start: Open, Stages: [][]int{{0}, {0}}} }
func cross() Program { return Program{Start: Open, Stages: [][]int{{0, 1}}} }
func kept() Program  { return Program{Start: Open, Stages: [][]int{{0}}, Keep: true} }
func start() Program { return Program{Start: 0, Stages: [][]int{{Open}}} }

// behind stands at gate 0, and then at gate 1.
func behind() Program { return Program{Start: 0, Stages: [][]int{{1}}} }
func other() Program  { return Program{Start: Open, Stages: [][]int{{1}}} }

func setup(wrong memlimit.Mistake, f Faults, cancels []int, ps ...Program) *Setup {
	return &Setup{Rules: memlimit.Rules{Wrong: wrong}, Policy: memlimit.Policy{Concurrency: 1, QueueTimeout: -1}, Gates: 2, Programs: ps, Cancels: cancels, Faults: f}
}

func timed(s *Setup) *Setup { s.Policy.QueueTimeout = tick; return s }
func short(s *Setup) *Setup { s.Policy.QueueLimit = 1; return s }
func rated(s *Setup) *Setup {
	s.Policy = memlimit.Policy{Rate: 1, RateWindow: 2 * tick, QueueTimeout: -1}
	return s
}

func TestEveryReachableStateKeepsThePromises(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup *Setup
	}{
		{"two instances, and their owners die", setup(memlimit.None, Faults{Crashes: 2, Sweeps: 1}, nil, one(), one())},
		{"notices are lost, and received late", setup(memlimit.None, Faults{Losses: 2, Lates: 1, Sweeps: 1}, nil, one(), one())},
		{"a visit, a crash and a late notice", setup(memlimit.None, Faults{Crashes: 1, Lates: 1, Sweeps: 1}, nil, one(), one())},
		{"copies of calls arrive late", setup(memlimit.None, Faults{Echoes: 1, Crashes: 1, Sweeps: 1}, nil, one(), one())},
		{"a former owner goes on", setup(memlimit.None, Faults{Pauses: 1, Sweeps: 2}, nil, one(), one())},
		{"a former owner goes on, and asks again", setup(memlimit.None, Faults{Pauses: 1, Sweeps: 1, Asks: 1}, nil, one(), one())},
		{"limits answer and the answer is lost", setup(memlimit.None, Faults{Slow: 2, Unheard: 1, Sweeps: 1}, nil, one(), one())},
		{"decided otherwise", setup(memlimit.None, Faults{Otherwise: 1, Crashes: 1, Sweeps: 1}, nil, one(), one())},
		{"cancelled while it waits", setup(memlimit.None, Faults{Crashes: 1, Sweeps: 1}, []int{0}, one(), one())},
		{"one after the other", setup(memlimit.None, Faults{Crashes: 1, Sweeps: 1}, nil, chain(), one())},
		{"a slot that is kept", setup(memlimit.None, Faults{Crashes: 1, Fails: 1, Sweeps: 1, Lates: 1}, nil, kept(), one())},
		{"starts that wait", setup(memlimit.None, Faults{Crashes: 1, Losses: 1, Sweeps: 1}, nil, start(), start())},
		{"starts that are cancelled", setup(memlimit.None, Faults{Losses: 1, Lates: 1, Sweeps: 1}, []int{0}, start(), start())},
		{"the store of an instance goes back", setup(memlimit.None, Faults{Rollbacks: 1, Asks: 1, Sweeps: 1}, nil, one(), one())},
		{"the store of the gate goes back", setup(memlimit.None, Faults{Forgets: 1, Asks: 1, Sweeps: 1}, nil, one(), one())},
		{"a gate behind another", setup(memlimit.None, Faults{Slow: 1, Crashes: 1, Lates: 1, Sweeps: 3}, nil, behind(), other())},
		{"a waiter is rejected after the maximum wait", timed(setup(memlimit.None, Faults{Ticks: 2, Sweeps: 2, Losses: 1}, nil, one(), one()))},
		{"a waiter is rejected by a client", setup(memlimit.None, Faults{Clears: 1, Crashes: 1, Losses: 1}, nil, one(), one())},
		{"a queue of one", short(setup(memlimit.None, Faults{Crashes: 1}, nil, chain(), one(), one()))},
		{"a rate", rated(setup(memlimit.None, Faults{Ticks: 3, Sweeps: 2}, nil, chain(), one()))},
		{"two gates", setup(memlimit.None, Faults{Crashes: 1, Sweeps: 1}, nil, cross(), cross())},
		{"taken off the list while a caller enters", setup(memlimit.None, Faults{Unlists: 1, Losses: 1, Sweeps: 2}, nil, one(), one())},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := explore.Search(NewWorld(c.setup), explore.Bound(t, 500))
			if f.Broken != "" {
				t.Fatal(f)
			}
			t.Log(f)
		})
	}
}

// A test that cannot fail is none: each law, broken, has a counterexample.
func TestSearchFindsACounterexampleForEveryMistake(t *testing.T) {
	setups := map[memlimit.Mistake]*Setup{
		memlimit.Overtakes:       setup(memlimit.None, Faults{}, nil, one(), chain(), one()),
		memlimit.EnterTwice:      setup(memlimit.None, Faults{Asks: 1}, nil, one(), one(), one()),
		memlimit.CountedTwice:    setup(memlimit.None, Faults{Losses: 1, Sweeps: 2}, nil, one()),
		memlimit.AwayForgotten:   setup(memlimit.None, Faults{Clears: 1}, nil, one(), one()),
		memlimit.RateUnseen:      rated(setup(memlimit.None, Faults{}, nil, one(), one())),
		memlimit.SweepFrees:      setup(memlimit.None, Faults{Sweeps: 1}, nil, one()),
		memlimit.RestoredRefused: setup(memlimit.None, Faults{Forgets: 1, Asks: 2}, nil, one(), one()),
		memlimit.RestoredTwice:   setup(memlimit.None, Faults{Forgets: 1, Asks: 1}, nil, one(), one()),
		LeaveEarly:               setup(memlimit.None, Faults{}, []int{0}, one()),
		WordOnce:                 setup(memlimit.None, Faults{Losses: 1}, nil, one(), one()),
		GrantTwice:               setup(memlimit.None, Faults{Lates: 1}, nil, two(), one()),
		UnknownIgnored:           setup(memlimit.None, Faults{Echoes: 1}, nil, one()),
		DisownBlind:              setup(memlimit.None, Faults{Pauses: 1, Sweeps: 1}, nil, chain()),
		memlimit.StampIgnored:    setup(memlimit.None, Faults{Rollbacks: 1, Sweeps: 1}, nil, one(), one()),
		WordTimeless:             setup(memlimit.None, Faults{Rollbacks: 1, Sweeps: 1, Lates: 1}, nil, start(), one()),
		PendingWanted:            setup(memlimit.None, Faults{Losses: 1}, nil, start(), start()),
		WaitingKept:              setup(memlimit.None, Faults{Losses: 1}, nil, kept(), kept()),
		NeverForgone:             setup(memlimit.None, Faults{Crashes: 1}, nil, kept()),
		NeverAsks:                setup(memlimit.None, Faults{Forgets: 1}, nil, one(), one()),
		Unlisted:                 setup(memlimit.None, Faults{Losses: 1}, nil, one(), one()),
	}
	begins := map[memlimit.Mistake][]string{ // of those whose stories are long
		memlimit.StampIgnored:  {"(what the store of i1", "i1 is started", "turn of i1", "i1 (era 0) to gate 0: +t1.0 arrives", "visit of gate 0"},
		WordTimeless:           {"i1 is started", "(what the store of i0", "i0 is started", "turn of i0", "i0 (era 0) to gate 0: +s0 arrives", "visit of gate 0"},
		memlimit.RestoredTwice: {"i0 is started", "turn of i0", "i0 (era 0) to gate 0: +t0.0 arrives", "the commit of i0", "t0.0 is done", "turn of i0"},
	}
	for _, wrong := range Mistakes() {
		t.Run(string(wrong), func(t *testing.T) {
			s, ok := setups[wrong]
			if !ok {
				t.Fatal("no setup for it")
			}
			s.Rules.Wrong = wrong
			w, _ := play(t, NewWorld(s), begins[wrong]...)
			f := explore.Search(w, 400_000)
			if f.Broken == "" {
				t.Fatalf("no counterexample: %s", f)
			}
			t.Log(f)
		})
	}
}
