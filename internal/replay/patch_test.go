package replay_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// loop calls Patched before each of three activities, whose input is the result.
func loop(x *replay.Code) (string, error) {
	for i := range 3 {
		if _, err := call(x, "a", fmt.Sprint(x.Patched("p"), i)); err != nil {
			return "", err
		}
	}
	return x.NewID(), nil
}

func loopWith(answer bool) body {
	return func(x *replay.Code) (string, error) {
		for i := range 3 {
			if _, err := call(x, "a", fmt.Sprint(answer, i)); err != nil {
				return "", err
			}
		}
		return x.NewID(), nil
	}
}

func TestPatchedLoopKeepsItsBranch(t *testing.T) {
	d := replaytest.New(t, program(loopWith(false)), replay.Options{Strict: true})
	d.Start(text(""))
	d.Deploy(program(loop))
	for range 3 {
		d.Complete(d.Only("a"), text(""))
		d.CheckReplay()
	}
	for _, ev := range d.History {
		if ev.Kind() == history.KindPatchMarked {
			t.Fatalf("a marker was recorded for an old instance:\n%s", replaytest.Text(d.History))
		}
	}
}

func TestPatchMarkerIsRecordedOnceAndItsCallCanBeRemoved(t *testing.T) {
	d := replaytest.New(t, program(loop), replay.Options{Strict: true})
	wantKinds(t, d.Start(text("")), history.KindPatchMarked, history.KindActivityScheduled)
	wantKinds(t, d.Complete(d.Only("a"), text("")), history.KindActivityScheduled)
	d.CheckReplay()
	d.Deploy(program(loopWith(true)))
	d.Complete(d.Only("a"), text(""))
	d.Deploy(program(loop)) // restore the code with the patch
	d.Complete(d.Only("a"), text(""))
	without := replaytest.New(t, program(loopWith(true)), replay.Options{})
	without.Start(text(""))
	for range 3 {
		without.Complete(without.Only("a"), text(""))
	}
	is, was := d.End().(*history.Completed), without.End().(*history.Completed)
	if string(is.Result.Data) != string(was.Result.Data) {
		t.Errorf("random numbers depend on a marker: %s, %s", is.Result.Data, was.Result.Data)
	}
}

func TestRemovedPatchAtTheEndOfAStepReplays(t *testing.T) {
	for _, patched := range []body{
		func(x *replay.Code) (string, error) { x.Patched("p"); return call(x, "a", "") },
		func(x *replay.Code) (string, error) { _, err := call(x, "a", ""); x.Patched("p"); return "", err },
		func(x *replay.Code) (string, error) {
			f := start(x, "a", "")
			x.Patched("p")
			x.Patched("q")
			return get(x, f)
		},
	} {
		d := drive(t, patched)
		d.Start(text(""))
		d.CheckReplay()
		d.Deploy(program(callsOnce))
		d.Complete(d.Only("a"), text(""))
		d.CheckReplay()
	}
}

func callsOnce(x *replay.Code) (string, error) { return call(x, "a", "") }

// An instance has passed every point of the code before the one at which it waits, even if no decision was made after it.
func TestPatchAfterTheLastEventOfAHistoryIsFalse(t *testing.T) {
	d := drive(t, callsOnce)
	d.Start(text(""))
	d.Deploy(program(func(x *replay.Code) (string, error) {
		a := start(x, "a", "")
		early := x.Patched("p")
		_, err := get(x, a)
		return fmt.Sprint(early, x.Patched("p"), x.Patched("q")), err
	}))
	wantKinds(t, d.Complete(d.Only("a"), text("")), history.KindPatchMarked, history.KindCompleted)
	wantResult(t, d, "false false true")
}

func TestCallMovedBeforeADecisionIsADivergence(t *testing.T) {
	events := numbered(&history.Started{}, scheduled("a"), &history.PatchMarked{Name: "p"}, scheduled("new"))
	var d *replay.Divergence
	_, err := replayWith(func(x *replay.Code) (string, error) {
		patched := x.Patched("p")
		start(x, "a", "in")
		if patched {
			return call(x, "new", "in")
		}
		return call(x, "old", "in")
	}, replay.Options{}, events)
	if !errors.As(err, &d) || d.EventID != 4 || d.Expected != "ActivityScheduled of new" || d.Where == "" {
		t.Fatal(err)
	}
}

func TestFirstAnswerOfAPatchIsKeptWhenAMarkerFollows(t *testing.T) {
	events := numbered(&history.Started{}, scheduled("a"), &history.PatchMarked{Name: "p"}, scheduled("b"))
	x, err := replayWith(func(x *replay.Code) (string, error) {
		early := x.Patched("p")
		start(x, "a", "in")
		start(x, "b", "in")
		if late := x.Patched("p"); early || late {
			t.Errorf("early %t, late %t", early, late)
		}
		return get(x, x.Next("e", nil))
	}, replay.Options{}, events)
	if err = errors.Join(err, x.Evict()); err != nil {
		t.Fatal(err)
	}
}

func TestIDDerivedAfterAPatchMarkerIsTheSameWithoutTheCall(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		x.Patched("p")
		return get(x, child(x, "c"))
	})
	d.Start(text(""))
	d.Deploy(program(func(x *replay.Code) (string, error) { return get(x, child(x, "c")) }))
	d.CompleteChild(d.OnlyChild().ID, text("done"))
	wantResult(t, d, "done")
}

func TestPatchMarkerOverTheLimitOfTheHistoryReplays(t *testing.T) {
	for events := uint64(3); events < 9; events++ {
		d := replaytest.New(t, program(func(x *replay.Code) (string, error) {
			if _, err := call(x, "a", ""); err != nil {
				return "", err
			}
			for i := range 10 {
				if !x.Patched(fmt.Sprint(i)) {
					t.Error("the new instance took the old branch")
				}
			}
			return "", nil
		}), replay.Options{Limits: replay.Limits{Events: events}})
		d.Start(text(""))
		d.Complete(d.Only("a"), text(""))
		wantFailure(t, d, history.CodeTooLarge, "the history has reached its limit")
	}
}

func TestStatusVersionsCountOverAllExecutions(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		if err := x.SetStatus("", text("one")); err != nil {
			return "", err
		}
		if _, err := call(x, "a", ""); err != nil {
			return "", err
		}
		return "", errors.Join(x.SetStatus("", text("two")), x.ContinueAsNew(text(""), "", nil))
	})
	want := func(version uint64, status string) {
		t.Helper()
		if p, v := d.X.Status(); v != version || string(p.Data) != status {
			t.Errorf("version %d: %s", v, p.Data)
		}
	}
	d.Start(text(""))
	want(1, "one")
	d.Complete(d.Only("a"), text(""))
	want(2, "two")
	d.Continue()
	want(3, "one")
	d.Feed(&history.CancelRequested{})
	x := replay.New(d.X.Identity(), nil, replay.Options{})
	if p, v := x.Status(); v != 0 || p.Data != nil {
		t.Errorf("before the start: version %d, %s", v, p.Data)
	}
}
