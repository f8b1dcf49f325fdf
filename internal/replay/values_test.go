package replay_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func shuffle(seed uint64, n int, swap func(i, j int)) {
	rand.New(rand.NewPCG(seed, 0)).Shuffle(n, swap)
}

func TestNowIDsAndRandomNumbersAreTheSameOnReplay(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		var got []string
		for range 3 {
			got = append(got, x.NewID(), x.NewID(), fmt.Sprint(x.Rand().Uint64(), x.Now().UnixMilli()))
			if _, err := call(x, "a", strings.Join(got, " ")); err != nil { // recorded in the history, so replay compares it
				return "", err
			}
		}
		return strings.Join(got, " "), nil
	})
	d.Start(text(""))
	for range 3 {
		d.Advance(time.Minute)
		d.Complete(d.Only("a"), text(""))
	}
	result := string(d.End().(*history.Completed).Result.Data)
	seen := map[string]bool{}
	for word := range strings.FieldsSeq(result) {
		if seen[word] {
			t.Fatalf("%s came twice in %s", word, result)
		}
		seen[word] = true
	}
	wantResult(t, d, result)
}

func TestIDsDifferBetweenExecutionsAndPlaces(t *testing.T) {
	ids := map[string]bool{}
	for _, id := range []effectid.Identity{
		{Instance: "a"}, {Instance: "b"}, {Instance: "a", Execution: 1}, {Instance: "a", Origin: history.Position{Seq: 1}},
		{Instance: "a", Origin: history.Position{Time: 1}},
	} {
		x := replay.New(id, program(func(x *replay.Code) (string, error) { return x.NewID(), nil }), replay.Options{})
		if _, err := x.Apply(&history.Started{}); err != nil {
			t.Fatal(err)
		}
		ids[string(x.Take()[1].(*history.Completed).Result.Data)] = true
	}
	if len(ids) != 5 {
		t.Fatalf("%d different ids: %v", len(ids), ids)
	}
}

func TestNowIsMonotonicAndTimersCountFromIt(t *testing.T) {
	var times []int64
	d := drive(t, func(x *replay.Code) (string, error) {
		for range 3 {
			times = append(times, x.Now().UnixMilli())
			if _, err := get(x, x.Next("e", nil)); err != nil {
				return "", err
			}
		}
		start := x.Now()
		_, err := get(x, x.Timer(1500*time.Microsecond, nil))
		return x.Now().Sub(start).String(), err
	})
	d.Start(text(""))
	d.Now -= 60_000 // the clock stepped back
	d.Send("e", text(""))
	d.Now += 120_000
	d.Send("e", text(""))
	made := d.Send("e", text(""))
	at := made[0].(*history.TimerScheduled)
	if at.FireAt != d.Now+2 || at.At != d.Now {
		t.Fatalf("timer: %+v", at)
	}
	fired := &history.TimerFired{Timer: at.ID}
	fired.At = 1 // replaced by Apply
	d.Feed(fired)
	if fired.At != at.FireAt {
		t.Fatalf("the timer's own time was not used: %d", fired.At)
	}
	if want := []int64{replaytest.Epoch, replaytest.Epoch, replaytest.Epoch + 60_000}; fmt.Sprint(times[:3]) != fmt.Sprint(want) {
		t.Fatalf("times %v, not %v", times[:3], want)
	}
	wantResult(t, d, "2ms")
}

func TestNextTimerReturnsTimersInOrder(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		var fs []*replay.Future
		for _, s := range []int{5, 3, 9, 1, 7, 3} {
			fs = append(fs, x.Timer(time.Duration(s)*time.Second, nil))
		}
		fs[1].Withdraw(lostSelect, "")
		for _, f := range fs {
			if err := x.Wait(f, nil); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	d.Start(text(""))
	var order []int64
	for !d.X.Ended() {
		_, at, _ := d.X.NextTimer()
		order = append(order, (at-replaytest.Epoch)/1000)
		d.Fire()
	}
	if fmt.Sprint(order) != "[1 3 5 7 9]" {
		t.Fatalf("fired at %v", order)
	}
	wantResult(t, d, "done")
}

func TestLoggerIsSilentDuringReplay(t *testing.T) {
	logs := new(strings.Builder)
	opts := replay.Options{Logger: slog.New(slog.NewTextHandler(logs, nil))}
	code := program(func(x *replay.Code) (string, error) {
		log := x.Logger().With("k", "v").WithGroup("g")
		log.Info("before")
		_, err := call(x, "a", "")
		log.Info("after", "err", err)
		return "", err
	})
	d := replaytest.New(t, code, opts)
	d.Start(text(""))
	x := replay.New(effectid.Identity{Instance: "order-42"}, code, opts)
	if err := x.Replay(d.History); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Apply(&history.ActivityCompleted{Scheduled: 2}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(logs.String(), "before") != 1 || strings.Count(logs.String(), "after") != 1 {
		t.Fatalf("log:\n%s", logs)
	}
}

func TestEffectIDDependsOnEveryField(t *testing.T) {
	base := effectid.Identity{Instance: "order-42", Origin: history.Position{Seq: 7, Time: 8}}
	id := effectid.Of(base, 2, history.KindActivityScheduled, "charge", text("in"))
	if id != "iKlEI2yxmQ-G1BecXjUjiA" { // recorded in histories, so it must never change
		t.Fatalf("effect id %q", id)
	}
	other := base
	other.Execution = 1
	seen := map[string]bool{id: true}
	for _, e := range []string{
		effectid.Of(other, 2, history.KindActivityScheduled, "charge", text("in")),
		effectid.Of(base, 3, history.KindActivityScheduled, "charge", text("in")),
		effectid.Of(base, 2, history.KindTimerScheduled, "charge", text("in")),
		effectid.Of(base, 2, history.KindActivityScheduled, "charg", history.Payload{Type: "e" + history.TypeJSON, Data: []byte("in")}),
		effectid.Of(base, 2, history.KindActivityScheduled, "charge", text("IN")),
		effectid.Of(base, 2, history.KindActivityScheduled, "charge", history.Payload{Type: "application/msgpack", Data: []byte("in")}),
	} {
		if seen[e] {
			t.Fatalf("%s came twice", e)
		}
		seen[e] = true
	}
}

func TestRecordedEffectIDIsThatOfTheEvent(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) { return call(x, "a", "in") })
	d.Start(text(""))
	ev := d.History[1].(*history.ActivityScheduled)
	want := effectid.Activity(d.X.Identity(), ev)
	if ev.Effect != want || ev.Queue != "a" || ev.Attempt != 1 {
		t.Fatalf("scheduled: %+v", ev)
	}
}

// Senders choose event names, so an execution may have many of them, and code may wait for each before it arrives.
func TestEventsOfManyNamesAreKeptApart(t *testing.T) {
	const names = 40
	name := func(i int) string { return fmt.Sprint("event-", i) }
	d := drive(t, func(x *replay.Code) (string, error) {
		var got []string
		for i := range names {
			if _, err := get(x, x.Next(name(i), nil)); err != nil {
				return "", err
			}
		}
		for i := range names {
			text, err := get(x, x.Next(name(i), nil))
			if err != nil {
				return "", err
			}
			got = append(got, text)
		}
		return strings.Join(got, " "), nil
	})
	d.Start(text(""))
	var want []string
	for i := range names {
		d.Send(name(i), text(""))
	}
	for i := range names {
		want = append(want, fmt.Sprint("text-", i))
	}
	for i := names - 1; i >= 0; i-- {
		d.Send(name(i), text(want[i]))
	}
	wantResult(t, d, strings.Join(want, " "))
}
