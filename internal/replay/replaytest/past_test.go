package replaytest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/replay/replaytest"
	"github.com/pawlrun/pawl/pkg/history"
)

// sleeps returns code that sleeps for an hour the given number of times, sets the status and returns the result.
func sleeps(times int, result, status string) replay.Program {
	return func(x *replay.Code) replay.Ending {
		for range times {
			if err := x.Wait(x.Timer(time.Hour, nil), nil); err != nil {
				return replay.Ending{Failure: &history.Failure{Message: err.Error()}}
			}
		}
		if err := x.SetStatus("", text(status)); err != nil {
			return replay.Ending{Failure: &history.Failure{Message: err.Error()}}
		}
		return replay.Ending{Result: text(result)}
	}
}

func text(s string) history.Payload {
	return history.Payload{Type: history.TypeJSON, Data: []byte(`"` + s + `"`)}
}

// sleptOnce returns a driver and the history of code that slept once.
func sleptOnce(t *testing.T) (*replaytest.Driver, replaytest.Past) {
	t.Helper()
	d := replaytest.New(t, sleeps(1, "rested", "awake"), replay.Options{})
	d.Start(text("in"))
	d.Fire()
	d.CheckReplay()
	return d, replaytest.Past{ID: d.X.Identity(), Program: sleeps(1, "rested", "awake"), Events: d.History, Live: d.X}
}

func TestCodeMatchesEveryPrefixOfItsHistory(t *testing.T) {
	_, p := sleptOnce(t)
	for _, limit := range []int{1, 2, 100} {
		if err := p.CheckPrefixes(limit); err != nil {
			t.Errorf("%d: %v", limit, err)
		}
	}
}

func TestDivergenceOfOtherCodeNamesBothDecisions(t *testing.T) {
	for want, c := range map[string]struct {
		code  replay.Program
		after int
		event uint64
	}{
		`after a replay of 0 events, event 4 is Completed "tired", and was Completed "rested"`:                              {sleeps(1, "tired", "awake"), 0, 4},
		`after a replay of 2 events, event 4 is Completed "tired", and was Completed "rested"`:                              {sleeps(1, "tired", "awake"), 2, 4},
		`after a replay of 2 events, event 4 is TimerScheduled for 2023-11-15 00:13:20.000 UTC, and was Completed "rested"`: {sleeps(2, "rested", "awake"), 2, 4},
	} {
		_, p := sleptOnce(t)
		p.Program = c.code
		err := p.Check(c.after)
		var d *replaytest.Difference
		if !errors.As(err, &d) || d.After != c.after || d.Event != c.event || err.Error() != want {
			t.Errorf("%v\nnot %s", err, want)
		}
	}
}

func TestDivergenceMayBeAnExtraOrAMissingDecision(t *testing.T) {
	_, p := sleptOnce(t)
	p.Events, p.Live = p.Events[:3], nil // the history before the end
	if err := p.Check(2); err == nil || err.Error() != `after a replay of 2 events, Completed "rested" is made as event 4, and was not` {
		t.Error(err)
	}
	long := replaytest.New(t, sleeps(2, "rested", "awake"), replay.Options{})
	long.Start(text("in"))
	long.Fire()
	p = replaytest.Past{ID: long.X.Identity(), Events: long.History, Program: func(x *replay.Code) replay.Ending {
		_ = x.Wait(x.Timer(time.Hour, nil), nil)
		_ = x.Wait(x.Next("never", nil), nil)
		return replay.Ending{}
	}}
	if err := p.Check(2); err == nil || err.Error() != "after a replay of 2 events, event 4 is not made, and was TimerScheduled for 2023-11-15 00:13:20.000 UTC" {
		t.Error(err)
	}
}

func TestHistoryOfSeveralBuildsIsCheckedFromTheLastDeployment(t *testing.T) {
	_, p := sleptOnce(t)
	p.Program = sleeps(1, "rested", "asleep")
	if err := p.Check(4); err == nil || !strings.Contains(err.Error(), `custom status is "asleep", version 1, and was "awake", version 1`) {
		t.Error(err)
	}
	other := sleeps(1, "tired", "awake")
	p.Program, p.Live = other, nil
	if err := p.CheckPrefixes(100); err == nil {
		t.Error("code with another result passed")
	}
	p.From = 4
	if err := p.CheckPrefixes(100); err != nil { // a payload that encodes differently is allowed
		t.Error(err)
	}
	p.Options.Strict = true
	var diverged *replay.Divergence
	if err := p.CheckPrefixes(100); !errors.As(err, &diverged) {
		t.Errorf("%v", err)
	}
}

// The owner sets the time of an attempt timeout by its own clock.
func TestTimeOfAnAttemptTimeoutIsNoDivergence(t *testing.T) {
	code := func(x *replay.Code) replay.Ending {
		_ = x.Wait(x.Call(replay.Call{Activity: "act", AttemptTimeout: time.Minute}), nil)
		return replay.Ending{Result: text("over")}
	}
	d := replaytest.New(t, code, replay.Options{})
	d.Start(text("in"))
	set, ok := d.History[2].(*history.TimerScheduled)
	if !ok || set.AttemptTimeoutOf != 2 || set.FireAt != set.At+60_000 {
		t.Fatalf("%+v", d.History[2])
	}
	d.X.ExtendTimer(set, set.At+7_200_000)
	d.Fire()
	if fired := d.History[3].Meta().At; fired != set.FireAt {
		t.Errorf("fired at %d, want %d", fired, set.FireAt)
	}
	d.CheckReplay()
	p := replaytest.Past{ID: d.X.Identity(), Program: code, Events: d.History, Live: d.X}
	if err := p.CheckPrefixes(100); err != nil {
		t.Error(err)
	}
	set.AttemptTimeoutOf = 0 // as an earlier build recorded it
	if err := p.CheckPrefixes(100); err != nil {
		t.Error(err)
	}
}
