package model

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/memstore"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // there are many short-lived worlds
	if name := os.Getenv("PAWL_MUTANT"); name != "" {
		os.Exit(searchMutant(name))
	}
	goleak.VerifyTestMain(m)
}

func setup(program string, f Faults, ids ...string) Setup {
	return Setup{Program: program, Plan: plan(program, ids...), Faults: f}
}

func (s Setup) with(change func(*Setup)) Setup { change(&s); return s }

func retire(s *Setup)      { s.Retire = true }
func ends(s *Setup)        { s.Ends = true }
func parkLimited(s *Setup) { s.Parked = 1 }
func prompt(s *Setup)      { s.Prompt = true }
func smallest(s *Setup)    { s.Inbox = 1 }

// worlds are those in which every promise must hold.
func worlds() []world {
	return []world{
		{"two activities, rollback with requests in flight", setup("both", Faults{Rollbacks: 1}, "start", "go").with(ends), nil},
		{"the turn decides differently after a rollback", setup("race", Faults{Rollbacks: 1}, "start", "go"), nil},
		{"owner change, lost replies", setup("race", Faults{Crashes: 1, Resends: 1, Echoes: 1}, "start", "go"), nil},
		{"workers die, tasks are lost", setup("both", Faults{Deaths: 1, Losses: 1, Doubles: 1}, "start").with(ends), nil},
		{"a start arrives while earlier inputs are deferred", setup("race", Faults{Crashes: 1, Echoes: 1}, "go", "start"), nil},
		{"copies of requests arrive late, also after a rollback", setup("race", Faults{Rollbacks: 1, Echoes: 1}, "start", "go"), nil},
		{"a deadline races an activity", setup("deadline", Faults{Rollbacks: 1, Ticks: 1}, "start").with(ends), nil},
		{"scheduled and cancelled in one turn", setup("churn", Faults{Rollbacks: 1, Crashes: 1}, "start").with(ends), nil},
		{"cancelled while acks are in transit", setup("stop", Faults{Resends: 1, Silent: 1}, "start", "stop").with(ends), nil},
		{"an event before the start, and repeated messages", setup("race", Faults{Repeats: 1, Rollbacks: 1}, "go", "start"), nil},
		{"continued as new with an outstanding activity and unread events", setup("cycle", Faults{Resends: 1}, "start", "e1", "e2").with(ends), nil},
		{"continue-as-new is lost by a rollback, its messages are not", setup("cycle", Faults{Rollbacks: 1, Crashes: 1}, "start", "e1", "e2").with(ends), nil},
		{"three executions, lost replies, another owner", setup("count", Faults{Resends: 1, Echoes: 1, Crashes: 1}, "start", "e1", "e2", "e3").with(ends), nil},
		{"messages are decided differently after a rollback", setup("report", Faults{Rollbacks: 1, Crashes: 1}, "start", "go").with(ends), nil},
		{"sent messages are lost by a rollback", setup("report", Faults{Rollbacks: 1}, "start", "go").with(ends), nil},
		{"the id of an orphan with pending messages is reused", setup("report", Faults{Resends: 1, Crashes: 1}, "next1", "go", "next2"), nil},
		{"more inputs than an inbox can hold, before and after the start", setup("stop", Faults{Resends: 1}, "e1", "e2", "start", "e3").with(smallest), nil},
		{"purged by force, and started again after the purge", setup("stop", Faults{Echoes: 1, Crashes: 1}, "start", "kill", "e1", "start2"), nil},
		{"a purge is lost by a rollback, later inputs are not", setup("stop", Faults{Rollbacks: 1, Resends: 1}, "start", "kill", "e1"), nil},
		{"a purge of a running instance has no effect", setup("deadline", Faults{Resends: 1}, "start", "purge", "e1").with(ends), nil},
		{"purged in a later execution, with messages pending", setup("cycle", Faults{Resends: 1}, "start", "e1", "e2", "purge", "start2"), nil},
		{"a poll, with another owner", setup("sweep", Faults{Resends: 1, Crashes: 1}, "e1", "start", "e2", "e3").with(ends), nil},
		{"a poll is lost by a rollback", setup("sweep", Faults{Rollbacks: 1}, "start", "e1", "e2").with(ends), nil},
		{"a poll before a purge", setup("sweep", Faults{Crashes: 1}, "start", "purge", "e1", "kill"), nil},
		{"removed after its end, and started again", setup("report", Faults{Echoes: 1, Crashes: 1}, "start", "go", "start2").with(retire), nil},
		{"early inputs are deferred, a copy of one arrives after the purge", setup("deadline", Faults{Echoes: 1, Repeats: 1}, "go", "start", "kill"), nil},
		{"events arrive before and after a timer, another owner", setup("window", Faults{Crashes: 1, Ticks: 2}, "start", "go", "e1").with(ends), nil},
		{"an event is consumed while a timer is due, and the turn is lost by a rollback", setup("alarm", Faults{Rollbacks: 1, Ticks: 2}, "start", "go").with(ends), nil},
		{"a request is lost, and a wakeup is early", setup("race", Faults{Fails: 1, Dues: 1}, "start", "go").with(ends), nil},
		{"no input waits for a wakeup: a start directly after events", setup("sweep", Faults{Dues: 1}, "a", "b", "start", "c").with(prompt), nil},
		{"no input waits for a wakeup: an activity and events", setup("race", Faults{Dues: 2}, "start", "a", "b").with(prompt), nil},
		{"no input waits for a wakeup: an ingest is repeated, and no instance is parked", setup("race", Faults{Resends: 1}, "a", "start", "ystart", "b").with(prompt).with(parkLimited), nil},
		{"no input waits for a wakeup: the code ends with unread inputs", setup("brief", Faults{Dues: 1, Resends: 1}, "start", "a", "b").with(prompt), nil},
		{"no input waits for a wakeup: early wakeups, and no instance is parked", setup("both", Faults{Dues: 2}, "start", "ystart", "a").with(prompt).with(parkLimited), nil},
		{"no input waits for a wakeup: a repeated ingest during a reconciliation", setup("race", Faults{Resends: 1, Dues: 2}, "start", "a").with(prompt), nil},
	}
}

type world struct {
	name   string
	setup  Setup
	begins []string // its story
}

// Stories begin with these steps: the first turn of an instance, the ingest of a second input, of a third.
func begun() []string {
	return []string{"publish start", "read input 1", "ingest", "run turn x", "commit x"}
}

func second() []string { return []string{"publish", "read input 2", "ingest of 2"} }

func third() []string { return []string{"publish", "read input 3", "ingest of 3"} }

// repairs are the worlds of operators.
func repairs() []world {
	paused := slices.Concat(begun(), second(), []string{"commit x"})
	return []world{
		{"stopped, and resumed by another owner", setup("both", Faults{Crashes: 1}, "start", "hold", "resume").with(ends), paused},
		{"operator requests after an event while the instance is paused", setup("stop", Faults{Resends: 1}, "start", "pause", "e1", "rewind2", "term"), paused},
		{"rewound while activities end, another owner", setup("race", Faults{Crashes: 1, Resends: 1, Echoes: 1}, "start", "go", "rewind3").with(ends),
			slices.Concat(begun(), second(), []string{"run turn x", "commit x"}, third())},
		{"restarted after its end, with a rollback", setup("stop", Faults{Rollbacks: 1}, "start", "term", "again"),
			slices.Concat(begun(), []string{"(what a restart"}, second(), []string{"commit x"}, third())},
	}
}

func TestOwnerKeepsItsPromisesInEveryWorldWithinTheBound(t *testing.T) {
	for _, c := range slices.Concat(worlds(), repairs(), limitWorlds()) {
		t.Run(c.name, func(t *testing.T) {
			w, missing := NewWorld(&c.setup).story(c.begins)
			if missing != "" {
				t.Fatal(missing)
			}
			most := 1_000
			if c.setup.Policies != nil {
				most = 500
			}
			f := Search(w, Bound(t, most))
			if f.Broken != "" {
				t.Fatal(f)
			}
			t.Log(f)
		})
	}
}

// A test that cannot fail proves nothing: the search must find a counterexample for each broken rule of the scripts.
func TestSearchFindsACounterexampleForEveryMistakeOfTheScripts(t *testing.T) {
	setups := map[memstore.Mistake]Setup{
		memstore.PopByCount:          setup("both", Faults{Rollbacks: 1}, "start"),
		memstore.NoPreviousPosition:  setup("race", Faults{Rollbacks: 1}, "start", "go"),
		memstore.BlindNextWakeup:     setup("race", Faults{}, "start", "go"),
		memstore.BlindRescore:        setup("both", Faults{Silent: 1}, "start"),
		memstore.CancelBeforeCreate:  setup("churn", Faults{}, "start"),
		memstore.AckOfNothing:        setup("stop", Faults{Rollbacks: 1}, "start", "go"),
		memstore.AckAfterExpiry:      setup("both", Faults{}, "start"),
		memstore.NoHead:              setup("race", Faults{Rollbacks: 1}, "start", "go"),
		memstore.NoFence:             setup("race", Faults{Crashes: 1}, "start", "go"),
		memstore.NoApplied:           setup("both", Faults{Rollbacks: 1}, "start"),
		memstore.RequeueUnseen:       setup("both", Faults{}, "start"),
		memstore.ClaimHeld:           setup("both", Faults{Doubles: 1}, "start"),
		memstore.NoRepeats:           setup("both", Faults{Repeats: 1}, "start", "go"),
		memstore.EffectIgnored:       setup("race", Faults{Rollbacks: 1}, "start", "go"),
		memstore.DeferStarted:        setup("race", Faults{}, "go", "start"),
		memstore.AckWithoutWakeup:    setup("both", Faults{}, "start"),
		memstore.EventsKept:          setup("count", Faults{}, "start", "e1"),
		memstore.FrontBehind:         setup("count", Faults{}, "start", "e1", "e2"),
		memstore.FrontTwice:          setup("count", Faults{Resends: 1}, "start", "e1"),
		memstore.FrontAfter:          setup("count", Faults{Resends: 1, Crashes: 1}, "start", "e1"),
		memstore.FrontUnseen:         setup("count", Faults{}, "start", "e1"),
		memstore.NoPrune:             setup("count", Faults{}, "start", "e1", "e2", "e3"),
		memstore.IncarnationKeepsEnd: setup("report", Faults{}, "next1", "next2", "next2again"),
		memstore.SentBlind:           setup("report", Faults{Rollbacks: 1, Dues: 1}, "start", "go"),
		memstore.PurgeBlind:          setup("brief", Faults{Echoes: 1}, "start", "start2").with(retire),
		memstore.PurgeDropsRest:      setup("stop", Faults{}, "start", "kill", "e1"),
		memstore.PurgeLeavesStart:    setup("stop", Faults{}, "start", "kill", "e1", "start2"),
		memstore.PurgeLeavesPast:     setup("count", Faults{}, "start", "e1", "kill"),
		memstore.PurgeLeavesReports:  setup("stop", Faults{}, "start", "kill"),
		memstore.PurgeDropsIDs:       setup("brief", Faults{Repeats: 1}, "start", "e1").with(retire),
		memstore.PurgeUnseen:         setup("stop", Faults{}, "start", "kill", "e1"),
		memstore.ReportBlind:         setup("stop", Faults{}, "start", "kill"),
		memstore.ReconcileBlind:      setup("brief", Faults{Echoes: 1}, "go", "start").with(retire),
		memstore.FullUnsaid:          setup("stop", Faults{}, "start", "e1", "e2").with(smallest),
		memstore.FullStart:           setup("stop", Faults{}, "e1", "start").with(smallest),
		memstore.DueUnseen:           setup("window", Faults{Ticks: 2}, "start", "other"),
		memstore.AppliedUnseen:       setup("alarm", Faults{Rollbacks: 1, Ticks: 2}, "start", "go"),
		memstore.DeferUnseen:         setup("both", Faults{}, "start", "hold", "resume"),
		memstore.RewindBlind:         setup("stop", Faults{Echoes: 1}, "start", "rewind3", "e1"),
		memstore.RewindUnread:        setup("both", Faults{}, "start", "rewind3"),
		memstore.RewindForgetful:     setup("both", Faults{Rollbacks: 1}, "start", "rewind3"),
		memstore.RewindTwice:         setup("stop", Faults{Echoes: 1}, "start", "rewind3"),
		memstore.RewindNoPrune:       setup("count", Faults{}, "start", "e1", "rewind1"),
		memstore.RewindKeepsLeases:   setup("both", Faults{}, "start", "rewind3"),
		memstore.RewindKeepsEnd:      setup("brief", Faults{}, "start", "again"),
		memstore.RewindBehind:        setup("both", Faults{}, "start", "rewind3", "e1"),
	}
	begun, second := begun(), second()
	planned := slices.Concat(begun, second, []string{"read history x"})
	begins := map[memstore.Mistake][]string{ // for counterexamples that take many steps
		memstore.EffectIgnored: slices.Concat(begun, []string{"(what a restart"}, second, []string{"run turn x", "commit x", "ROLLBACK", "renewal", "a worker claims event 2", "event 2 is done"}),
		memstore.SentBlind: slices.Concat(begun, []string{"(what a restart"}, second, []string{
			"run turn x", "commit x", "publish message", "the schedule names x", "ROLLBACK", "reconcile x", "a worker claims event 2", "event 2 is done"}),
		memstore.PurgeBlind:         slices.Concat(begun, []string{passes, "the schedule is read", "load x", "the answer: load x", "reconcile x", passes, "the schedule is read", "arrives, and once more later: remove x"}, second, []string{"run turn x", "commit x"}),
		memstore.DueUnseen:          slices.Concat(begun, []string{"a worker claims event 2", "event 2 is done", "time passes nevertheless", "time passes nevertheless"}, second, []string{"the schedule is read", "run turn x"}),
		memstore.AckOfNothing:       slices.Concat([]string{"(what a restart"}, begun, []string{"a worker claims event 2", "ROLLBACK", "renewal"}),
		memstore.NoHead:             slices.Concat(begun, []string{"(what a restart"}, second, []string{"run turn x", "commit x"}),
		memstore.NoApplied:          slices.Concat([]string{"(what a restart"}, begun),
		memstore.PurgeLeavesStart:   slices.Concat(begun, second),
		memstore.PurgeDropsIDs:      slices.Concat(begun, second),
		memstore.AppliedUnseen:      slices.Concat(begun, []string{"(what a restart"}, second),
		memstore.PopByCount:         slices.Concat(begun, []string{"(what a restart"}),
		memstore.NoPrune:            begun,
		memstore.PurgeLeavesReports: begun,
		memstore.ReportBlind:        begun,
		memstore.PurgeDropsRest:     begun,
		memstore.DeferUnseen:        slices.Concat(begun, second, []string{"commit x", "publish", "read input 3", "load x", "the answer: load x"}),
		memstore.RewindBlind:        slices.Concat(planned, []string{"arrives, and once more later: rewind x", "load x", "the answer: load x", "run turn x", "commit x"}),
		memstore.RewindTwice:        slices.Concat(planned, []string{"arrives, and once more later: rewind x", "load x", "the answer: load x", "run turn x", "rewind x", "commit x", "run turn x", "reconcile x (suspending)", passes, "the schedule is read", "load x", "the answer: load x", "run turn x"}),
		memstore.RewindUnread:       planned,
		memstore.RewindForgetful: slices.Concat(begun, second, []string{
			"a worker claims event 2", "(what a restart", "event 2 is done", "read history x", "ROLLBACK"}),
		memstore.RewindKeepsLeases: planned,
		memstore.RewindBehind:      planned,
	}
	for _, wrong := range memstore.Mistakes() {
		t.Run(string(wrong), func(t *testing.T) {
			setup, ok := setups[wrong]
			if !ok {
				t.Fatal("no setup for it")
			}
			setup.Wrong = wrong
			w, missing := NewWorld(&setup).story(begins[wrong])
			if missing != "" {
				t.Fatal(missing)
			}
			f := Search(w, 10_000)
			if f.Broken == "" {
				t.Fatalf("no counterexample: %s", f)
			}
			t.Log(f)
		})
	}
}

// story takes one step after another, each given by the beginning of its name.
func (w *World) story(begins []string) (end *World, missing string) {
	for _, name := range begins {
		steps := w.Steps()
		i := slices.IndexFunc(steps, func(s Step) bool { return strings.HasPrefix(s.Name, name) })
		if i < 0 {
			return w, fmt.Sprintf("no step %q among %q", name, steps)
		}
		w = w.After(steps[i])
	}
	return w, ""
}
