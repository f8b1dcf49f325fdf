package replay_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestOversizedPayloadIsAFailureAtTheCall(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		return call(x, "a", strings.Repeat("x", replay.MaxPayload+1))
	})
	d.Start(text(""))
	wantFailure(t, d, history.CodeTooLarge, "524289 bytes, and the limit is 524288")
}

func TestOversizedResultFailsTheExecution(t *testing.T) {
	d := drive(t, func(*replay.Code) (string, error) {
		return strings.Repeat("x", replay.MaxPayload+1), nil
	})
	d.Start(text(""))
	wantFailure(t, d, history.CodeTooLarge, "the result has")
}

func TestActivityOverTheLimitIsAFailureAtTheCall(t *testing.T) {
	code := program(func(x *replay.Code) (string, error) {
		for i := range 4 {
			if f := start(x, "a", ""); f.Settled() {
				_, err := f.Value()
				return "", fmt.Errorf("call %d: %w", i, err)
			}
		}
		return "", nil
	})
	d := replaytest.New(t, code, replay.Options{Limits: replay.Limits{Outstanding: 3}})
	d.Start(text(""))
	wantFailure(t, d, history.CodeTooMany, "3 activities and children are outstanding")
}

func TestRecordedCallsReplayUnderLowerLimits(t *testing.T) {
	code := program(func(x *replay.Code) (string, error) {
		for range 3 {
			start(x, "a", strings.Repeat("x", 100))
		}
		if err := x.Send("far", "note", text(strings.Repeat("x", 100)), nil); err != nil {
			return "", err
		}
		if err := x.Launch(replay.Child{Name: "free", Instance: "far"}, text(strings.Repeat("x", 100)), nil); err != nil {
			return "", err
		}
		return call(x, "b", "")
	})
	d := replaytest.New(t, code, replay.Options{})
	d.Start(text(""))
	again := replay.New(d.X.Identity(), code, replay.Options{Limits: replay.Limits{Outstanding: 2, Payload: 50}})
	if err := again.Replay(d.History); err != nil {
		t.Error(err)
	}
	if err := again.Evict(); err != nil {
		t.Error(err)
	}
}

func TestOversizedHistoryFailsTheExecutionByName(t *testing.T) {
	logs := new(strings.Builder)
	opts := replay.Options{
		Limits: replay.Limits{Events: 50, WarnEvents: 20},
		Logger: slog.New(slog.NewTextHandler(logs, nil)),
	}
	for name, next := range map[string]func(*replaytest.Driver){
		"by a decision": func(d *replaytest.Driver) { d.Complete(d.Only("a"), text("")) },
		"by an input":   func(d *replaytest.Driver) { d.Send("noise", text("")) },
	} {
		t.Run(name, func(t *testing.T) {
			unwound := false
			d := replaytest.New(t, program(func(x *replay.Code) (string, error) {
				start(x, "kept", "")
				defer func() { unwound = true }()
				for {
					if _, err := call(x, "a", ""); err != nil {
						return "", err
					}
				}
			}), opts)
			d.Start(text(""))
			for !d.X.Ended() {
				next(d)
			}
			if !unwound || len(d.History) > 50+3 {
				t.Fatalf("unwound %t, %d events", unwound, len(d.History))
			}
			wantFailure(t, d, history.CodeTooLarge, "the history has reached its limit of 50 events")
		})
	}
	if n := strings.Count(logs.String(), "history is long"); n < 2 {
		t.Fatalf("%d warnings", n)
	}
}

func TestRepeatedCompletionOrFailureTakesEffectOnce(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		if _, err := call(x, "a", ""); err != nil {
			return "", err
		}
		return call(x, "b", "")
	})
	d.Start(text(""))
	a := d.Only("a")
	d.Complete(a, text("once"))
	for _, in := range []history.Event{&history.ActivityCompleted{Scheduled: a, Result: text("twice")}, &history.ActivityFailed{Scheduled: a}} {
		if o, _ := d.Offer(in); o != replay.DroppedLate {
			t.Errorf("%T of an activity that had completed: %s", in, o)
		}
	}
	d.Only("b")
}

func TestInputWithoutOutstandingScheduleIsDropped(t *testing.T) {
	d := drive(t, func(x *replay.Code) (string, error) {
		if _, err := call(x, "a", ""); err != nil {
			return "", err
		}
		return get(x, x.Timer(1000, nil))
	})
	d.Start(text(""))
	for _, in := range []history.Event{
		&history.Started{},
		&history.ActivityCompleted{Scheduled: 99},
		&history.TimerFired{Timer: 2}, // the id of an activity, not a timer
		&history.TimerFired{Timer: 1},
		&history.ActivityFailed{Scheduled: 1},
	} {
		if o, _ := d.Offer(in); !o.Dropped() {
			t.Fatalf("%T was %s", in, o)
		}
	}
	d.Fail(d.Only("a"), oops)
	if o, _ := d.Offer(&history.ActivityFailed{Scheduled: 2}); o != replay.DroppedEnded {
		t.Fatalf("a repeated failure: %s", o)
	}
	x := replay.New(effectid.Identity{}, nil, replay.Options{})
	if _, err := x.Apply(&history.EventReceived{}); err == nil {
		t.Fatal("an event before the start was applied")
	}
	for _, ev := range []history.Event{&history.Completed{}, &history.PurgeRequested{}} {
		if _, err := x.Apply(ev); err == nil {
			t.Fatalf("%T was applied", ev)
		}
	}
}

func TestStepOverTheLimitKeepsItsEarlierDecisions(t *testing.T) {
	d := replaytest.New(t, program(func(x *replay.Code) (string, error) {
		if _, err := call(x, "a", ""); err != nil {
			return "", err
		}
		for {
			start(x, "b", "")
		}
	}), replay.Options{Limits: replay.Limits{Events: 10}})
	d.Start(text(""))
	made := d.Complete(d.Only("a"), text(""))
	if len(made) != 7+7+1 || len(d.History) != 18 { // schedules, their cancellations, the end
		t.Fatalf("decisions:\n%s", replaytest.Text(made))
	}
	wantFailure(t, d, history.CodeTooLarge, "the history has reached its limit of 10 events")
}
