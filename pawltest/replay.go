package pawltest

import (
	"errors"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/history"
)

// Replay fails the test unless today's code matches a history that was recorded with yesterday's. exported is the output of pawl export
// or pawl history --json, for an instance that has ended or is still running. If several versions are bound, the recorded one is used.
// The replay is strict: a payload that encodes differently fails it, too. Keep the histories of important instances next to the code, and
// replay them before every release.
func Replay(tb testing.TB, exported []byte, bindings ...pawl.Binding) {
	tb.Helper()
	for _, p := range read(tb, exported, bindings) {
		var err error
		if blocked := newGuard().run(func() { err = p.Check(len(p.Events)) }); blocked != nil {
			err = blocked
		}
		if err != nil {
			tb.Fatalf("%v\n%s", err, replaytest.Text(p.Events))
		}
	}
}

// EveryPrefix is Replay of every prefix of the history, as if the process had died after each turn: the remaining inputs must lead to the
// recorded decisions. Inputs after the next side effect are left out, because its value would differ. If the history has more than 200
// turns, 200 evenly spaced prefixes and the whole history are used.
func EveryPrefix(tb testing.TB, exported []byte, bindings ...pawl.Binding) {
	tb.Helper()
	for _, p := range read(tb, exported, bindings) {
		if err := p.CheckPrefixes(200); err != nil {
			tb.Fatalf("%v\n%s", err, replaytest.Text(p.Events))
		}
	}
}

func read(tb testing.TB, exported []byte, bindings []pawl.Binding) []replaytest.Past {
	tb.Helper()
	instance, executions, err := show.ReadExport(exported)
	if err != nil {
		tb.Fatal(err)
	}
	if len(executions) == 0 {
		tb.Fatal("the export has no history: the instance has not begun")
	}
	out := make([]replaytest.Past, len(executions))
	for i, events := range executions {
		out[i] = past(tb, instance, events, bindings)
	}
	return out
}

// past returns the history of an execution together with the code for it.
func past(tb testing.TB, instance string, events []history.Event, bindings []pawl.Binding) replaytest.Past {
	tb.Helper()
	if _, broken := fold.Check(events); len(broken) > 0 {
		tb.Fatalf("the exported history is broken: %v", errors.Join(broken...))
	}
	if len(events) == 0 {
		tb.Fatal("the exported history is empty")
	}
	registry, err := author.NewRegistry(bindings...)
	if err != nil {
		tb.Fatal(err)
	}
	start := events[0].(*history.Started) // verified by Check
	b, ok := registry.Recorded(start.Name, start.Version)
	if !ok {
		has := registry.Versions(start.Name)
		if len(has) == 0 {
			tb.Fatalf("the history is of orchestration %s, which is not among the bindings", start.Name)
		}
		tb.Fatalf("the history is of orchestration %s, version %q, and the bindings have only %q", start.Name, start.Version, has)
	}
	return replaytest.Past{
		ID:      effectid.Identity{Instance: instance, Origin: start.Origin, Execution: start.Execution},
		Program: b.Program, Options: strict(), Events: events,
	}
}
