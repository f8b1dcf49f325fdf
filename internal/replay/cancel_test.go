package replay_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestCancellationReachesEverythingThatIsNotDetached(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		kept := x.Call(replay.Call{Activity: "kept", Scope: x.Detach(nil, 0)})
		a, timer, e := start(x, "a", ""), x.Timer(time.Hour, nil), x.Next("e", nil)
		_, err := get(x, a)
		var c *cancel.Cancelled
		if !errors.As(err, &c) || c.By != "finance" || c.Text != "fraud" || c.Reason != cancel.Requested {
			return "", fmt.Errorf("call: %w", err)
		}
		for _, f := range []*replay.Future{timer, e, start(x, "b", ""), x.Timer(1, nil), x.Next("e", nil)} {
			if !f.Ready() {
				return "", errors.New("a future is not ready")
			}
			if _, again := f.Value(); !errors.Is(again, errCancelled) {
				return "", fmt.Errorf("a later call: %w", again)
			}
		}
		if _, err := get(x, kept); !errors.Is(err, errCancelled) {
			return "", fmt.Errorf("a wait that is not detached: %w", err)
		}
		if x.Wait(kept, x.Detach(nil, 0)) != nil {
			return "", errors.New("the detached wait was ended")
		}
		return "", err
	})
	d.Start(text(""))
	made := d.Cancel("finance", "fraud")
	wantKinds(t, made, history.KindActivityCancelRequested, history.KindTimerCancelled)
	if c := made[0].(*history.ActivityCancelRequested); c.Reason != cancel.Requested || c.By != "finance" || c.Text != "fraud" {
		t.Fatalf("cancelled: %+v", c)
	}
	if o, _ := d.Offer(&history.CancelRequested{By: "again"}); o != replay.DroppedRepeated {
		t.Fatalf("second cancellation: %s", o)
	}
	d.Complete(d.Only("kept"), text(""))
	end, ok := d.End().(*history.Cancelled)
	if !ok || end.By != "finance" || end.Text != "fraud" {
		t.Fatalf("ended with %+v", d.End())
	}
	d.CheckReplay()
}

func TestWaitOnDetachedWorkEndsWithTheCancellation(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		return get(x, x.Call(replay.Call{Activity: "kept", Scope: x.Detach(nil, 0)}))
	})
	d.Start(text(""))
	made := d.Cancel("me", "why not")
	wantKinds(t, made, history.KindActivityCancelRequested, history.KindCancelled)
	if c := made[0].(*history.ActivityCancelRequested); c.Reason != cancel.Requested || c.By != "me" {
		t.Fatalf("cancelled: %+v", c)
	}
	d.CheckReplay()
}

func TestCancelledInstanceMayCompleteOrFail(t *testing.T) {
	for want, result := range map[history.Kind]error{history.KindCompleted: nil, history.KindFailed: errors.New("compensation failed")} {
		d := drive(t, func(x *replay.Code) (string, error) {
			_, _ = call(x, "a", "")
			return "", result
		})
		d.Start(text(""))
		d.Cancel("", "")
		if d.End().Kind() != want {
			t.Fatalf("ended with %+v", d.End())
		}
		d.CheckReplay()
	}
}

func TestCancelledErrorWithoutACancellationIsAFailure(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		a := start(x, "a", "")
		a.Withdraw(lostSelect, "")
		return get(x, a)
	})
	d.Start(text(""))
	if d.End().Kind() != history.KindFailed {
		t.Fatalf("ended with %+v", d.End())
	}
	d.CheckReplay()
}

func TestEndCancelsOutstandingWorkFirstInAscendingOrder(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		reason cancel.Reason
	}{
		"completed": {nil, cancel.OrchestrationCompleted},
		"failed":    {errors.New("no"), cancel.OrchestrationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, func(x *replay.Code) (string, error) {
				for range 50 {
					start(x, "a", "")
				}
				x.Timer(time.Hour, nil)
				_, err := call(x, "b", "")
				return "", errors.Join(err, c.err)
			})
			d.Start(text(""))
			made := d.Complete(d.Only("b"), text(""))
			if len(made) != 51 {
				t.Fatalf("%d decisions", len(made))
			}
			for i, ev := range made[:50] {
				r, ok := ev.(*history.ActivityCancelRequested)
				if !ok || r.Scheduled != uint64(i)+2 || r.Reason != c.reason {
					t.Fatalf("decision %d: %+v", i, ev)
				}
			}
			if o, _ := d.Offer(&history.ActivityCompleted{Scheduled: 2}); o != replay.DroppedEnded {
				t.Fatalf("after the end: %s", o)
			}
			if _, _, ok := d.X.NextTimer(); ok || len(d.X.Outstanding()) > 0 {
				t.Fatal("something is outstanding after the end")
			}
			d.CheckReplay()
		})
	}
}

func TestCancelBeforeTheFirstWaitEndsTheFirstWait(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		_, err := get(x, x.Next("go", x.Detach(nil, 0))) // continues to wait, because its scope is detached
		if !errors.Is(err, errCancelled) {
			return "", errors.New("the wait was not ended")
		}
		if err := x.Wait(x.Next("go", x.Detach(nil, 0)), x.Detach(nil, 0)); err != nil {
			return "", err
		}
		return call(x, "a", "")
	})
	d.Start(text(""))
	d.Cancel("", "")
	d.Send("go", text("1"))
	d.Send("go", text("2"))
	if d.End().Kind() != history.KindCancelled {
		t.Fatalf("ended with %+v", d.End())
	}
	d.CheckReplay()
}

func TestWaitingSiblingsAreCancelled(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		cancelled := 0
		var fs []*replay.Future
		for range 5 {
			fs = append(fs, x.Go(nil, func(*replay.Scope) {
				if _, err := call(x, "a", ""); errors.Is(err, errCancelled) {
					cancelled++
				}
			}))
		}
		for _, f := range fs {
			if err := x.Wait(f, x.Detach(nil, 0)); err != nil {
				return "", err
			}
		}
		return fmt.Sprint(cancelled), nil
	})
	d.Start(text(""))
	d.Complete(4, text(""))
	d.Cancel("", "")
	wantResult(t, d, "4")
}

func TestCancellationWakesWaitsInTheOrderInWhichTheyBegan(t *testing.T) {
	const n = 40
	d := drive(t, func(x *replay.Code) (string, error) {
		for i := range n {
			x.Go(nil, func(*replay.Scope) {
				_, _ = get(x, x.Next(fmt.Sprint("event-", i), nil))
				x.Call(replay.Call{Activity: fmt.Sprint("undo-", i), Scope: x.Detach(nil, 0)})
			})
			x.Go(nil, func(*replay.Scope) {
				_, _ = get(x, start(x, "work", ""))
				x.Call(replay.Call{Activity: fmt.Sprint("undo-work-", i), Scope: x.Detach(nil, 0)})
			})
		}
		return "", x.Wait(x.Next("never", x.Detach(nil, 0)), x.Detach(nil, 0))
	})
	d.Start(text(""))
	made := d.Cancel("", "")[n:] // the cancellations come first
	for i := range n {
		work, event := made[i].(*history.ActivityScheduled), made[n+i].(*history.ActivityScheduled)
		if work.Name != fmt.Sprint("undo-work-", i) || event.Name != fmt.Sprint("undo-", i) {
			t.Fatalf("place %d: %s and %s", i, work.Name, event.Name)
		}
	}
	d.CheckReplay()
}
