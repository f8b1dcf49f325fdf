package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	jobs        = pawl.NewOrchestration[builtin.Job, int](builtin.JobName)
	double      = pawl.NewActivity[int, int]("double", pawl.Queue("numbers"))
	errDeclined = pawl.NewError("declined")
)

// env returns an Env with an activity; the built-in orchestrations are in every Env.
func env(t *testing.T, do func(context.Context, int) (int, error)) *pawltest.Env {
	t.Helper()
	return pawltest.New(t, double.Do(do))
}

func TestJobHasTheResultAndTheFailureOfItsActivity(t *testing.T) {
	calls := 0
	e := env(t, func(_ context.Context, n int) (int, error) {
		if calls++; calls < 3 {
			return 0, errDeclined
		}
		return 2 * n, nil
	})
	got, err := pawltest.Run(e, jobs, builtin.Job{
		Activity: "double", Queue: "numbers", Input: json.RawMessage("21"), After: text.Duration(time.Hour), Retry: &builtin.Retry{Attempts: 3},
	})
	if got != 42 || err != nil || calls != 3 {
		t.Errorf("%d, %v after %d calls", got, err, calls)
	}
	e.WantHistory(`
		 1  0s      Started            pawl.job {"activity":"double","queue":"numbers","input":21,"after":"1h0m0s","retry":{"attempts":3}} by test
		 2  0s      TimerScheduled     for 2026-01-01 01:00:00.000 UTC
		 3  1h0m0s  TimerFired         of 2
		 4  1h0m0s  ActivityScheduled  double 21
		 5  1h0m0s  ActivityFailed     of 4 on test declined
		 6  1h0m0s  TimerScheduled     for 2026-01-01 01:00:01.000 UTC
		 7  1h0m1s  TimerFired         of 6
		 8  1h0m1s  ActivityScheduled  double (attempt 2) 21
		 9  1h0m1s  ActivityFailed     of 8 on test declined
		10  1h0m1s  TimerScheduled     for 2026-01-01 01:00:03.000 UTC
		11  1h0m3s  TimerFired         of 10
		12  1h0m3s  ActivityScheduled  double (attempt 3) 21
		13  1h0m3s  ActivityCompleted  of 12 on test 42
		14  1h0m3s  Completed          42
	`)
}

func TestJobFailsAsItsActivityDoes(t *testing.T) {
	for _, j := range []builtin.Job{
		{Activity: "double", Queue: "numbers", Input: json.RawMessage("1")},
		{Activity: "double", Queue: "numbers", Retry: &builtin.Retry{Unless: []string{"declined"}}},
	} {
		calls := 0
		e := env(t, func(context.Context, int) (int, error) {
			calls++
			return 0, pawl.WithData(errDeclined, 500)
		})
		_, err := pawltest.Run(e, jobs, j)
		var f *pawl.Failure
		data := 0
		if !errors.Is(err, errDeclined) || !errors.As(err, &f) || f.DecodeData(&data) != nil || data != 500 || calls != 1 {
			t.Errorf("%v with %d after %d calls", err, data, calls)
		}
	}
	for _, wrong := range []builtin.Job{{}, {Activity: "a b"}, {Activity: "a", Queue: "a b"}} {
		if _, err := pawltest.Run(env(t, func(context.Context, int) (int, error) { return 0, nil }), jobs, wrong); err == nil {
			t.Errorf("%+v runs", wrong)
		}
	}
}

func TestCancelledJobCancelsItsActivity(t *testing.T) {
	for _, after := range []time.Duration{0, time.Hour} { // cancelled while the activity runs, and before it runs
		e := env(t, nil)
		e.Script(double, pawltest.Never())
		e.At(time.Minute).Cancel("ops", "wrong customer")
		_, err := pawltest.Run(e, jobs, builtin.Job{Activity: "double", Queue: "numbers", After: text.Duration(after)})
		if c := (&pawl.Cancelled{}); !errors.As(err, &c) || c.Text != "wrong customer" {
			t.Errorf("%v", err)
		}
	}
}
