package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/cancel"
)

func TestScopeCancelsOutstandingWorkAndWaitsForSiblings(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		var left *pawl.Future[string]
		cause := ""
		err := pawl.Scope(ctx, func(ctx *pawl.Context) error {
			left = echo.Start(ctx, "left")
			pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
				err := pawl.Sleep(ctx, time.Hour)
				cause = err.Error()
				_, err = echo.Call(pawl.Detach(ctx), "undo")
				return pawl.None{}, err
			})
			return pawl.Sleep(ctx, time.Second)
		})
		var c *pawl.Cancelled
		if _, lost := left.Get(ctx); err != nil || !errors.As(lost, &c) || c.Reason != cancel.ScopeEnded {
			return "", fmt.Errorf("left %v: %w", lost, err)
		}
		return cause, nil
	})
	env.Script(echo, pawltest.Never(), pawltest.Succeed().After(time.Minute))
	got, err := pawltest.Run(env, probe, 0)
	if got != "cancelled: scope-ended" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env.WantLines("ActivityCancelRequested of 2: scope-ended", "ActivityScheduled echo \"undo\"", "1m1s ActivityCompleted", "1m1s Completed")
}

func TestScopeReturnsTheErrorAndEndsOnARecoveredPanic(t *testing.T) {
	oops := errors.New("oops")
	env := world(t, func(ctx *pawl.Context, _ int) (text string, err error) {
		if err := pawl.Scope(ctx, func(*pawl.Context) error { return oops }); !errors.Is(err, oops) {
			return "", fmt.Errorf("scope: %w", err)
		}
		func() {
			defer func() { text = fmt.Sprint(recover()) }()
			_ = pawl.Scope(ctx, func(ctx *pawl.Context) error {
				pawl.After(ctx, time.Hour)
				panic("inside")
			})
		}()
		return text, pawl.Sleep(ctx, time.Second)
	})
	if got, err := pawltest.Run(env, probe, 0); got != "inside" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env.WantLines("TimerScheduled", "TimerCancelled of 2", "TimerScheduled", "TimerFired of 4")
}

func TestDetachedWorkRunsInACancelledScope(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		err := pawl.Scope(ctx, func(ctx *pawl.Context) (err error) {
			defer func() {
				_, undone := echo.Call(pawl.Detach(ctx), "undo")
				err = errors.Join(err, undone)
			}()
			return pawl.Sleep(ctx, time.Hour)
		})
		if after := pawl.Scope(ctx, func(*pawl.Context) error { panic("ran") }); !errors.Is(after, context.Canceled) {
			return "", fmt.Errorf("a scope after the end: %w", after)
		}
		return "", err
	})
	env.Blocked().Cancel("Ada", "")
	if _, err := pawltest.Run(env, probe, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	env.WantLines("CancelRequested by Ada", "TimerScheduled for 2026-01-01 00:05:00.000", "ActivityScheduled echo \"undo\"", "Cancelled")
}

func TestDetachedWorkIsBoundedAsAWhole(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		if err := pawl.Sleep(ctx, time.Hour); err == nil {
			return "", errors.New("not cancelled")
		}
		var causes []error
		for i := range 3 {
			_, err := echo.Call(pawl.DetachFor(ctx, 10*time.Minute), fmt.Sprint("undo ", i))
			causes = append(causes, err)
		}
		return "", errors.Join(causes...)
	})
	env.Script(echo, pawltest.Succeed().After(4*time.Minute), pawltest.Never())
	env.Blocked().Cancel("Ada", "")
	_, err := pawltest.Run(env, probe, 0)
	const want = "cancelled: scope-ended: detached work ran for longer than 10m0s"
	if err == nil || err.Error() != want+"\n"+want || env.Now().Minute() != 10 {
		t.Errorf("%v at %s", err, env.Now())
	}
}

func TestDetachedContextWithoutUseRecordsNothing(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		if err := pawl.Sleep(pawl.Detach(ctx), 24*time.Hour); err != nil {
			return "", err
		}
		var kept *pawl.Future[string]
		err := pawl.Scope(ctx, func(ctx *pawl.Context) error {
			kept = echo.Start(pawl.DetachFor(ctx, 0), "forever")
			return nil
		})
		if err != nil {
			return "", err
		}
		return kept.Get(ctx)
	})
	env.Script(echo, pawltest.Succeed().After(24*time.Hour))
	if got, err := pawltest.Run(env, probe, 0); got != "forever" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env.WantHistory(`
		1 0s Started probe 0 by test
		2 0s TimerScheduled for 2026-01-02 00:00:00.000 UTC
		3 24h0m0s TimerFired of 2
		4 24h0m0s ActivityScheduled echo "forever"
		5 48h0m0s ActivityCompleted of 4 on test "forever"
		6 48h0m0s Completed "forever"
	`)
}

func TestUnreadEventOfAnEndedScopeStaysAvailable(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		err := pawl.Scope(ctx, func(ctx *pawl.Context) error {
			Approved.Next(ctx)
			return pawl.Sleep(ctx, time.Hour)
		})
		if err != nil {
			return "", err
		}
		a, ok, err := Approved.TryReceive(ctx)
		return fmt.Sprint(a.By, ok), err
	})
	pawltest.Send(env.At(time.Minute), Approved, Approval{By: "finance"})
	if got, err := pawltest.Run(env, probe, 0); got != "financetrue" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFutureCancelCancelsActivitiesTimersAndWaits(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		work, rest, wait := echo.Start(ctx, "a"), pawl.After(ctx, time.Hour), Approved.Next(ctx)
		work.Cancel("one")
		rest.Cancel("two")
		wait.Cancel("three")
		_, a := work.Get(ctx)
		_, b := rest.Get(ctx)
		_, c := wait.Get(ctx)
		work.Cancel("again")
		return fmt.Sprint(a, "; ", b, "; ", c), nil
	})
	got, err := pawltest.Run(env, probe, 0)
	if got != "cancelled: requested: one; cancelled: requested: two; cancelled: requested: three" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	env.WantLines("ActivityCancelRequested of 2: requested: one", "TimerCancelled of 3", "Completed")
}

func TestThousandScopesRetainNoState(t *testing.T) {
	env := world(t, func(ctx *pawl.Context, _ int) (string, error) {
		for range 1000 {
			err := pawl.Scope(ctx, func(ctx *pawl.Context) error {
				pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) { return pawl.None{}, pawl.Sleep(ctx, time.Hour) })
				return pawl.Sleep(ctx, time.Second)
			})
			if err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	if got, err := pawltest.Run(env, probe, 0); got != "done" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
