package replay_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestLoserOfASelectReturnsItsPlace(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		if _, err := choose(x, x.Next("approved", nil), x.Timer(time.Second, nil)); err != nil {
			return "", err
		}
		return get(x, x.Next("approved", nil))
	})
	d.Start(text(""))
	d.Fire()
	d.Send("approved", text("second wait"))
	wantResult(t, d, "second wait")
}

func TestEventOfAWaitThatLosesInTheSameStepReturnsToTheFront(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		e := x.Next("e", nil)
		if _, err := get(x, x.Next("gate", nil)); err != nil {
			return "", err
		}
		// Both the event and the end of the gate have arrived: the first argument wins.
		winner, err := choose(x, x.Refuse(errors.New("settled")), e)
		if err != nil || winner != 0 {
			return "", fmt.Errorf("winner %d, %w", winner, err)
		}
		first, err := get(x, x.Next("e", nil))
		if err != nil {
			return "", err
		}
		second, ok, err := x.TryNext("e", nil)
		if err != nil || !ok {
			return "", fmt.Errorf("no second event: %w", err)
		}
		_, err = get(x, e)
		return fmt.Sprint(first, string(second.Data), err), nil
	})
	d.Start(text(""))
	d.Send("e", text("1"))
	d.Send("e", text("2"))
	d.Send("gate", text(""))
	wantResult(t, d, "12cancelled: lost-select")
}

func TestReturnedEventGoesToTheNextWait(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		a, b := x.Next("e", nil), x.Next("e", nil)
		if _, err := get(x, x.Next("gate", nil)); err != nil {
			return "", err
		}
		a.Withdraw(lostSelect, "")
		return get(x, b)
	})
	d.Start(text(""))
	d.Send("e", text("1"))
	d.Send("gate", text(""))
	wantResult(t, d, "1")
}

func TestReadEventIsNotReturned(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		e := x.Next("e", nil)
		v, err := get(x, e)
		if err != nil {
			return "", err
		}
		if _, err := choose(x, x.Refuse(errors.New("settled")), e); err != nil {
			return "", err
		}
		_, again, err := x.TryNext("e", nil)
		return fmt.Sprint(v, again), err
	})
	d.Start(text(""))
	d.Send("e", text("1"))
	d.Observe()
	wantResult(t, d, "1false")
}

func TestFirstInHistoryWinsASelect(t *testing.T) {
	for first := range 2 {
		d := drive(t, func(x *replay.Code) (string, error) {
			winner, err := choose(x, start(x, "a", ""), start(x, "b", ""))
			return fmt.Sprint(winner), err
		})
		d.Start(text(""))
		ids := d.X.Outstanding()
		decisions := d.Complete(ids[first], text(""))
		wantKinds(t, decisions, history.KindActivityCancelRequested, history.KindCompleted)
		c := decisions[0].(*history.ActivityCancelRequested)
		if c.Scheduled != ids[1-first] || c.Reason != lostSelect {
			t.Fatalf("cancelled: %+v", c)
		}
		wantResult(t, d, fmt.Sprint(first))
	}
}

func TestScheduleOfALoserMatchesOnReplay(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		if _, err := choose(x, start(x, "a", ""), x.Timer(time.Second, nil)); err != nil {
			return "", err
		}
		return call(x, "b", "")
	})
	d.Start(text(""))
	d.Complete(d.Only("a"), text(""))
	if o, _ := d.Offer(&history.TimerFired{Timer: 3}); o != replay.DroppedLate {
		t.Fatalf("the loser's timer: %s", o)
	}
	d.Complete(d.Only("b"), text("B"))
	wantResult(t, d, "B")
}

func TestSelectLoopOverLongLivedFuturesKeepsNoWaits(t *testing.T) {
	const turns = 2_000
	d := drive(t, func(x *replay.Code) (string, error) {
		long := []*replay.Future{start(x, "long", ""), x.Timer(time.Hour, nil)}
		for range turns {
			tick := x.Next("tick", nil)
			if _, err := x.WaitAny(append(long, tick), nil); err != nil {
				return "", err
			}
			if _, err := tick.Value(); err != nil {
				return "", err
			}
			if n := long[0].Waiting() + long[1].Waiting(); n != 0 {
				return "", fmt.Errorf("%d stale waits", n)
			}
		}
		return "done", nil
	})
	d.Start(text(""))
	for range turns {
		d.Send("tick", text(""))
	}
	wantResult(t, d, "done")
}

// fanIn starts n activities and waits for all of them, in order.
func fanIn(n int) func(*replay.Code) (string, error) {
	return func(x *replay.Code) (string, error) {
		fs := make([]*replay.Future, n)
		for i := range fs {
			fs[i] = start(x, "a", fmt.Sprint(i))
		}
		for i, f := range fs {
			v, err := get(x, f)
			if err != nil || v != fmt.Sprint(i) {
				return "", fmt.Errorf("result %d is %q: %w", i, v, err)
			}
		}
		return call(x, "gathered", "")
	}
}

// gather completes a fan-in in a random order derived from the seed, and replays it.
func gather(t *testing.T, n int, seed uint64) {
	t.Helper()
	d := drive(t, fanIn(n))
	d.Start(text(""))
	ids := d.X.Outstanding()
	shuffle(seed, len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		d.Complete(id, text(fmt.Sprint(id-2)))
		if o, _ := d.Offer(&history.ActivityFailed{Scheduled: id}); o != replay.DroppedLate {
			t.Fatalf("a repeated completion: %s", o)
		}
	}
	d.Complete(d.Only("gathered"), text("G"))
	x, err := replayWith(fanIn(n), replay.Options{}, d.History)
	if err != nil || !x.Ended() {
		t.Fatalf("replay: %v", err)
	}
}

func TestWideFanInWakesInOneOrderForAnyOrderOfCompletions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		gather(t, rapid.SampledFrom([]int{2, 31, 200}).Draw(rt, "n"), rapid.Uint64().Draw(rt, "order"))
	})
	for _, n := range []int{1_024, 10_000} {
		for seed := range uint64(3) {
			gather(t, n, seed)
		}
	}
}

func TestSelectOfTenThousandIsWonByTheFirst(t *testing.T) {
	const n = 10_000
	d := drive(t, func(x *replay.Code) (string, error) {
		fs := make([]*replay.Future, n)
		for i := range fs {
			fs[i] = start(x, "a", "")
		}
		winner, err := choose(x, fs...)
		return fmt.Sprint(winner), err
	})
	d.Start(text(""))
	if cancelled := d.Complete(7_002, text("")); len(cancelled) != n {
		t.Fatalf("%d decisions", len(cancelled))
	}
	if d.End().Kind() != history.KindCompleted || string(d.End().(*history.Completed).Result.Data) != "7000" {
		t.Fatalf("ended with %s", replaytest.Text(d.History[len(d.History)-1:]))
	}
	if x, err := replayWith(func(x *replay.Code) (string, error) {
		fs := make([]*replay.Future, n)
		for i := range fs {
			fs[i] = start(x, "a", "")
		}
		winner, err := choose(x, fs...)
		return fmt.Sprint(winner), err
	}, replay.Options{}, d.History); err != nil || !x.Ended() {
		t.Fatalf("replay: %v", err)
	}
}
