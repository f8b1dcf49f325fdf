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

// naps sleeps an hour, sets the status and ends with the text; or sleeps a given number of times.
func naps(times int, result, status string) replay.Program {
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

// slept is the history of one nap.
func slept(t *testing.T) (*replaytest.Driver, replaytest.Past) {
	t.Helper()
	d := replaytest.New(t, naps(1, "rested", "awake"), replay.Options{})
	d.Start(text("in"))
	d.Fire()
	d.CheckReplay()
	return d, replaytest.Past{ID: d.X.Identity(), Program: naps(1, "rested", "awake"), Events: d.History, Live: d.X}
}

func TestCodeMatchesEveryPrefixOfItsHistory(t *testing.T) {
	_, p := slept(t)
	for _, most := range []int{1, 2, 100} {
		if err := p.CheckPrefixes(most); err != nil {
			t.Errorf("%d: %v", most, err)
		}
	}
}

func TestDivergenceOfOtherCodeNamesBothDecisions(t *testing.T) {
	for want, c := range map[string]struct {
		code  replay.Program
		after int
		event uint64
	}{
		`after a replay of 0 events, event 4 is Completed "tired", and was Completed "rested"`:                              {naps(1, "tired", "awake"), 0, 4},
		`after a replay of 2 events, event 4 is Completed "tired", and was Completed "rested"`:                              {naps(1, "tired", "awake"), 2, 4},
		`after a replay of 2 events, event 4 is TimerScheduled for 2023-11-15 00:13:20.000 UTC, and was Completed "rested"`: {naps(2, "rested", "awake"), 2, 4},
	} {
		_, p := slept(t)
		p.Program = c.code
		err := p.Check(c.after)
		var d *replaytest.Difference
		if !errors.As(err, &d) || d.After != c.after || d.Event != c.event || err.Error() != want {
			t.Errorf("%v\nnot %s", err, want)
		}
	}
}

func TestDivergenceMayBeAnExtraOrAMissingDecision(t *testing.T) {
	_, p := slept(t)
	p.Events, p.Live = p.Events[:3], nil // it ended, and now it would not have
	if err := p.Check(2); err == nil || err.Error() != `after a replay of 2 events, Completed "rested" is made as event 4, and was not` {
		t.Error(err)
	}
	long := replaytest.New(t, naps(2, "rested", "awake"), replay.Options{})
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
	_, p := slept(t)
	p.Program = naps(1, "rested", "asleep")
	if err := p.Check(4); err == nil || !strings.Contains(err.Error(), `custom status is "asleep", version 1, and was "awake", version 1`) {
		t.Error(err)
	}
	tired := naps(1, "tired", "awake")
	p.Program, p.Live = tired, nil
	if err := p.CheckPrefixes(100); err == nil {
		t.Error("code that would have ended otherwise passed")
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

// The time of a limit is its owner's clock, which no check has.
func TestTimeOfALimitIsNoDivergence(t *testing.T) {
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
		t.Errorf("over at %d, want %d", fired, set.FireAt)
	}
	d.CheckReplay()
	p := replaytest.Past{ID: d.X.Identity(), Program: code, Events: d.History, Live: d.X}
	if err := p.CheckPrefixes(100); err != nil {
		t.Error(err)
	}
	set.AttemptTimeoutOf = 0 // as an earlier build has written it
	if err := p.CheckPrefixes(100); err != nil {
		t.Error(err)
	}
}
