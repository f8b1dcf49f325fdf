package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/memlimit"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/pkg/history"
)

// fleet starts one instance of each program: x, y, z.
func fleet(programs ...string) (all []planned) {
	for i, program := range programs {
		id := string(rune('x' + i))
		in := plan(program, "start"+id)[0]
		in.Instance = id
		all = append(all, in)
	}
	return all
}

// behindLimits returns a world with limits, in which all instances end.
func behindLimits(p history.Policy, f Faults, programs ...string) Setup {
	s := Setup{Plan: fleet(programs...), Faults: f, Ends: true, Policies: map[string]history.Policy{}}
	for _, action := range []string{"slot", "another", "start", "behind"} {
		s.Policies[action] = p
	}
	return s
}

// Stories at limits begin with these steps: x has a slot, y waits for it, x has completed its activity.
func entered(limit string) []string {
	if limit == "slot" {
		return []string{"publish startx", "read input 1", "ingest", "run turn x", "call limit slot", "commit x"}
	}
	return []string{"publish startx", "read input 1", "ingest", "call limit " + limit, "run turn x", "commit x"}
}

func waits() []string {
	return []string{"publish starty", "read input 2", "ingest", "run turn y", "call limit slot", "commit y"}
}

func done() []string {
	return []string{"a worker claims event 2 of x", "event 2 is done", "a doorbell of x"}
}

func oneSlot() history.Policy { return history.Policy{Concurrency: 1, QueueTimeout: -1} }

func oneEach() history.Policy { return history.Policy{Rate: 1, RateWindow: 2 * soon, QueueTimeout: -1} }

// cancelled cancels an instance.
func cancelled(s *Setup) { s.Plan = append(s.Plan, plans("one", "stop")[0]) }

// limitWorlds are worlds with limits in which every promise must hold.
func limitWorlds() []world {
	at := func(f Faults, programs ...string) Setup { return behindLimits(oneSlot(), f, programs...) }
	timed, short := oneSlot(), oneSlot()
	timed.QueueTimeout, short.QueueLimit = 2*soon, 1
	x := entered("slot")
	both := slices.Concat(x, waits())
	starts := entered("start")
	return []world{
		{"two instances, and their owners die", at(Faults{Crashes: 2}, "one", "one"), x},
		{"notices are lost, or received late", at(Faults{Fails: 2, Echoes: 1}, "one", "one"), both},
		{"a visit, a crash and a late notice", at(Faults{Crashes: 1, Echoes: 1, Ticks: 1}, "one", "one"), slices.Concat(both, done())},
		{"copies of calls arrive late", at(Faults{Echoes: 1, Crashes: 1}, "one", "one"), x[:4]},
		{"a former owner continues", at(Faults{Pauses: 1, Ticks: 1}, "one", "one"), x},
		{"a former owner continues, and repeats its requests", at(Faults{Pauses: 1, Dues: 1}, "one", "one"), both},
		{"replies of limits are lost", at(Faults{Resends: 3}, "one", "one"), x[:4]},
		{"decided differently", at(Faults{Otherwise: 1, Crashes: 1}, "flip", "one"), x[:3]},
		{"cancelled while it waits", at(Faults{Crashes: 1}, "one", "one").with(cancelled), both},
		{"one activity after another", at(Faults{Crashes: 1}, "chain", "one"), slices.Concat(both, done())},
		{"a retained slot", at(Faults{Crashes: 1, Failures: 1, Echoes: 1}, "kept", "one"), both},
		{"waiting starts", at(Faults{Crashes: 1, Fails: 1}, "start", "start"), starts},
		{"cancelled starts", at(Faults{Fails: 1, Echoes: 1}, "start", "start").with(cancelled), starts},
		{"the store of the instances rolls back", at(Faults{Rollbacks: 1}, "one", "one"), x},
		{"the store of the limit rolls back", at(Faults{LimitRollbacks: 1}, "one", "one"), x},
		{"a limit after another", at(Faults{Resends: 1, Crashes: 1, Echoes: 1}, "behind", "other"), entered("behind")[:5]},
		{"a waiter is rejected after the maximum wait", behindLimits(timed, Faults{Ticks: 2, Fails: 1}, "one", "one"), both},
		{"a waiter is rejected by a client", at(Faults{Clears: 1, Crashes: 1, Fails: 1}, "one", "one"), both},
		{"at most one waiter", behindLimits(short, Faults{Crashes: 1}, "chain", "one", "one"), both},
		{"a rate", behindLimits(oneEach(), Faults{Ticks: 3}, "chain", "one"), x},
		{"two limits", at(Faults{Crashes: 1}, "cross", "cross"), x[:4]},
		{"removed from the schedule while a caller enters", at(Faults{Fails: 1, Ticks: 2}, "one", "one"), x[:4]},
	}
}

func TestRandomWalksAtLimitsBreakNoPromise(t *testing.T) {
	calm := Faults{Crashes: 2, Pauses: 1, Resends: 3, Fails: 2, Echoes: 2, Otherwise: 1, Silent: 1, Dues: 2, Clears: 1, Ticks: 4, Failures: 2}
	stores := calm
	stores.Rollbacks, stores.LimitRollbacks = 2, 2
	for name, programs := range map[string][]string{
		"one": {"one", "one", "one"}, "two": {"two", "one", "two"}, "chain": {"chain", "one", "chain"}, "cross": {"cross", "chain", "cross"},
		"kept": {"kept", "one", "kept"}, "start": {"start", "one", "start"}, "behind": {"behind", "other", "behind"}, "flip": {"flip", "one", "flip"},
	} {
		for kind, faults := range map[string]Faults{"stores that keep": calm, "stores that forget": stores} {
			t.Run(name+", "+kind, func(t *testing.T) {
				for seed := range uint64(Bound(t, 5*walks)) {
					pick := rand.New(rand.NewPCG(seed, 2))
					p := history.Policy{Concurrency: 1 + pick.Uint32N(2), QueueLimit: pick.Uint32N(3), QueueTimeout: []int64{-1, -1, 2 * look}[pick.IntN(3)]}
					if pick.IntN(4) == 0 {
						p.Rate, p.RateWindow = 1, 2*soon
					}
					setup := behindLimits(p, faults, programs...)
					setup.Plan = append(setup.Plan, plans(programs[1], "stop")[1])
					if broken, trace := Walk(NewWorld(&setup), 1+pick.IntN(150), pick.IntN); broken != "" {
						t.Fatalf("seed %d: %s:\n  %s", seed, broken, strings.Join(trace, "\n  "))
					}
				}
			})
		}
	}
}

// flawed is a mistake of limits, and a world in which walks must find it.
type flawed struct {
	wrong  memlimit.Mistake
	setup  Setup
	begins []string
}

func unfair() []flawed {
	p := oneSlot()
	return []flawed{
		{memlimit.Overtakes, behindLimits(p, Faults{}, "one", "chain", "one"), nil},
		{memlimit.EnterTwice, behindLimits(p, Faults{Dues: 2, Crashes: 1, Fails: 1, Resends: 1}, "one", "one", "one"), nil},
		{memlimit.CountedTwice, behindLimits(p, Faults{Resends: 1, Echoes: 1}, "one"), nil},
		{memlimit.RejectionLost, behindLimits(p, Faults{Clears: 1}, "one", "one"), nil},
		{memlimit.RateUnseen, behindLimits(oneEach(), Faults{}, "one", "one"), nil},
		{memlimit.SweepFrees, behindLimits(p, Faults{Ticks: 1}, "one"), nil},
		{memlimit.RestoredRefused, behindLimits(p, Faults{LimitRollbacks: 1, Ticks: 2}, "one", "one"), nil},
		{memlimit.RestoredTwice, behindLimits(p, Faults{LimitRollbacks: 1, Ticks: 2}, "one", "one"), nil},
		{memlimit.StampIgnored, behindLimits(p, Faults{Rollbacks: 1, Ticks: 2}, "one", "one"), []string{
			"(what a restart", "publish startx", "read input 1", "ingest", "run turn x", "call limit slot", "time passes", "the schedule", "sweep", "find unwanted", "ROLLBACK", "renewal", "pass notices",
		}},
		{memstore.PendingWanted, behindLimits(p, Faults{Fails: 1}, "start", "start"), slices.Concat(
			entered("start"), []string{"publish starty", "read input 2", "ingest", "call limit start", "run turn y", "commit y"}, done(), []string{"run turn x", "commit x", "call limit start", "lost: pass notices"},
		)},
		{memstore.Unlisted, behindLimits(p, Faults{Fails: 1}, "one", "one"), nil},
	}
}

// counterexample searches for a violated promise after a story: by walks at limits, where that takes many steps, otherwise breadth first.
func (s *Setup) counterexample(begins []string, most int) string {
	states := 0
	for seed := range uint64(min(500, most/4)) {
		w, missing := NewWorld(s).story(begins)
		if missing != "" {
			panic(missing)
		}
		if s.Policies == nil {
			if f := Search(w, most); f.Broken != "" {
				return f.String()
			}
			return ""
		}
		pick := rand.New(rand.NewPCG(seed, 3))
		broken, trace := Walk(w, 1+pick.IntN(100), pick.IntN)
		if states += len(begins) + len(trace); broken != "" {
			return fmt.Sprintf("%s, found in %d states by walk %d:\n  %s", broken, states, seed, strings.Join(trace, "\n  "))
		}
	}
	return ""
}

func TestWalksFindACounterexampleForEveryMistakeOfLimits(t *testing.T) {
	for _, c := range unfair() {
		t.Run(string(c.wrong), func(t *testing.T) {
			c.setup.LimitMistake = c.wrong
			found := c.setup.counterexample(c.begins, 10_000)
			if found == "" {
				t.Fatal("no counterexample")
			}
			t.Log(found)
		})
	}
}
