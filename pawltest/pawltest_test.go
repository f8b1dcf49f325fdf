package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(examples{m}) }

var (
	remind   = pawl.NewOrchestration[int, string]("remind")
	mail     = pawl.NewActivity[int, string]("mail")
	answered = pawl.NewEvent[string]("answered")

	errBusy = pawl.NewError("busy")
)

// reminder sends a mail every day until an answer arrives, for at most the given number of days.
func reminder(ctx *pawl.Context, days int) (string, error) {
	answer := answered.Next(ctx)
	for day := range days {
		if _, err := mail.Call(ctx, day, pawl.Retry{Attempts: 3}, pawl.AttemptTimeout(time.Hour)); err != nil {
			return "", fmt.Errorf("day %d: %w", day, err)
		}
		tomorrow := pawl.After(ctx, 24*time.Hour)
		first, err := pawl.Any(ctx, answer, tomorrow)
		if err != nil {
			return "", err
		}
		if first == answer {
			tomorrow.Cancel("answered")
			return answer.Get(ctx)
		}
	}
	return "no answer", nil
}

func send(_ context.Context, day int) (string, error) { return fmt.Sprint("sent ", day), nil }

func reminders(tb testing.TB) *pawltest.Env {
	tb.Helper()
	return pawltest.New(tb, remind.Do(reminder), mail.Do(send))
}

func TestThirtyDaysTakeLessThanATenthOfASecond(t *testing.T) {
	best := time.Hour
	for try := 0; try < 20 && best > slower*100*time.Millisecond; try++ { // other processes may use the cores
		began := time.Now()
		env := reminders(t)
		got, err := pawltest.Run(env, remind, 30)
		best = min(best, time.Since(began))
		if got != "no answer" || err != nil || env.Now().Format(time.DateOnly) != "2026-01-31" {
			t.Fatalf("%q, %v at %s", got, err, env.Now())
		}
	}
	if best > slower*100*time.Millisecond {
		t.Errorf("thirty days took %s", best)
	}
	t.Logf("thirty days: %s", best)
}

func TestEventArrivesAtItsVirtualTime(t *testing.T) {
	env := reminders(t)
	pawltest.Send(env.At(30*time.Hour), answered, "yes")
	got, err := pawltest.Run(env, remind, 30)
	if got != "yes" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	env.WantHistory(`
		 1  0s       Started             remind 30 by test
		 2  0s       ActivityScheduled   mail 0
		 3  0s       TimerScheduled      for 2026-01-01 01:00:00.000 UTC, limits 2
		 4  0s       ActivityCompleted   of 2 on test "sent 0"
		 5  0s       TimerCancelled      of 3
		 6  0s       TimerScheduled      for 2026-01-02 00:00:00.000 UTC
		 7  24h0m0s  TimerFired          of 6
		 8  24h0m0s  ActivityScheduled   mail 1
		 9  24h0m0s  TimerScheduled      for 2026-01-02 01:00:00.000 UTC, limits 8
		10  24h0m0s  ActivityCompleted   of 8 on test "sent 1"
		11  24h0m0s  TimerCancelled      of 9
		12  24h0m0s  TimerScheduled      for 2026-01-03 00:00:00.000 UTC
		13  30h0m0s  EventReceived       answered "yes"
		14  30h0m0s  TimerCancelled      of 12
		15  30h0m0s  Completed           "yes"
	`)
}

func TestScriptMakesAnActivityFailHangAndTakeTime(t *testing.T) {
	env := reminders(t)
	env.Script(mail, pawltest.Fail(errBusy), pawltest.Never(), pawltest.Succeed().After(10*time.Minute))
	if _, err := pawltest.Run(env, remind, 1); err != nil {
		t.Fatal(err)
	}
	env.WantLines(
		"0s ActivityFailed of 2 on test busy",
		"1s TimerFired",
		"1s ActivityScheduled mail (attempt 2) 0",
		"1h0m1s TimerFired", // the attempt timeout of an hour
		"1h0m1s ActivityCancelRequested of 8: timed-out: attempt timed out after 1h0m0s",
		"ActivityScheduled mail (attempt 3) 0",
		"1h10m3s ActivityCompleted",
	)
}

func TestFailureOfTheOrchestrationIsTheErrorOfRunWithItsSentinel(t *testing.T) {
	env := reminders(t)
	env.Script(mail, pawltest.Succeed().Times(2), pawltest.Fail(errBusy).Times(0))
	_, err := pawltest.Run(env, remind, 30)
	if !errors.Is(err, errBusy) || err.Error() != "day 2: busy" {
		t.Errorf("%v", err)
	}
}

func TestBlockedIsTheTimeAtWhichEveryInstanceWaits(t *testing.T) {
	env := reminders(t)
	env.Blocked().Do(func() { env.WantLines("ActivityCompleted of 2") })
	env.Blocked().Cancel("Ada", "enough")
	_, err := pawltest.Run(env, remind, 30)
	if !errors.Is(err, context.Canceled) || env.Now().After(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v at %s", err, env.Now())
	}
	env.WantLines("CancelRequested by Ada: enough", "Cancelled cancelled: requested by Ada: enough")
}

func TestFakeReplacesABinding(t *testing.T) {
	env := reminders(t)
	var keys []string
	env.Instance("order-42")
	env.Fake(mail.Do(func(ctx context.Context, day int) (string, error) {
		i := pawl.Info(ctx)
		if i.Instance != "order-42" || i.Attempt != 1 {
			return "", fmt.Errorf("info %+v", i)
		}
		keys = append(keys, i.Key)
		return "faked", nil
	}))
	pawltest.Send(env.BeforeStart(), answered, "before")
	got, err := pawltest.Run(env, remind, 30)
	if got != "before" || err != nil || len(keys) != 1 || len(keys[0]) != 22 {
		t.Errorf("%q, %v, keys %q", got, err, keys)
	}
}

// outputOf runs fn with a testing.TB that records its failures, and returns its output.
func outputOf(t *testing.T, fn func(tb testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.clean()
		fn(r)
	}()
	<-done
	return r.output
}

func TestDivergenceFailsTheTestAfterItsTurn(t *testing.T) {
	for name, code := range map[string]func(ctx *pawl.Context, calls *int) error{
		"another decision": func(ctx *pawl.Context, calls *int) error {
			if *calls++; *calls > 1 {
				return pawl.Sleep(ctx, time.Second)
			}
			_, err := mail.Call(ctx, 1)
			return err
		},
		"another payload": func(ctx *pawl.Context, calls *int) error {
			*calls++
			_, err := mail.Call(ctx, *calls)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			output := outputOf(t, func(tb testing.TB) {
				calls := 0
				env := pawltest.New(tb, mail.Do(send), remind.Do(func(ctx *pawl.Context, _ int) (string, error) {
					return "", code(ctx, &calls)
				}))
				_, _ = pawltest.Run(env, remind, 1)
			})
			wantText(t, output, "after turn 1", "diverges at event 2", "pawltest_test.go:", "ActivityScheduled")
		})
	}
}

func TestEndlessWaitFailsTheTestAndShowsTheHistory(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) {
		env := reminders(tb)
		env.Fake(mail.Do(send))
		_, _ = pawltest.Run(pawltest.New(tb, remind.Do(func(ctx *pawl.Context, _ int) (string, error) {
			return answered.Receive(ctx)
		})), remind, 1)
	})
	wantText(t, output, "waits for something that never comes", "Started")
}

func TestUnboundActivityFailsTheTestByName(t *testing.T) {
	output := outputOf(t, func(tb testing.TB) { _, _ = pawltest.Run(pawltest.New(tb, remind.Do(reminder)), remind, 1) })
	wantText(t, output, "activity mail is neither bound nor faked")
}

func TestUnexpectedHistoryIsShownWithTheLineThatDiffers(t *testing.T) {
	for want, text := range map[string]string{
		"1 0s Started remind 0 by test\n2 0s Completed \"an answer\"":    `has "2 0s Completed \"no answer\"", not`,
		"1 0s Started remind 0 by test":                                  "continues with",
		"1 0s Started remind 0 by test\n2 0s Completed \"no answer\"\n3": "ends before",
	} {
		output := outputOf(t, func(tb testing.TB) {
			env := reminders(tb)
			_, _ = pawltest.Run(env, remind, 0)
			env.WantHistory(want)
		})
		wantText(t, output, text)
	}
	output := outputOf(t, func(tb testing.TB) {
		env := reminders(tb)
		_, _ = pawltest.Run(env, remind, 0)
		env.WantLines("Completed", "Started")
	})
	wantText(t, output, `no "Started", or not behind`)
}

func TestCrashesHappenAfterTheRequestedTurns(t *testing.T) {
	runs := 0
	count := func(ctx *pawl.Context, days int) (string, error) {
		runs++
		return reminder(ctx, days)
	}
	for _, c := range []struct {
		plan func(*pawltest.Env)
		want int // runs of the code: one per crash and per check at the end, in addition to the first
	}{
		{func(e *pawltest.Env) { e.CrashAfter() }, 3},
		{func(e *pawltest.Env) { e.CrashAfter(2, 4) }, 5},
		{func(e *pawltest.Env) { e.CrashAfter(); e.At(time.Hour).Crash() }, 4},
		{func(*pawltest.Env) {}, 3 + 6}, // 7 turns: the start, and two per day; no crash after the last
	} {
		runs = 0
		env := pawltest.New(t, remind.Do(count), mail.Do(send))
		c.plan(env)
		if got, err := pawltest.Run(env, remind, 3); got != "no answer" || err != nil || runs != c.want {
			t.Errorf("%q, %v, %d runs, not %d", got, err, runs, c.want)
		}
	}
}
