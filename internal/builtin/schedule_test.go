package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/schedule"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// hourly doubles 21 every hour.
func hourly(change func(*builtin.Schedule)) builtin.State {
	s := builtin.Schedule{Times: schedule.Times{Cron: []string{"0 * * * *"}}, Run: &builtin.Job{Activity: "double", Queue: "numbers"}, Remaining: 3}
	change(&s)
	return builtin.State{Schedule: s}
}

// scheduled runs a schedule to its end. Activities take the time given by the steps.
func scheduled(t *testing.T, st builtin.State, script []pawltest.Step, moments ...func(*pawltest.Env)) (started []string, end builtin.State) {
	t.Helper()
	e := env(t, func(context.Context, int) (int, error) { return 0, nil })
	e.Instance("s")
	e.Script(double, script...)
	for _, m := range moments {
		m(e)
	}
	if _, err := pawltest.Run(e, builtin.Schedules, st); err != nil {
		t.Fatal(err)
	}
	for _, id := range e.Instances() {
		if _, at, ok := strings.Cut(id, "@"); ok {
			started = append(started, strings.TrimSuffix(strings.TrimPrefix(at, "2026-01-0"), ":00:00Z"))
		}
	}
	all := pawltest.Statuses(e, builtin.ScheduleStatus)
	return started, all[len(all)-1]
}

// at sends a command at a time.
func at(d time.Duration, c builtin.Command) func(*pawltest.Env) {
	return func(e *pawltest.Env) { pawltest.Send(e.At(d), builtin.Commands, c) }
}

func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, not %q", what, got, want)
	}
}

// The test kit crashes the schedule after every turn, and replays it.
func TestScheduleRunsAJobAtEachTimeAndEndsAfterTheLast(t *testing.T) {
	got, end := scheduled(t, hourly(func(s *builtin.Schedule) { s.Jitter = 6e11 }), nil)
	want(t, "started", got, []string{"1T01", "1T02", "1T03"})
	if end.Done != 3 || len(end.Recent) != 3 || end.Skipped+end.Missed+end.Failed != 0 {
		t.Errorf("%+v", end)
	}
	for _, f := range end.Recent {
		if d := f.At.Sub(f.Time); d < 0 || d >= 10*time.Minute || f.Instance != "s@"+f.Time.Format(time.RFC3339) {
			t.Errorf("%+v", f)
		}
	}
	got, _ = scheduled(t, hourly(func(s *builtin.Schedule) {
		s.Remaining, s.Until = 0, time.Date(2026, 1, 1, 2, 30, 0, 0, time.UTC)
	}), nil)
	want(t, "until", got, []string{"1T01", "1T02"})
	got, end = scheduled(t, hourly(func(s *builtin.Schedule) { s.Remaining = 120 }), nil, func(e *pawltest.Env) { e.CrashAfter(100, 500) }) // spans several executions
	if len(got) != 120 || end.Done != 120 || got[119] != "6T00" {
		t.Errorf("%d times to %s, %d done", len(got), got[len(got)-1], end.Done)
	}
}

func TestOverlapDecidesWhatATimeDoesWhileAnInstanceRuns(t *testing.T) {
	long := []pawltest.Step{pawltest.Succeed().After(150 * time.Minute)} // the first takes from 01:00 to 03:30; the others take no time
	for overlap, c := range map[builtin.Overlap]struct {
		started []string
		skipped uint64
		failed  uint64
	}{
		builtin.Skip:           {started: []string{"1T01", "1T04", "1T05"}, skipped: 2},
		builtin.BufferOne:      {started: []string{"1T01", "1T02", "1T04"}, skipped: 1},
		builtin.BufferAll:      {started: []string{"1T01", "1T02", "1T03"}},
		builtin.CancelOther:    {started: []string{"1T01", "1T02", "1T03"}, failed: 1},
		builtin.TerminateOther: {started: []string{"1T01", "1T02", "1T03"}, failed: 1},
		builtin.AllowAll:       {started: []string{"1T01", "1T02", "1T03"}},
	} {
		got, end := scheduled(t, hourly(func(s *builtin.Schedule) { s.Overlap = overlap }), long)
		want(t, string(overlap), got, c.started)
		if end.Skipped != c.skipped || end.Failed != c.failed {
			t.Errorf("%s: %+v", overlap, end)
		}
	}
}

func TestTerminateOtherEndsTheInstanceWithoutItsCode(t *testing.T) {
	slow := pawl.NewOrchestration[pawl.None, pawl.None]("slow")
	e := pawltest.New(t, slow.Do(func(ctx *pawl.Context, _ pawl.None) (pawl.None, error) {
		return pawl.None{}, pawl.Sleep(ctx, 90*time.Minute)
	}))
	st := hourly(func(s *builtin.Schedule) {
		s.Run, s.Start, s.Overlap, s.Remaining = nil, &builtin.Start{Orchestration: "slow"}, builtin.TerminateOther, 2
	})
	if _, err := pawltest.Run(e, builtin.Schedules, st); err != nil {
		t.Fatal(err)
	}
	_, err := pawltest.Result(e.Of("test@2026-01-01T01:00:00Z"), slow)
	if c := (&pawl.Cancelled{}); !errors.As(err, &c) || c.Reason != cancel.Terminated {
		t.Errorf("%v", err)
	}
}

func TestFailurePausesAScheduleWithPauseOnFailure(t *testing.T) {
	failing := []pawltest.Step{pawltest.Fail(errors.New("disk full"))}
	got, end := scheduled(t, hourly(func(s *builtin.Schedule) { s.PauseOnFailure = true }), failing,
		at(5*time.Hour+time.Minute, builtin.Command{Do: "resume", Note: "disk replaced"}))
	want(t, "started", got, []string{"1T01", "1T06", "1T07"})
	if end.Failed != 1 || end.Schedule.Note != "disk replaced" || end.Missed != 0 {
		t.Errorf("%+v", end)
	}
}

func TestCommandsPauseTriggerBackfillAndConfigureASchedule(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got, end := scheduled(t, hourly(func(s *builtin.Schedule) { s.Remaining = 6 }), nil,
		at(90*time.Minute, builtin.Command{Do: "pause", Note: "holiday"}),
		at(200*time.Minute, builtin.Command{Do: "trigger"}),
		at(210*time.Minute, builtin.Command{Do: "resume"}),
		at(220*time.Minute, builtin.Command{Do: "backfill", From: begin.Add(-2 * time.Hour), To: begin.Add(time.Hour)}),
		at(230*time.Minute, builtin.Command{Do: "nonsense"}),
	)
	// The backfill covers 23:00, 00:00 and 01:00. The last one already has an instance, which is not started again.
	want(t, "started", got, []string{"1T01", "1T03:20:00Z", "2025-12-31T23", "1T00", "1T04"})
	if end.Done != 6 || end.Skipped != 1 {
		t.Errorf("%+v", end)
	}
	daily := hourly(func(s *builtin.Schedule) { s.Cron, s.Remaining = []string{"30 6 * * *"}, 1 }).Schedule
	got, _ = scheduled(t, hourly(func(*builtin.Schedule) {}), nil, at(30*time.Minute, builtin.Command{Do: "configure", Schedule: &daily}))
	want(t, "configured", got, []string{"1T06:30:00Z"})
}

// An outage: nothing runs from the creation until three days later.
func TestTimesOfAnOutageAreMadeUpForWithinTheCatchUpWindow(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*builtin.Schedule)
		want   []string
		missed uint64
	}{
		"an hour by default": {func(s *builtin.Schedule) { s.Remaining = 2 }, []string{"2025-12-31T23", "1T00"}, 70},
		"four hours":         {func(s *builtin.Schedule) { s.Remaining, s.CatchUp = 5, 144e11 }, []string{"2025-12-31T20", "2025-12-31T21", "2025-12-31T22", "2025-12-31T23", "1T00"}, 67},
		"at most two":        {func(s *builtin.Schedule) { s.Remaining, s.CatchUp, s.CatchUpMax = 2, 144e11, 2 }, []string{"2025-12-31T23", "1T00"}, 70},
	} {
		st := hourly(func(s *builtin.Schedule) { s.Overlap = builtin.BufferAll; c.change(s) })
		st.Since = time.Date(2025, 12, 29, 0, 0, 0, 0, time.UTC)
		got, end := scheduled(t, st, nil)
		want(t, name, got, c.want)
		if end.Missed != c.missed {
			t.Errorf("%s: %d missed, not %d", name, end.Missed, c.missed)
		}
	}
}

func TestScheduleStartsOrchestrationsAndSendsEvents(t *testing.T) {
	report := pawl.NewOrchestration[map[string]int, string]("report")
	tick := pawl.NewEvent[string]("tick")
	code := report.Do(func(_ *pawl.Context, in map[string]int) (string, error) { return fmt.Sprint(in["a"]), nil })
	e := pawltest.New(t, code)
	start := hourly(func(s *builtin.Schedule) {
		s.Run, s.Start = nil, &builtin.Start{Orchestration: "report", Input: []byte(`{"a":7}`)}
	})
	if _, err := pawltest.Run(e, builtin.Schedules, start); err != nil {
		t.Fatal(err)
	}
	if got, err := pawltest.Result(e.Of("test@2026-01-01T02:00:00Z"), report); got != "7" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	e = pawltest.New(t, code)
	send := hourly(func(s *builtin.Schedule) {
		s.Run, s.Send = nil, &builtin.Send{Instance: "clock", Event: "tick", Input: []byte(`"tock"`)}
	})
	if _, err := pawltest.Run(e, builtin.Schedules, send); err != nil {
		t.Fatal(err)
	}
	want(t, "sent", pawltest.SentTo(e, "clock", tick), []string{"tock", "tock", "tock"})
}

func TestConfigurationOfAScheduleIsChecked(t *testing.T) {
	for _, wrong := range []func(*builtin.Schedule){
		func(s *builtin.Schedule) { s.Cron = nil }, func(s *builtin.Schedule) { s.Run = nil }, func(s *builtin.Schedule) { s.Overlap = "x" },
		func(s *builtin.Schedule) { s.Send = &builtin.Send{Instance: "i", Event: "e"} }, func(s *builtin.Schedule) { s.Run.Activity = "a b" },
		func(s *builtin.Schedule) { s.Run, s.Start = nil, &builtin.Start{Orchestration: "pawl.batch"} },
		func(s *builtin.Schedule) { s.Overlap, s.PauseOnFailure = builtin.AllowAll, true }, func(s *builtin.Schedule) { s.Remaining = -1 },
	} {
		st := hourly(wrong)
		if st.Schedule.Check() == nil {
			t.Errorf("%+v is accepted", st.Schedule)
		}
	}
}
