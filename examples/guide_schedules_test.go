package examples

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/schedules.md.

var Dump = pawl.NewActivity[string, pawl.None]("dump-database", pawl.Concurrency(1))

// createNightly creates the schedule, or changes it to this.
func createNightly(ctx context.Context, c *client.Client) error {
	job, err := client.NewJob(Dump, "orders", client.Retry(pawl.Retry{Attempts: 5}))
	if err != nil {
		return err
	}
	return c.CreateSchedule(ctx, "nightly", client.Schedule{
		Times: client.Times{
			Cron:   []string{"0 2 * * *"},
			Except: []client.Calendar{{Day: "24-26", Month: "dec"}},
			Zone:   "Europe/Zurich",
		},
		Run:            job,
		Overlap:        client.OverlapBufferOne,
		CatchUp:        client.Duration(6 * time.Hour),
		PauseOnFailure: true,
	})
}

func TestGuideScheduleIsCreatedAndChanged(t *testing.T) {
	nc, rdb := servers(t)
	stop := orchestrate(t, nc, rdb)
	c := connect(t, nc)
	for range 2 {
		if err := createNightly(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		stop() // another orchestrator continues it
		stop = orchestrate(t, nc, rdb)
	}
	s, err := c.DescribeSchedule(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if j := s.Schedule.Run; string(j.Input) != `"orders"` || j.Retry.Attempts != 5 || j.Limits.Action.Concurrency != 1 || s.Schedule.CatchUp.Std() != 6*time.Hour {
		t.Errorf("%+v", j)
	}
	zone, err := time.LoadLocation("Europe/Zurich")
	if next := s.Next.In(zone); err != nil || next.Hour() != 2 || next.Minute() != 0 || !next.After(time.Now()) || s.Done != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := c.PauseSchedule(t.Context(), "nightly", "holiday"); err != nil {
		t.Fatal(err)
	}
	if s, err = c.DescribeSchedule(t.Context(), "nightly"); err != nil || !s.Schedule.Paused || s.Schedule.Note != "holiday" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := c.DeleteSchedule(t.Context(), "nightly"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DescribeSchedule(t.Context(), "nightly"); !errors.Is(err, client.ErrNoSchedule) {
		t.Errorf("%v", err)
	}
}

func TestGuideSchedulesPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/schedules.md"), 1, doctest.Read(t, "guide_schedules_test.go"))
}
