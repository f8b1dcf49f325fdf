package replay_test

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

var oops = history.Failure{Code: "oops", Message: "it broke"}

func calls(c replay.Call) body {
	return func(x *replay.Code) (string, error) {
		c.Activity, c.Queue = "a", "q"
		return get(x, x.Call(c))
	}
}

var fourAttempts = replay.Retry{Attempts: 4, Initial: time.Second, Factor: 3, Max: 5 * time.Second}

func TestEachAttemptIsScheduledAfterAnIncreasingBackoff(t *testing.T) {
	d := drive(t, calls(replay.Call{Retry: fourAttempts}))
	d.Start(text(""))
	keys := map[string]bool{}
	for attempt := uint32(1); ; attempt++ {
		id := d.Only("a")
		ev := d.History[id-1].(*history.ActivityScheduled)
		if ev.Attempt != attempt || keys[ev.Effect] {
			t.Fatalf("attempt %d: %+v", attempt, ev)
		}
		keys[ev.Effect] = true
		if attempt == 4 {
			d.Complete(id, text("at last"))
			break
		}
		d.Fail(id, oops)
		_, at, _ := d.X.NextTimer()
		if want := []int64{1_000, 3_000, 5_000}[attempt-1]; at-d.Now != want {
			t.Fatalf("backoff %d is %d ms, not %d", attempt, at-d.Now, want)
		}
		d.Fire()
	}
	wantResult(t, d, "at last")
}

func TestCallFailsWithItsLastFailure(t *testing.T) {
	d := drive(t, calls(replay.Call{Retry: replay.Retry{Attempts: 2}}))
	d.Start(text(""))
	wantKinds(t, d.Fail(d.Only("a"), history.Failure{Message: "first"}), history.KindActivityScheduled)
	d.Fail(d.Only("a"), history.Failure{Code: "second", Message: "second"})
	wantFailure(t, d, "second", "second")
}

func TestPermanentAndExcludedFailuresAreNotRetried(t *testing.T) {
	for name, f := range map[string]history.Failure{
		"permanent":       {Message: "no", Permanent: true},
		"excluded":        {Message: "no", Code: "declined"},
		"excluded inside": {Message: "no", Code: "outer", Also: []string{"declined"}},
	} {
		t.Run(name, func(t *testing.T) {
			retry := fourAttempts
			retry.Unless = []string{"declined"}
			d := drive(t, calls(replay.Call{Retry: retry}))
			d.Start(text(""))
			d.Fail(d.Only("a"), f)
			wantFailure(t, d, f.Code, "no")
		})
	}
}

func TestCallWithoutARetryPolicyIsNotRetried(t *testing.T) {
	d := drive(t, calls(replay.Call{}))
	d.Start(text(""))
	wantKinds(t, d.Fail(d.Only("a"), oops), history.KindFailed)
	wantFailure(t, d, "oops", "it broke")
}

func TestAttemptThatTimesOutIsCancelledAndRetried(t *testing.T) {
	d := drive(t, calls(replay.Call{Retry: replay.Retry{Attempts: 2}, AttemptTimeout: 30 * time.Second}))
	wantKinds(t, d.Start(text("")), history.KindActivityScheduled, history.KindTimerScheduled)
	late := d.Only("a")
	made := d.Fire()
	wantKinds(t, made, history.KindActivityCancelRequested, history.KindActivityScheduled, history.KindTimerScheduled)
	if c := made[0].(*history.ActivityCancelRequested); c.Reason != cancel.TimedOut || c.Text != "attempt timed out after 30s" {
		t.Fatalf("cancelled: %+v", c)
	}
	if o, _ := d.Offer(&history.ActivityCompleted{Scheduled: late}); o != replay.DroppedLate {
		t.Fatalf("a completion after its cancellation: %s", o)
	}
	wantKinds(t, d.Complete(d.Only("a"), text("ok")), history.KindTimerCancelled, history.KindCompleted)
	wantResult(t, d, "ok")
}

func TestAttemptThatTimesOutWithoutRetryFailsTheCall(t *testing.T) {
	d := drive(t, calls(replay.Call{AttemptTimeout: time.Minute}))
	d.Start(text(""))
	d.Fire()
	wantFailure(t, d, history.CodeTimeout, "attempt timed out after 1m0s")
}

func TestCallThatTimesOutIsNotRetried(t *testing.T) {
	for name, during := range map[string]func(*replaytest.Driver){
		"in an attempt": func(*replaytest.Driver) {},
		"in a backoff":  func(d *replaytest.Driver) { d.Fail(d.Only("a"), oops) },
	} {
		t.Run(name, func(t *testing.T) {
			retry := fourAttempts
			retry.Initial, retry.Max = time.Hour, time.Hour
			d := drive(t, calls(replay.Call{Retry: retry, AttemptTimeout: 2 * time.Minute, Within: time.Minute}))
			d.Start(text(""))
			during(d)
			d.Fire()
			wantFailure(t, d, history.CodeTimeout, "call timed out after 1m0s")
		})
	}
}

func TestCancelledCallCancelsItsEventsInOrder(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		f := x.Call(replay.Call{Activity: "a", Retry: fourAttempts, AttemptTimeout: time.Minute, Within: time.Hour})
		if _, err := get(x, x.Next("go", nil)); err != nil {
			return "", err
		}
		f.Withdraw(lostSelect, "enough")
		return "done", nil
	})
	d.Start(text(""))
	d.Fail(d.Only("a"), oops)
	d.Fire() // the backoff ends; the second attempt is scheduled after the deadline timer
	made := d.Send("go", text(""))
	wantKinds(t, made, history.KindTimerCancelled, history.KindActivityCancelRequested, history.KindTimerCancelled, history.KindCompleted)
	wantResult(t, d, "done")
}

func TestCompletedCallCancelsItsTimeout(t *testing.T) {
	d := drive(t, calls(replay.Call{Within: time.Minute}))
	wantKinds(t, d.Start(text("")), history.KindActivityScheduled, history.KindTimerScheduled)
	wantKinds(t, d.Complete(d.Only("a"), text("ok")), history.KindTimerCancelled, history.KindCompleted)
	wantResult(t, d, "ok")
}
