package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

var (
	probe = pawl.NewOrchestration[int, string]("probe")
	echo  = pawl.NewActivity[string, string]("echo")
)

// world runs code under the name probe, and an echo activity.
func world(tb testing.TB, code func(*pawl.Context, int) (string, error)) *pawltest.Env {
	tb.Helper()
	return pawltest.New(tb, probe.Do(code), echo.Do(func(_ context.Context, s string) (string, error) { return s, nil }))
}

func TestSiblingsReturnValuesAndErrorsWithoutEncoding(t *testing.T) {
	type secret struct{ unexported int } // would not survive being encoded
	oops := errors.New("oops")
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		a := pawl.Go(ctx, func(ctx *pawl.Context) (*secret, error) {
			return &secret{7}, pawl.Sleep(ctx, time.Hour)
		})
		b := pawl.Go(ctx, func(ctx *pawl.Context) (string, error) {
			_, err := echo.Call(ctx, "b")
			return "kept", errors.Join(err, oops)
		})
		first, err := pawl.Any(ctx, a, b)
		if err != nil || first != pawl.Selectable(b) {
			return "", fmt.Errorf("first %v: %w", first, err)
		}
		v, err := b.Get(ctx)
		if v != "kept" || !errors.Is(err, oops) {
			return "", fmt.Errorf("b returned %q: %w", v, err)
		}
		s, err := a.Get(ctx)
		return fmt.Sprint(s.unexported), err
	})
	if got, err := pawltest.Run(env, probe, 0); got != "7" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCancelledSiblingMayFinish(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		s := pawl.Go(ctx, func(ctx *pawl.Context) (string, error) {
			err := pawl.Sleep(ctx, 24*time.Hour)
			var c *pawl.Cancelled
			if !errors.As(err, &c) {
				return "", fmt.Errorf("not cancelled: %w", err)
			}
			if _, again := echo.Call(ctx, "too late"); !errors.Is(again, context.Canceled) {
				return "", fmt.Errorf("a call in a cancelled context: %w", again)
			}
			if _, nested := pawl.Go(ctx, func(*pawl.Context) (int, error) { panic("ran") }).Get(ctx); !errors.Is(nested, context.Canceled) {
				return "", fmt.Errorf("a sibling in a cancelled context: %w", nested)
			}
			return echo.Call(pawl.Detach(ctx), c.Text)
		})
		if err := pawl.Sleep(ctx, time.Minute); err != nil {
			return "", err
		}
		s.Cancel("not needed")
		s.Cancel("twice")
		if s.Ready() {
			return "", errors.New("ready before it returned")
		}
		return s.Get(ctx)
	})
	got, err := pawltest.Run(env, probe, 0)
	if got != "not needed" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env.WantLines("TimerCancelled of 3", "TimerScheduled for 2026-01-01 00:06:00.000", "ActivityScheduled echo \"not needed\"", "Completed")
}

func TestSiblingThatLosesASelectIsCancelled(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		slow := pawl.Go(ctx, func(ctx *pawl.Context) (string, error) { return "", pawl.Sleep(ctx, time.Hour) })
		quick := pawl.Go(ctx, func(ctx *pawl.Context) (string, error) { return "quick", pawl.Sleep(ctx, time.Second) })
		first, err := pawl.Select(ctx, slow, quick)
		if err != nil || first != pawl.Selectable(quick) {
			return "", fmt.Errorf("first %v: %w", first, err)
		}
		var c *pawl.Cancelled
		if _, err := slow.Get(ctx); !errors.As(err, &c) {
			return "", fmt.Errorf("slow: %w", err)
		}
		return c.Reason.String(), nil
	})
	if got, err := pawltest.Run(env, probe, 0); got != "lost-select" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPanicInASiblingFailsTheInstanceWithItsStack(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		pawl.Go(ctx, func(ctx *pawl.Context) (int, error) {
			_, _ = echo.Call(ctx, "a")
			panic("no such order")
		})
		return echo.Call(ctx, "b")
	})
	env.Script(echo, pawltest.Succeed(), pawltest.Succeed().After(time.Hour))
	// The root's call was scheduled first: it is the one that returns at once.
	if got, err := pawltest.Run(env, probe, 0); err != nil || got != "b" {
		t.Fatalf("%q, %v", got, err)
	}
	env = world(t, func(ctx *pawl.Context, _ int) (string, error) {
		pawl.Go(ctx, func(*pawl.Context) (int, error) { panic("no such order") })
		return echo.Call(ctx, "b")
	})
	_, err := pawltest.Run(env, probe, 0)
	var f *pawl.Failure
	if !errors.Is(err, pawl.ErrPanic) || !errors.As(err, &f) || !strings.Contains(f.Stack, "sibling_test.go") {
		t.Errorf("%v", err)
	}
	env.WantLines("ActivityScheduled echo", "ActivityCancelRequested of 2: orchestration-failed", "Failed panic: no such order")
}

func TestAwaitBoundsSiblings(t *testing.T) {
	const n = 200
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		free, most, done := 3, 0, 0
		for i := range n {
			pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
				if err := pawl.Await(ctx, func() bool { return free > 0 }); err != nil {
					return pawl.None{}, err
				}
				free--
				most = max(most, 3-free)
				_, err := echo.Call(ctx, fmt.Sprint(i))
				free++
				done++
				return pawl.None{}, err
			})
		}
		err := pawl.Await(ctx, func() bool { return done == n })
		return fmt.Sprint(most), err
	})
	env.CrashAfter(1, 100)
	if got, err := pawltest.Run(env, probe, 0); got != "3" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAwaitConditionThatWaitsOrDecidesIsAMisuse(t *testing.T) {
	var inside error
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		err := pawl.Await(ctx, func() bool {
			_, inside = echo.Call(ctx, "in the condition")
			return true
		})
		return "continued", err
	})
	got, err := pawltest.Run(env, probe, 0)
	var misuse *pawl.Misuse
	if got != "continued" || err != nil || !errors.As(inside, &misuse) || !strings.Contains(inside.Error(), "condition of an Await") {
		t.Errorf("%q, %v; the call returned %v", got, err, inside)
	}
	env = world(t, func(ctx *pawl.Context, _ int) (string, error) {
		return "", pawl.Await(ctx, func() bool { return pawl.NewID(ctx) != "" })
	})
	if _, err := pawltest.Run(env, probe, 0); !errors.Is(err, pawl.ErrPanic) {
		t.Errorf("NewID in a condition: %v", err)
	}
}

func TestAwaitEndsOnlyWithTheInstanceOrItsScope(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		return "", pawl.Await(ctx, func() bool { return false })
	})
	pawltest.Send(env.At(time.Hour), pawl.NewEvent[int]("noise"), 1)
	env.At(2*time.Hour).Cancel("Ada", "enough")
	_, err := pawltest.Run(env, probe, 0)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	env.WantHistory(`
		1 0s Started probe 0 by test
		2 1h0m0s EventReceived noise 1
		3 2h0m0s CancelRequested by Ada: enough
		4 2h0m0s Cancelled cancelled: requested by Ada: enough
	`)
}

func TestSideEffectRunsOnce(t *testing.T) {
	calls := 0
	var inside error
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		n, err := pawl.SideEffect(ctx, func() (int, error) {
			calls++
			inside = pawl.Sleep(ctx, time.Second)
			return calls, nil
		})
		if err != nil {
			return "", err
		}
		_, failed := pawl.SideEffect(ctx, func() (int, error) { return 0, fmt.Errorf("flag: %w", ErrDeclined) })
		_, large := pawl.SideEffect(ctx, func() (string, error) { return strings.Repeat("x", 600<<10), nil })
		if _, err := echo.Call(ctx, "b"); err != nil {
			return "", err
		}
		return fmt.Sprint(n, errors.Is(failed, ErrDeclined), failed, errors.Is(large, pawl.ErrTooLarge)), nil
	})
	env.CrashAfter(1)
	got, err := pawltest.Run(env, probe, 0)
	if got != "1 true flag: card-declined true" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	var misuse *pawl.Misuse
	if calls != 1 || !errors.As(inside, &misuse) {
		t.Errorf("%d calls; a call inside returned %v", calls, inside)
	}
	env.WantLines("SideEffectRecorded 1", "SideEffectRecorded failed: flag: card-declined", "SideEffectRecorded failed: string encodes to")
}
