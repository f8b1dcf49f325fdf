package model

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/memstore"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // worlds are many, and short-lived
	if name := os.Getenv("PAWL_MUTANT"); name != "" {
		os.Exit(searchMutant(name))
	}
	if racing {
		os.Exit(runWithoutDetector())
	}
	goleak.VerifyTestMain(m)
}

// runWithoutDetector runs the tests in a binary without the race detector: a world is on one goroutine, and there are many of them.
func runWithoutDetector() int {
	dir, err := os.MkdirTemp("", "pawl-model")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "model.test")
	for _, args := range [][]string{{"go", "test", "-c", "-o", binary, "."}, append([]string{binary}, os.Args[1:]...)} {
		cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // this package, with the arguments of this process
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func setup(program string, f Faults, ids ...string) Setup {
	return Setup{Program: program, Plan: plan(program, ids...), Faults: f}
}

func (s Setup) with(change func(*Setup)) Setup { change(&s); return s }

func retire(s *Setup)   { s.Retire = true }
func ends(s *Setup)     { s.Ends = true }
func crowded(s *Setup)  { s.Parked = 1 }
func prompt(s *Setup)   { s.Prompt = true }
func smallest(s *Setup) { s.Inbox = 1 }

// worlds are those in which nothing may break.
func worlds() []world {
	return []world{
		{"two activities, rollback with requests in flight", setup("both", Faults{Rollbacks: 1}, "start", "go").with(ends), nil},
		{"the turn decides otherwise after a rollback", setup("race", Faults{Rollbacks: 1}, "start", "go"), nil},
		{"owner change, lost replies", setup("race", Faults{Crashes: 1, Resends: 1, Echoes: 1}, "start", "go"), nil},
		{"workers die, tasks are lost", setup("both", Faults{Deaths: 1, Losses: 1, Doubles: 1}, "start").with(ends), nil},
		{"a start comes while what came before it is put off", setup("race", Faults{Crashes: 1, Echoes: 1}, "go", "start"), nil},
		{"copies of requests arrive late, after a rollback too", setup("race", Faults{Rollbacks: 1, Echoes: 1}, "start", "go"), nil},
		{"a deadline races an activity", setup("deadline", Faults{Rollbacks: 1, Ticks: 1}, "start").with(ends), nil},
		{"scheduled and cancelled in one turn", setup("churn", Faults{Rollbacks: 1, Crashes: 1}, "start").with(ends), nil},
		{"cancelled while acks are on their way", setup("stop", Faults{Resends: 1, Silent: 1}, "start", "stop").with(ends), nil},
		{"an event before the start, and repeats", setup("race", Faults{Repeats: 1, Rollbacks: 1}, "go", "start"), nil},
		{"continued as new with an activity under way and events unread", setup("cycle", Faults{Resends: 1}, "start", "e1", "e2").with(ends), nil},
		{"continue-as-new is forgotten, and what it sent is not", setup("cycle", Faults{Rollbacks: 1, Crashes: 1}, "start", "e1", "e2").with(ends), nil},
		{"three executions, lost replies, another owner", setup("count", Faults{Resends: 1, Echoes: 1, Crashes: 1}, "start", "e1", "e2", "e3").with(ends), nil},
		{"what is sent is decided otherwise after a rollback", setup("report", Faults{Rollbacks: 1, Crashes: 1}, "start", "go").with(ends), nil},
		{"what was sent is forgotten", setup("report", Faults{Rollbacks: 1}, "start", "go").with(ends), nil},
		{"an orphan's id is taken, and its outbox was not empty", setup("report", Faults{Resends: 1, Crashes: 1}, "next1", "go", "next2"), nil},
		{"more inputs than an inbox may hold, before the start and behind it", setup("stop", Faults{Resends: 1}, "e1", "e2", "start", "e3").with(smallest), nil},
		{"purged by force, and begun again behind the purge", setup("stop", Faults{Echoes: 1, Crashes: 1}, "start", "kill", "e1", "start2"), nil},
		{"a purge is forgotten, and what came behind it is not", setup("stop", Faults{Rollbacks: 1, Resends: 1}, "start", "kill", "e1"), nil},
		{"a purge while it runs changes nothing", setup("deadline", Faults{Resends: 1}, "start", "purge", "e1").with(ends), nil},
		{"purged in a later execution, with messages pending", setup("cycle", Faults{Resends: 1}, "start", "e1", "e2", "purge", "start2"), nil},
		{"a poll, with another owner", setup("sweep", Faults{Resends: 1, Crashes: 1}, "e1", "start", "e2", "e3").with(ends), nil},
		{"a poll is forgotten", setup("sweep", Faults{Rollbacks: 1}, "start", "e1", "e2").with(ends), nil},
		{"a poll in front of a purge", setup("sweep", Faults{Crashes: 1}, "start", "purge", "e1", "kill"), nil},
		{"not kept when it has ended, and begun again", setup("report", Faults{Echoes: 1, Crashes: 1}, "start", "go", "start2").with(retire), nil},
		{"what came before the start is put off, a copy of that comes after the purge", setup("deadline", Faults{Echoes: 1, Repeats: 1}, "go", "start", "kill"), nil},
		{"events come before and behind a timer, another owner", setup("window", Faults{Crashes: 1, Ticks: 2}, "start", "go", "e1").with(ends), nil},
		{"an event is taken while a timer is due, and is forgotten", setup("alarm", Faults{Rollbacks: 1, Ticks: 2}, "start", "go").with(ends), nil},
		{"a request is lost, and a wakeup comes early", setup("race", Faults{Fails: 1, Dues: 1}, "start", "go").with(ends), nil},
		{"nothing sleeps: a start right behind events", setup("sweep", Faults{Dues: 1}, "a", "b", "start", "c").with(prompt), nil},
		{"nothing sleeps: an activity and events", setup("race", Faults{Dues: 2}, "start", "a", "b").with(prompt), nil},
		{"nothing sleeps: an ingest is repeated, memory has no room", setup("race", Faults{Resends: 1}, "a", "start", "ystart", "b").with(prompt).with(crowded), nil},
		{"nothing sleeps: the code ends with inputs behind it", setup("brief", Faults{Dues: 1, Resends: 1}, "start", "a", "b").with(prompt), nil},
		{"nothing sleeps: wakeups and memory in the way", setup("both", Faults{Dues: 2}, "start", "ystart", "a").with(prompt).with(crowded), nil},
		{"nothing sleeps: a repeated ingest while it is reconciled", setup("race", Faults{Resends: 1, Dues: 2}, "start", "a").with(prompt), nil},
	}
}

type world struct {
	name   string
	setup  Setup
	begins []string // its story
}

// Stories begin so: an instance has had its first turn, a second input is ingested, a third.
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
		{"requests behind an event while it is paused", setup("stop", Faults{Resends: 1}, "start", "pause", "e1", "rewind2", "term"), paused},
		{"rewound while activities end, another owner", setup("race", Faults{Crashes: 1, Resends: 1, Echoes: 1}, "start", "go", "rewind3").with(ends),
			slices.Concat(begun(), second(), []string{"run turn x", "commit x"}, third())},
		{"begun again when it has ended, and forgotten", setup("stop", Faults{Rollbacks: 1}, "start", "term", "again"),
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

// A test that cannot fail is none: each law of the scripts, broken, has a counterexample.
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
		memstore.BlindHold:           setup("race", Faults{}, "go", "start"),
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
		memstore.PurgeForgetsIDs:     setup("brief", Faults{Repeats: 1}, "start", "e1").with(retire),
		memstore.PurgeUnseen:         setup("stop", Faults{}, "start", "kill", "e1"),
		memstore.ReportBlind:         setup("stop", Faults{}, "start", "kill"),
		memstore.ReconcileBlind:      setup("brief", Faults{Echoes: 1}, "go", "start").with(retire),
		memstore.FullUnsaid:          setup("stop", Faults{}, "start", "e1", "e2").with(smallest),
		memstore.FullStart:           setup("stop", Faults{}, "e1", "start").with(smallest),
		memstore.DueUnseen:           setup("window", Faults{Ticks: 2}, "start", "other"),
		memstore.AppliedUnseen:       setup("alarm", Faults{Rollbacks: 1, Ticks: 2}, "start", "go"),
		memstore.HoldUnseen:          setup("both", Faults{}, "start", "hold", "resume"),
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
	begins := map[memstore.Mistake][]string{ // of those whose stories are long
		memstore.EffectIgnored: slices.Concat(begun, []string{"(what a restart"}, second, []string{"run turn x", "commit x", "ROLLBACK", "renewal", "a worker claims event 2", "event 2 is done"}),
		memstore.SentBlind: slices.Concat(begun, []string{"(what a restart"}, second, []string{
			"run turn x", "commit x", "publish message", "the schedule names x", "ROLLBACK", "reconcile x", "a worker claims event 2", "event 2 is done"}),
		memstore.PurgeBlind:         slices.Concat(begun, []string{passes, "the schedule is read", "load x", "the answer: load x", "reconcile x", passes, "the schedule is read", "arrives, and once more later: remove x"}, second, []string{"run turn x", "commit x"}),
		memstore.DueUnseen:          slices.Concat(begun, []string{"a worker claims event 2", "event 2 is done", "time passes nevertheless", "time passes nevertheless"}, second, []string{"the schedule is read", "run turn x"}),
		memstore.AckOfNothing:       slices.Concat([]string{"(what a restart"}, begun, []string{"a worker claims event 2", "ROLLBACK", "renewal"}),
		memstore.NoHead:             slices.Concat(begun, []string{"(what a restart"}, second, []string{"run turn x", "commit x"}),
		memstore.NoApplied:          slices.Concat([]string{"(what a restart"}, begun),
		memstore.PurgeLeavesStart:   slices.Concat(begun, second),
		memstore.PurgeForgetsIDs:    slices.Concat(begun, second),
		memstore.AppliedUnseen:      slices.Concat(begun, []string{"(what a restart"}, second),
		memstore.PopByCount:         slices.Concat(begun, []string{"(what a restart"}),
		memstore.NoPrune:            begun,
		memstore.PurgeLeavesReports: begun,
		memstore.ReportBlind:        begun,
		memstore.PurgeDropsRest:     begun,
		memstore.HoldUnseen:         slices.Concat(begun, second, []string{"commit x", "publish", "read input 3", "load x", "the answer: load x"}),
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

// story takes the steps that begin so, one after the other.
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
