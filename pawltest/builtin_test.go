package pawltest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
)

var (
	report = pawl.NewOrchestration[string, string]("report")
	render = pawl.NewActivity[string, string]("render", pawl.Concurrency(1))
	signed = pawl.NewEvent[string]("signed")
	unit   = pawl.NewAttribute[string]("unit")

	errInk = pawl.NewError("no-ink")
)

// reported renders a page, and waits until it is signed.
func reported(ctx *pawl.Context, of string) (string, error) {
	if err := unit.Set(ctx, of); err != nil {
		return "", err
	}
	page, err := render.Call(ctx, of)
	if err != nil {
		return "", err
	}
	by, err := signed.Receive(ctx)
	return page + " signed by " + by, err
}

// office binds reports and an activity that counts its runs by input.
func office(tb testing.TB, ran map[string]int) *pawltest.Env {
	tb.Helper()
	return pawltest.New(tb, report.Do(reported), render.Do(func(_ context.Context, of string) (string, error) {
		ran[of]++
		if of == "ink" && ran[of] == 1 {
			return "", pawl.Permanent(errInk)
		}
		return "page " + of, nil
	}))
}

// Parallel tests may share a slice of bindings.
func TestEnvDoesNotWriteIntoTheBindingsOfItsCaller(t *testing.T) {
	t.Parallel()
	shared := make([]pawl.Binding, 8)
	pawltest.New(t, shared[:0]...)
	if shared[0] != nil {
		t.Errorf("the Env has written %v", shared[0])
	}
}

func TestScheduleActsInVirtualTime(t *testing.T) {
	ran := map[string]int{}
	env := office(t, ran)
	job, err := client.NewJob(render, "books", client.Retry(pawl.Retry{Attempts: 2}))
	if err != nil {
		t.Fatal(err)
	}
	closing := env.BeforeStart().To("closing")
	closing.CreateSchedule(client.Schedule{
		Times: client.Times{Calendars: []client.Calendar{{Day: "L", Hour: "17"}}, Zone: "Europe/Zurich"}, Run: job, CatchUp: client.Duration(2 * time.Hour),
	})
	env.At(40 * 24 * time.Hour).To("closing").PauseSchedule("stocktaking")
	env.At(70 * 24 * time.Hour).To("closing").ResumeSchedule("")
	env.At(80 * 24 * time.Hour).To("closing").TriggerSchedule()
	env.At(81*24*time.Hour).To("closing").BackfillSchedule(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	env.At(75 * 24 * time.Hour).Crash()
	env.At(50 * 24 * time.Hour).Do(func() {
		if s := env.Schedule("closing"); !s.Schedule.Paused || s.Schedule.Note != "stocktaking" {
			t.Errorf("%+v", s)
		}
	})
	env.Advance(100 * 24 * time.Hour)
	want := []string{
		"closing", "closing@2026-01-31T16:00:00Z", "closing@2026-03-22T00:00:00Z", "closing@2026-02-28T16:00:00Z", "closing@2026-03-31T15:00:00Z",
	}
	if got := env.Instances(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	s := env.Schedule("closing")
	if s.Done != 4 || s.Failed+s.Missed+s.Skipped != 0 || ran["books"] != 4 || !s.Next.Equal(time.Date(2026, 4, 30, 15, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", s, ran)
	}
	if page, err := pawltest.JobResult(env.Of("closing@2026-01-31T16:00:00Z"), render); page != "page books" || err != nil {
		t.Errorf("%q, %v", page, err)
	}
}

func TestScheduleIsReconfiguredAndDeleted(t *testing.T) {
	env := office(t, map[string]int{})
	start, err := client.NewScheduleStart(report, "night")
	if err != nil {
		t.Fatal(err)
	}
	tick, err := client.NewScheduleSend(signed, "nightly@2026-01-02T02:00:00Z", "the clock")
	if err != nil {
		t.Fatal(err)
	}
	env.BeforeStart().To("nightly").CreateSchedule(client.Schedule{Times: client.Times{Cron: []string{"0 1 * * *"}}, Start: start})
	env.BeforeStart().To("clock").CreateSchedule(client.Schedule{Times: client.Times{Cron: []string{"0 3 * * *"}}, Send: tick})
	env.At(12 * time.Hour).To("nightly").CreateSchedule(client.Schedule{
		Times: client.Times{Cron: []string{"0 2 * * *"}}, Start: start, Overlap: client.OverlapAllowAll,
	})
	env.At(50 * time.Hour).To("nightly").Purge(true)
	env.Advance(120 * time.Hour)
	var got []string
	for _, id := range env.Instances() {
		if _, at, fired := strings.Cut(id, "@"); fired {
			got = append(got, at)
		}
	}
	if want := []string{"2026-01-01T01:00:00Z", "2026-01-02T02:00:00Z", "2026-01-03T02:00:00Z"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if text, err := pawltest.Result(env.Of("nightly@2026-01-02T02:00:00Z"), report); text != "page night signed by the clock" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func TestJobWaitsForItsDelayAndAtTheLimitOfItsHandle(t *testing.T) {
	ran := map[string]int{}
	env := office(t, ran)
	env.Script(render, pawltest.Succeed().After(20*time.Minute).Times(0))
	for i, id := range []string{"job-1", "job-2"} {
		job, err := client.NewJob(render, id, client.After(time.Duration(i)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		env.BeforeStart().To(id).RunJob(job)
	}
	env.At(30 * time.Minute).Do(func() {
		if ran["job-1"] != 1 || ran["job-2"] != 0 { // it holds the slot, and is not due yet
			t.Error(ran)
		}
	})
	env.At(31*time.Minute).To("job-2").Cancel("ada", "not needed")
	env.Advance(time.Hour)
	if page, err := pawltest.JobResult(env.Of("job-1"), render); page != "page job-1" || err != nil {
		t.Errorf("%q, %v", page, err)
	}
	if _, err := pawltest.JobResult(env.Of("job-2"), render); !errors.Is(err, context.Canceled) || ran["job-2"] != 0 {
		t.Errorf("%v, %v", err, ran)
	}
}

func TestBatchReachesTheInstancesOfItsFilterOnceOverCrashes(t *testing.T) {
	for turn := 0; ; turn++ {
		env := office(t, map[string]int{})
		if turn > 0 {
			env.CrashAfter(turn)
		}
		for i := range 7 {
			pawltest.Start(env.BeforeStart().To(fmt.Sprint("r-", i)), report, []string{"north", "south"}[i%2])
		}
		env.At(time.Hour).To("b-1").StartBatch(client.Batch{
			Verb: client.BatchEvent, Where: "orchestration = report and unit = north and started < -30m", Rate: 2, Event: signed.Name(), Data: []byte(`"all"`),
		})
		env.At(2 * time.Hour).To("b-2").StartBatch(client.Batch{Verb: client.BatchCancel, All: true, Reason: "closing time"})
		env.Advance(3 * time.Hour)
		if b := env.Batch("b-1"); b.Sent != 4 || b.Skipped != 0 {
			t.Errorf("%+v", b)
		}
		if b := env.Batch("b-2"); b.Sent != 3 {
			t.Errorf("%+v", b)
		}
		for i := range 7 {
			id := fmt.Sprint("r-", i)
			text, err := pawltest.Result(env.Of(id), report)
			if i%2 == 0 && (text != "page north signed by all" || err != nil) || i%2 == 1 && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %q, %v", id, text, err)
			}
			if unread := pawltest.Unread(env.Of(id), signed); len(unread) != 0 {
				t.Errorf("%s was sent %q as well", id, unread)
			}
		}
		if env.Turns() < turn || t.Failed() {
			break
		}
	}
}

// An instance exported from one run continues in another with corrected code, and repeats no activity that has a result.
func TestImportContinuesAnExportWithOtherCode(t *testing.T) {
	var exported []byte
	first := office(t, map[string]int{})
	first.At(time.Hour).Do(func() { exported = first.Export() })
	pawltest.Send(first.At(2*time.Hour), signed, "ada")
	if _, err := pawltest.Run(first, report, "north"); err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	env := office(t, ran)
	r := env.BeforeStart().To("r-1")
	r.Import(exported)
	env.At(time.Hour).To("r-1").Retry("bob", "mended")
	pawltest.Send(env.At(2*time.Hour).To("r-1"), signed, "bob")
	env.Advance(3 * time.Hour)
	if text, err := pawltest.Result(env.Of("r-1"), report); text != "page north signed by bob" || err != nil || len(ran) != 0 {
		t.Errorf("%q, %v, %v", text, err, ran)
	}
}

func TestInvalidOperationFailsTheTest(t *testing.T) {
	for what, do := range map[string]func(m pawltest.Moment){
		"schedule s": func(m pawltest.Moment) { m.CreateSchedule(client.Schedule{}) },
		"batch s":    func(m pawltest.Moment) { m.StartBatch(client.Batch{Verb: client.BatchCancel}) },
		"import of":  func(m pawltest.Moment) { m.Import([]byte("{}")) },
		"job of":     func(m pawltest.Moment) { m.RunJob(&client.Job{}) },
	} {
		if output := outputOf(t, func(tb testing.TB) { do(office(tb, nil).BeforeStart().To("s")) }); !strings.Contains(output, what) {
			t.Errorf("%s: %q", what, output)
		}
	}
}

func TestBatchReachesStalledInstances(t *testing.T) {
	env := pawltest.New(t, counter.Do(func(ctx *pawl.Context, n int) (int, error) {
		return counter.ContinueAsNew(ctx, n, pawl.Version("2"))
	}, pawl.Version("1")), report.Do(func(ctx *pawl.Context, _ string) (string, error) { return signed.Receive(ctx) }))
	pawltest.Start(env.At(time.Minute).To("c-1"), counter, 1) // version 2 is not bound
	pawltest.Start(env.At(time.Minute).To("r-1"), report, "north")
	env.At(time.Hour).To("b-1").StartBatch(client.Batch{Verb: client.BatchTerminate, Where: "stalled = true"})
	env.At(2 * time.Hour).Deploy(counter.Do(func(_ *pawl.Context, n int) (int, error) { return n, nil }, pawl.Version("2"))) // after the batch
	env.Advance(2 * time.Hour)
	if b := env.Batch("b-1"); b.Sent != 1 {
		t.Errorf("%+v", b)
	}
	if _, err := pawltest.Result(env.Of("c-1"), counter); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
