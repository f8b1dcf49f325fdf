package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/lease"
)

func TestAbandonedActivityIsInItsHistoryAndInTheListOfWorkers(t *testing.T) {
	var (
		deaf    = pawl.NewOrchestration[pawl.None, pawl.None]("deaf")
		listen  = pawl.NewActivity[pawl.None, pawl.None]("listen", pawl.Queue("ears"))
		never   = pawl.NewActivity[pawl.None, pawl.None]("never")
		end     = make(chan struct{}) // ends the activity
		hearing = make(chan struct{})
	)
	nats := harness(t, fleets{
		orchestrations: []pawl.OrchestrationBinding{deaf.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
			never.Start(ctx, pawl.None{})
			return listen.Call(ctx, pawl.None{})
		})},
		activities: []pawl.ActivityBinding{listen.Do(func(context.Context, pawl.None) (pawl.None, error) {
			close(hearing)
			<-end
			return pawl.None{}, nil
		})},
		grace: 50 * time.Millisecond, maxAbandoned: 5,
	})
	release := sync.OnceFunc(func() { close(end) })
	t.Cleanup(release)
	at := func(args ...string) []string { return append(args, "--nats", nats) }
	must(t, at("start", "deaf", "d-1")...)
	select {
	case <-hearing:
	case <-time.After(time.Minute):
		t.Fatal("the activity was not started")
	}
	workers := func(parts ...string) {
		t.Helper()
		repeated(t, at("workers"), func(_ int, out, _ string) bool { return missing(out, parts...) == "" })
	}
	workers("NAME HOST PID UP RUNNING ABANDONED QUEUES", "w-1", "1 0 ears")
	must(t, at("cancel", "d-1", "--reason", "it is deaf")...)
	eventually(t, "it is abandoned", func() bool { return strings.Contains(must(t, at("history", "d-1")...), "abandoned") })

	history := must(t, at("history", "d-1")...)
	wantText(t, history, "ActivityCancelRequested", ": it is deaf → abandoned after ", " on w-1")
	for line := range strings.Lines(history) {
		if strings.Contains(line, "→") != strings.Contains(line, "abandoned") {
			t.Errorf("a report on another event: %s", line)
		}
	}
	wantText(t, must(t, at("history", "d-1", "--json")...), `"kind":"ActivityCancelRequested"`, `"report":{"how":"abandoned","after_ms":`, `,"worker":"w-1","at":"20`)
	workers("w-1", "0 1 ears", "ABANDONED INSTANCE WORKER FOR", "listen d-1 w-1")
	var w api.Worker
	repeated(t, at("workers", "--json"), func(_ int, out, _ string) bool { return json.Unmarshal([]byte(out), &w) == nil })
	if w.Name != "w-1" || w.PID == 0 || w.Since == "" || len(w.Abandoned) != 1 || w.Abandoned[0].Activity != "listen" || w.Abandoned[0].Instance != "d-1" || w.Abandoned[0].Since == "" {
		t.Errorf("%+v", w)
	}
	if !strings.Contains(w.Abandoned[0].Stack, "TestAbandonedActivityIsInItsHistoryAndInTheListOfWorkers") {
		t.Errorf("the stack does not name the activity's function: %q", w.Abandoned[0].Stack)
	}
	wantText(t, must(t, at("health")...), "master", "AOF", "PAWL-default-INPUTS: ")
	repeated(t, at("drain", "w-1"), func(_ int, out, _ string) bool { return strings.Contains(out, "w-1: takes no more tasks") })
	workers("w-1 is not ready: worker: drained")
	release()
	eventually(t, "the activity has returned before its worker stops", func() bool { return strings.Contains(must(t, at("workers", "--json")...), `"abandoned":[]`) })
}

func TestProblemsOfAWorkerAreListedBelowTheTable(t *testing.T) {
	busy := client.WorkerInfo{Name: "w-1", Queues: []string{strings.Repeat("a", 30), strings.Repeat("b", 28), "c", "d"}, NotReady: "NATS is\nunreachable", LastError: "claim: timeout", LastErrorAt: time.Now()}
	for range maxAbandonedShown + 3 {
		busy.Abandoned = append(busy.Abandoned, client.RunningActivity{Activity: "listen", Instance: "d-1", Since: time.UnixMilli(1)})
	}
	var b strings.Builder
	if err := showWorkers(&b, []client.WorkerInfo{busy, {Name: "w-2"}}); err != nil {
		t.Fatal(err)
	}
	wantText(t, b.String(), "w-1", "23", "bbb and 2 more", "w-2", "ABANDONED INSTANCE", "listen d-1 w-1", "and 3 more w-1",
		"w-1 is not ready: NATS is; unreachable", "w-1 latest error, ", "ago: claim: timeout")
	if n := strings.Count(b.String(), "listen"); n != maxAbandonedShown {
		t.Errorf("%d are listed:\n%s", n, b.String())
	}

	b.Reset()
	if err := showWorkers(&b, []client.WorkerInfo{{Name: "w-2"}}); err != nil || strings.Count(b.String(), "\n") != 2 {
		t.Errorf("want only the table without problems:\n%s%v", b.String(), err)
	}
}

func TestOutcomeOfACancelledActivityIsOneLine(t *testing.T) {
	for want, r := range map[string]lease.Report{
		"stopped after 12ms on w-1":        {Ending: lease.Stopped, After: 12 * time.Millisecond, Worker: "w-1"},
		"stopped at once on w-1":           {Ending: lease.Stopped, Worker: "w-1"},
		"finished first on w-1":            {Ending: lease.FinishedFirst, Worker: "w-1"},
		"finished first":                   {Ending: lease.FinishedFirst},
		"finished before it was notified":  {Ending: lease.FinishedLate},
		"never started":                    {Ending: lease.NeverStarted, Worker: "w-1"},
		"abandoned after 10s on w-2":       {Ending: lease.Abandoned, After: 10 * time.Second, Worker: "w-2"},
		"evaporated on w-9 of a newer day": {Ending: "evaporated", Worker: "w-9 of a newer day"},
	} {
		if got := diagnose.CancelOutcome(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
