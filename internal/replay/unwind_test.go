package replay_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func wantFailure(tb testing.TB, d *replaytest.Driver, code, message string) *history.Failed {
	tb.Helper()
	end, ok := d.End().(*history.Failed)
	if !ok || end.Failure.Code != code || !strings.Contains(end.Failure.Message, message) {
		tb.Fatalf("ended with %+v, not with the failure %q %q", d.End(), code, message)
	}
	d.CheckReplay()
	return end
}

func TestPanicFailsTheExecutionWithItsStack(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		start(x, "outstanding", "")
		if _, err := call(x, "a", ""); err != nil {
			return "", err
		}
		panic("no such order")
	})
	d.Start(text(""))
	d.Complete(d.Only("a"), text(""))
	end := wantFailure(t, d, history.CodePanic, "no such order")
	if !strings.Contains(end.Failure.Stack, "unwind_test.go") {
		t.Fatalf("the stack does not name the code:\n%s", end.Failure.Stack)
	}
}

func TestPanicInASiblingFailsTheExecutionAndUnwindsTheRoot(t *testing.T) {
	deferred := 0
	d := drive(t, func(x *replay.Code) (string, error) {
		defer func() { deferred++ }()
		f := x.Go(nil, func(*replay.Scope) {
			_, _ = call(x, "a", "")
			panic(errors.New("sibling"))
		})
		return get(x, f)
	})
	d.Start(text(""))
	d.Complete(d.Only("a"), text(""))
	if deferred != 1 {
		t.Fatalf("the root's deferred function ran %d times", deferred)
	}
	wantFailure(t, d, history.CodePanic, "sibling")
}

func TestGoexitFailsTheExecutionAndNotTheCaller(t *testing.T) {
	for name, where := range map[string]func(x *replay.Code){
		"before a wait":  func(*replay.Code) {},
		"after a wait":   func(x *replay.Code) { _, _ = call(x, "a", "") },
		"after a panic":  func(*replay.Code) { defer func() { _ = recover() }(); panic("first") },
		"during a panic": func(*replay.Code) { defer func() { panic("in a deferred function") }() },
	} {
		t.Run(name, func(t *testing.T) {
			returned := false
			d := drive(t, func(x *replay.Code) (string, error) {
				where(x)
				runtime.Goexit()
				return "", nil
			})
			func() {
				d.Start(text(""))
				if ids := d.Scheduled("a"); len(ids) > 0 {
					d.Complete(ids[0], text(""))
				}
				returned = true
			}()
			if !returned || !d.X.Ended() {
				t.Fatal("the caller did not return")
			}
			if _, ok := d.End().(*history.Failed); !ok {
				t.Fatalf("ended with %+v", d.End())
			}
			d.CheckReplay()
		})
	}
}

func TestGoexitInASiblingFailsTheExecution(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		return get(x, x.Go(nil, func(*replay.Scope) {
			_, _ = call(x, "a", "")
			runtime.Goexit()
		}))
	})
	d.Start(text(""))
	d.Complete(d.Only("a"), text(""))
	wantFailure(t, d, history.CodePanic, "Goexit")
}

func TestEvictionRunsDeferredFunctionsThatCanScheduleNothing(t *testing.T) {
	var ran []string
	d := drive(t, func(x *replay.Code) (string, error) {
		defer func() { ran = append(ran, "outer") }()
		defer func() {
			ran = append(ran, "inner")
			for { // an endless retry loop
				_, _ = call(x, "compensate", "")
			}
		}()
		return call(x, "a", "")
	})
	d.Start(text(""))
	if err := d.X.Evict(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ran, " "); got != "inner outer" {
		t.Fatalf("deferred functions that ran: %q", got)
	}
	if made := d.X.Take(); len(made) > 0 {
		t.Fatalf("eviction recorded %s", replaytest.Text(made))
	}
	if _, err := d.X.Apply(&history.EventReceived{Name: "e"}); !errors.Is(err, replay.ErrEvicted) {
		t.Fatalf("apply after eviction: %v", err)
	}
	if err := d.X.Evict(); err != nil {
		t.Fatalf("second eviction: %v", err)
	}
}

func TestRecoverCannotStopTheUnwinding(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		for {
			func() {
				defer func() { _ = recover() }()
				_, _ = call(x, "a", "")
			}()
		}
	})
	d.Start(text(""))
	if err := d.X.Evict(); err != nil {
		t.Fatal(err)
	}
}

func TestPanicInADeferredFunctionIsReportedByEvict(t *testing.T) {
	x := replay.New(effectid.Identity{Instance: "i"}, program(func(x *replay.Code) (string, error) {
		defer func() { panic("during unwinding") }()
		return call(x, "a", "")
	}), replay.Options{})
	if _, err := x.Apply(&history.Started{}); err != nil {
		t.Fatal(err)
	}
	if err := x.Evict(); err == nil || !strings.Contains(err.Error(), "during unwinding") {
		t.Fatalf("evict: %v", err)
	}
}

func TestSiblingsAreUnwoundWhenTheRootReturns(t *testing.T) {
	var ran []string
	d := drive(t, func(x *replay.Code) (string, error) {
		for i := range 3 {
			x.Go(nil, func(*replay.Scope) {
				defer func() {
					ran = append(ran, fmt.Sprint(i))
					_, _ = call(x, "too-late", "")
				}()
				_, _ = call(x, "never", "")
			})
		}
		return call(x, "a", "")
	})
	d.Start(text(""))
	d.Complete(d.Only("a"), text("done"))
	if len(ran) != 3 {
		t.Fatalf("siblings unwound: %v", ran)
	}
	wantResult(t, d, "done")
}

func TestExecutionMayBeEvictedFromAnotherGoroutine(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) { return call(x, "a", "") })
	d.Start(text(""))
	done := make(chan error)
	go func() { done <- d.X.Evict() }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestCodeThatBlocksDoesNotBlockOtherInstances(t *testing.T) {
	release := make(chan struct{})
	blocked := replay.New(effectid.Identity{Instance: "blocked"}, program(func(*replay.Code) (string, error) {
		<-release
		return "late", nil
	}), replay.Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = blocked.Apply(&history.Started{})
	}()
	d := drive(t, func(x *replay.Code) (string, error) { return call(x, "a", "") })
	d.Start(text(""))
	d.Complete(d.Only("a"), text("A"))
	wantResult(t, d, "A")
	close(release)
	<-done
}

func TestContextOnAnotherGoroutineIsAMisuse(t *testing.T) {
	logs := new(strings.Builder)
	errs := make(chan error, 4)
	var ended bool
	d := replaytest.New(t, program(func(x *replay.Code) (string, error) {
		f := start(x, "a", "")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := call(x, "b", "")
			errs <- err
			errs <- x.Wait(f, nil)
			_, err = x.WaitAny([]*replay.Future{f}, nil)
			errs <- err
			_, _, err = x.TryNext("e", nil)
			errs <- err
			x.NewID()
			ended = true
		}()
		<-done
		return get(x, f)
	}), replay.Options{Logger: slog.New(slog.NewTextHandler(logs, nil))})
	d.Start(text(""))
	for range 4 {
		var m *replay.Misuse
		if err := <-errs; !errors.As(err, &m) || !strings.Contains(err.Error(), "goroutine") {
			t.Fatalf("an operation on a foreign goroutine: %v", err)
		}
	}
	if ended || !strings.Contains(logs.String(), "goroutine") {
		t.Fatalf("NewID on a foreign goroutine returned; log: %s", logs)
	}
	wantKinds(t, d.History, history.KindStarted, history.KindActivityScheduled)
	d.Complete(d.Only("a"), text("A"))
	if d.End().Kind() != history.KindCompleted {
		t.Fatalf("ended with %+v", d.End())
	}
}

func TestContextInAnotherInstanceOrAfterTheEndIsAMisuse(t *testing.T) {
	var leaked *replay.Code
	first := drive(t, func(x *replay.Code) (string, error) {
		leaked = x
		return call(x, "a", "")
	})
	first.Start(text(""))
	for _, after := range []string{"parked", "ended"} {
		second := replay.New(effectid.Identity{Instance: "second"}, program(func(*replay.Code) (string, error) {
			return call(leaked, "b", "")
		}), replay.Options{})
		if _, err := second.Apply(&history.Started{}); err != nil {
			t.Fatal(err)
		}
		events := second.Take()
		end, ok := events[len(events)-1].(*history.Failed)
		if !ok || !strings.Contains(end.Failure.Message, "inside another instance") {
			t.Fatalf("%s: ended with %+v", after, events[len(events)-1])
		}
		if after == "parked" {
			first.Complete(first.Only("a"), text("A"))
		}
	}
	if first.End().Kind() != history.KindCompleted {
		t.Fatalf("the first ended with %+v", first.End())
	}
}

func TestMisuseFailsTheInstanceThatCalls(t *testing.T) {
	leaked := replay.New(effectid.Identity{Instance: "other"}, nil, replay.Options{})
	d := drive(t, func(*replay.Code) (string, error) { return leaked.NewID(), nil })
	d.Start(text(""))
	wantFailure(t, d, history.CodePanic, `the context of instance "other" was used`)
}

func TestStepInsideAStepIsRejected(t *testing.T) {
	var x *replay.Execution
	var inside error
	x = replay.New(effectid.Identity{Instance: "order-42"}, func(*replay.Code) replay.Ending {
		_, applied := x.Apply(&history.EventReceived{Name: "e"})
		inside = errors.Join(applied, x.Evict())
		return replay.Ending{}
	}, replay.Options{})
	if _, err := x.Apply(&history.Started{Name: "o"}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(inside.Error(), replay.ErrBusy.Error()); n != 2 {
		t.Fatalf("applied and evicted: %v", inside)
	}
}

func TestSiblingThatNeverRanIsNotUnwound(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		x.Go(nil, func(*replay.Scope) { t.Error("a sibling ran after the end") })
		return "done", nil
	})
	d.Start(text(""))
	wantResult(t, d, "done")
}
