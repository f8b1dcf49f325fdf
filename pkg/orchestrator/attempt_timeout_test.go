package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Trap: a timeout that is counted from the time of the last event instead of the turn fires early. A start that was accepted while no
// orchestrator ran is old, but each attempt has its full timeout.
func TestAttemptTimeoutCountsFromTheTurnOfTheAttempt(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	const age, limit = 3 * time.Second, time.Minute
	flaky := pawl.NewActivity[string, string]("flaky")
	does := hello.Do(func(ctx *pawl.Context, caller string) (string, error) {
		return flaky.Call(ctx, caller, pawl.AttemptTimeout(limit), pawl.Retry{Attempts: 2, Initial: time.Millisecond})
	})
	s.stop(s.orchestrate(orchestrator.Config{}, does))
	began := time.Now()
	s.start("hello", "h", `"x"`)
	s.until("the start is old", func() bool { return time.Since(began) > age })
	s.orchestrate(orchestrator.Config{}, does)
	s.work(worker.Config{}, flaky.Do(func(ctx context.Context, caller string) (string, error) {
		if pawl.Info(ctx).Attempt == 1 {
			return "", errors.New("not yet")
		}
		return caller, nil
	}))
	if d := s.ended("h"); d.Status != "completed" {
		t.Errorf("%+v", d)
	}
	limits := 0
	for _, ev := range s.history("h") {
		if e, ok := ev.(*history.TimerScheduled); ok && e.AttemptTimeoutOf != 0 {
			limits++
			if e.FireAt < began.Add(age+limit).UnixMilli() {
				t.Errorf("the limit of event %d ends %v after the start", e.AttemptTimeoutOf, time.Duration(e.FireAt-began.UnixMilli())*time.Millisecond)
			}
		}
	}
	if limits != 2 {
		t.Errorf("%d limits", limits)
	}
}
