package replay_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// cleanUp starts a sibling in the scope that does detached work when it is cancelled.
func cleanUp(x *replay.Code, in *replay.Scope) {
	x.Go(in, func(in *replay.Scope) {
		_ = x.Wait(x.Timer(time.Hour, in), in)
		d := x.Detach(in, time.Minute)
		_ = x.Wait(x.Call(replay.Call{Activity: "tidy", Scope: d}), d)
	})
}

func TestScopeEndedByAPanicWaitsForItsSiblingsAndCanBeEvictedMeanwhile(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("inside") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, func(x *replay.Code) (string, error) {
				in := x.Open(nil)
				defer x.Close(in)
				cleanUp(x, in)
				if _, err := call(x, "a", ""); err != nil {
					return "", err
				}
				end()
				return "", nil
			})
			d.Start(text(""))
			wantKinds(t, d.Complete(d.Only("a"), text("")),
				history.KindTimerCancelled, history.KindTimerScheduled, history.KindActivityScheduled)
			d.CheckReplay() // evicts in the middle of the deferred Close
			d.Complete(d.Only("tidy"), text(""))
			if end, ok := d.End().(*history.Failed); !ok || end.Failure.Code != history.CodePanic {
				t.Fatalf("ended with %+v", d.End())
			}
			d.CheckReplay()
			d.CheckRecord()
		})
	}
}

func TestExpiredBoundOfDetachedWorkRejectsEveryOperation(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		var late *replay.Scope
		f := x.Go(nil, func(in *replay.Scope) { late = x.Detach(in, time.Minute) })
		if err := errors.Join(x.Wait(f, nil), x.Wait(x.Timer(time.Hour, nil), nil)); err != nil {
			return "", err
		}
		_, err := get(x, x.Call(replay.Call{Activity: "late", Scope: late}))
		return fmt.Sprint(err), nil
	})
	d.Start(text(""))
	d.Fire()
	wantResult(t, d, "cancelled: scope-ended: detached work ran for longer than 1m0s")
}

func TestUnrecordedEndOfAScopeIsRecordedAfterTheReplay(t *testing.T) {
	code := func(scoped bool) replay.Program {
		return program(func(x *replay.Code) (string, error) {
			in := x.Open(nil)
			x.Call(replay.Call{Activity: "left", Scope: in})
			x.Timer(time.Hour, in)
			if _, err := get(x, x.Next("go", nil)); err != nil {
				return "", err
			}
			if scoped {
				x.Close(in)
			}
			return get(x, x.Next("end", nil))
		})
	}
	d := replaytest.New(t, code(false), replay.Options{})
	d.Start(text(""))
	d.Send("go", text(""))
	x := replay.New(d.X.Identity(), code(true), replay.Options{})
	if err := x.Replay(d.History); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Apply(&history.EventReceived{Name: "end", Payload: text("over")}); err != nil {
		t.Fatal(err)
	}
	made := x.Take()
	wantKinds(t, made, history.KindEventReceived, history.KindActivityCancelRequested, history.KindTimerCancelled, history.KindCompleted)
	if r := made[1].(*history.ActivityCancelRequested).Reason; r != cancel.ScopeEnded {
		t.Fatalf("reason %s", r)
	}
}

func TestRemovedAwaitIsADivergence(t *testing.T) {
	code := func(x *replay.Code) (string, error) { return "", x.Await(func() bool { return false }, nil) }
	d := drive(t, code)
	d.Start(text(""))
	x := replay.New(d.X.Identity(), program(func(*replay.Code) (string, error) { return "", nil }), replay.Options{})
	var diverged *replay.Divergence
	if err := x.Replay(d.History); !errors.As(err, &diverged) || diverged.EventID != 2 {
		t.Fatalf("replay: %v", err)
	}
}

func TestRemovedOrAddedSideEffectIsADivergence(t *testing.T) {
	with := func(x *replay.Code) (string, error) {
		p, err := x.SideEffect(func() (history.Payload, *history.Failure) { return text("7"), nil }, nil)
		if err != nil {
			return "", err
		}
		return call(x, "a", string(p.Data))
	}
	without := func(x *replay.Code) (string, error) { return call(x, "a", "7") }
	for name, c := range map[string][2]func(*replay.Code) (string, error){
		"removed": {with, without}, "added": {without, with},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, c[0])
			d.Start(text(""))
			x := replay.New(d.X.Identity(), program(c[1]), replay.Options{})
			var diverged *replay.Divergence
			if err := x.Replay(d.History); !errors.As(err, &diverged) || diverged.EventID != 2 || diverged.Where == "" {
				t.Fatalf("replay: %v", err)
			}
		})
	}
}

func TestScopeOfTenThousandCallsEndsInOneStep(t *testing.T) {
	const n = 10_000
	d := replaytest.New(t, program(func(x *replay.Code) (string, error) {
		in := x.Open(nil)
		for range n {
			x.Go(in, func(in *replay.Scope) { _, _ = get(x, x.Call(replay.Call{Activity: "a", Scope: in})) })
		}
		if _, err := get(x, x.Next("stop", nil)); err != nil {
			return "", err
		}
		x.Close(in)
		return "done", nil
	}), replay.Options{})
	d.Start(text(""))
	began := time.Now()
	if made := d.Send("stop", text("")); len(made) != n+1 {
		t.Fatalf("%d decisions", len(made))
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	d.CheckRecord()
}
