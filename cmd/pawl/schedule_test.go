package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/poll"
)

func TestScheduleIsCreatedChangedShownAndDeleted(t *testing.T) {
	double := pawl.NewActivity[int, int]("double", pawl.Queue("numbers"))
	nats := harness(t, fleets{activities: []pawl.ActivityBinding{double.Do(func(_ context.Context, n int) (int, error) { return 2 * n, nil })}})
	schedule := func(args ...string) []string { return append([]string{"schedule"}, append(args, "--nats", nats)...) }
	describe := func() (s api.Schedule) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, schedule("describe", "tick", "--json")...)), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}

	must(t, schedule("create", "tick", "--cron", "@every 1s", "--run", "double", "--queue", "numbers", "--input", "21", "--overlap", "buffer_all")...)
	poll.Until(t, time.Minute, "it runs jobs", func() bool { return describe().Done >= 2 })
	first := describe().Recent[0]
	if got := must(t, "get", first.Instance, "--wait", "--nats", nats); got != "42\n" || first.Instance != "tick@"+first.Time.Format(time.RFC3339) {
		t.Errorf("%q of %+v", got, first)
	}
	must(t, schedule("pause", "tick", "--note", "holiday")...)
	if got := must(t, schedule("describe", "tick")...); !strings.Contains(got, "paused") || !strings.Contains(got, "holiday") {
		t.Errorf("%s", got)
	}
	must(t, schedule("resume", "tick", "--note", "back")...)
	poll.Until(t, time.Minute, "it runs jobs again", func() bool { return describe().Done > 3 })
	poll.Until(t, time.Minute, "it is paused without a job that runs or waits, as after a stall of the machine", func() bool {
		must(t, schedule("pause", "tick")...)
		poll.Until(t, time.Minute, "its last job has ended", func() bool { return describe().Running == "" })
		if len(describe().Buffered) == 0 {
			return true
		}
		must(t, schedule("resume", "tick")...)
		return false
	})
	done := describe().Done
	must(t, schedule("trigger", "tick")...)
	if got := describe(); got.Done != done+1 || got.Recent[len(got.Recent)-1].Time.Truncate(time.Second).Equal(first.Time) {
		t.Errorf("%+v", got)
	}
	must(t, schedule("create", "tick", "--cron", "0 9 * * mon-fri", "--zone", "Europe/Zurich", "--run", "double", "--queue", "numbers", "--input", "21")...)
	if got := describe(); got.Done != done+1 || got.Next.IsZero() || got.Schedule.Zone != "Europe/Zurich" {
		t.Errorf("%+v", got)
	}
	must(t, schedule("backfill", "tick", "--from", "2026-11-01T00:00:00Z", "--to", "2026-11-03T23:00:00Z")...)
	poll.Until(t, time.Minute, "the backfill is done", func() bool { return describe().Done == done+3 })
	if got := must(t, "get", "tick@2026-11-03T08:00:00Z", "--wait", "--nats", nats); got != "42\n" {
		t.Errorf("%q", got)
	}
	if got := strings.Split(must(t, schedule("next", "tick", "--count", "3")...), "\n"); len(got) != 4 || !strings.Contains(got[0], " 09:00:00 CE") {
		t.Errorf("%q", got)
	}
	if got := must(t, schedule("list")...); !strings.Contains(got, "tick") || !strings.Contains(got, "run double") || !strings.Contains(got, "next ") {
		t.Errorf("%s", got)
	}
	must(t, schedule("delete", "tick")...)
	for _, args := range [][]string{{"describe", "tick"}, {"pause", "tick"}, {"delete", "tick"}, {"create", first.Instance, "--cron", "@daily", "--run", "double"}} {
		if code, _, errs := command(t, schedule(args...)...); code != 1 {
			t.Errorf("%q: %d, %s", args, code, errs)
		}
	}
}

func TestScheduleIsReadFromFlagsAndFiles(t *testing.T) {
	got := must(t, "schedule", "next", "--cron", "30 2 29 mar *", "--zone", "Europe/Zurich", "--until", "2026-12-31T00:00:00Z", "--json")
	if got != "" { // of 2026 it is over
		t.Errorf("%q", got)
	}
	got = must(t, "schedule", "next", "--cron", "0 12 1 1 *", "--count", "2")
	if lines := strings.Split(strings.TrimSpace(got), "\n"); len(lines) != 2 || !strings.HasSuffix(lines[1], "-01-01 12:00:00 UTC") {
		t.Errorf("%q", got)
	}
	file := filepath.Join(t.TempDir(), "schedule.yaml")
	if err := os.WriteFile(file, []byte("calendars: [{day: L, hour: 9}]\nstart: {orchestration: report, input: {a: 1}}\ncatch_up: 2h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := (&scheduleCreateCmd{File: file}).config()
	if err == nil {
		err = config.Check()
	}
	if err == nil || !strings.Contains(err.Error(), "hour") { // a number where a text belongs
		t.Errorf("%+v, %v", config, err)
	}
	if err := os.WriteFile(file, []byte("calendars: [{day: L, hour: '9'}]\nstart: {orchestration: report, input: {a: 1}}\ncatch_up: 2h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if config, err = (&scheduleCreateCmd{File: file}).config(); err != nil || config.Check() != nil || string(config.Start.Input) != `{"a":1}` || config.CatchUp.Std() != 2*time.Hour {
		t.Errorf("%+v, %v", config, err)
	}
	create := []string{"schedule", "create", "s"}
	for _, wrong := range [][]string{
		{}, {"--cron", "x", "--run", "a"}, {"--cron", "@daily"}, {"--cron", "@daily", "--run", "a", "--start", "b"}, {"--cron", "@daily", "--send", "a"},
		{"--cron", "@daily", "--run", "a", "--overlap", "x"}, {"--cron", "@daily", "--run", "a", "--zone", "Mars"},
	} {
		if code, _, errs := command(t, slices.Concat(create, wrong)...); code != 2 {
			t.Errorf("%q: code %d, %s", wrong, code, errs)
		}
	}
}
