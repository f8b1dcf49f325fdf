package pawltest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

var (
	clocked = pawl.NewOrchestration[string, string]("clocked")
	ring    = pawl.NewEvent[string]("ring")
)

// startTime waits for an event, and returns it with the time at which the instance began.
func startTime(ctx *pawl.Context, _ string) (string, error) {
	began := pawl.Now(ctx)
	v, err := ring.Receive(ctx)
	return fmt.Sprint(began.Format(time.TimeOnly), " ", v), err
}

func TestDelayedStartBeginsAtItsTime(t *testing.T) {
	env := pawltest.New(t, clocked.Do(startTime))
	env.StartWith(pawltest.After(90 * time.Minute))
	pawltest.Send(env.At(time.Hour), ring, "early")
	env.At(30 * time.Minute).Crash()
	if got, err := pawltest.Run(env, clocked, ""); got != "01:30:00 early" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRunTimeoutIsTheEndOfTheRun(t *testing.T) {
	env := pawltest.New(t, clocked.Do(startTime))
	env.StartWith(pawltest.After(time.Hour), pawltest.RunTimeout(10*time.Minute))
	_, err := pawltest.Run(env, clocked, "")
	if at := env.Now(); !errors.Is(err, pawl.ErrRunTimeout) || at.Format(time.TimeOnly) != "01:10:00" {
		t.Error(at, err)
	}
}

func TestCancelledDelayedStartRunsNoCode(t *testing.T) {
	ran := false
	env := pawltest.New(t, clocked.Do(func(*pawl.Context, string) (string, error) { ran = true; return "", nil }))
	env.StartWith(pawltest.After(time.Hour))
	env.At(time.Minute).Cancel("ops", "not needed")
	_, err := pawltest.Run(env, clocked, "")
	if c, ok := errors.AsType[*pawl.Cancelled](err); !ok || c.By != "ops" || ran {
		t.Error(err, ran)
	}
}

func TestStartThatTerminatesReplacesARunningInstance(t *testing.T) {
	env := pawltest.New(t, clocked.Do(startTime), counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		if n == 1 {
			return n, pawl.Sleep(ctx, 10*time.Hour)
		}
		return n, nil
	}))
	for n := range 2 {
		pawltest.Start(env.At(time.Duration(n)*time.Minute).To("other"), counter, n+1, pawltest.TerminateExisting())
	}
	pawltest.Send(env.At(time.Hour), ring, "done")
	if _, err := pawltest.Run(env, clocked, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := pawltest.Result(env.Of("other"), counter); got != 2 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}

func TestStartAfterFailureReplacesOnlyAFailure(t *testing.T) {
	env := pawltest.New(t, clocked.Do(startTime), counter.Do(func(_ *pawl.Context, n int) (int, error) {
		if n == 1 {
			return 0, errFull
		}
		return n, nil
	}))
	for n := range 3 {
		pawltest.Start(env.At(time.Duration(n)*time.Minute).To("other"), counter, n+1, pawltest.AfterFailure())
	}
	pawltest.Send(env.At(time.Hour), ring, "done")
	if _, err := pawltest.Run(env, clocked, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := pawltest.Result(env.Of("other"), counter); got != 2 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}
