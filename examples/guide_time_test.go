package examples

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
)

// The code of docs/guide/time.md.

var (
	Nightly = pawl.NewOrchestration[int, pawl.None]("nightly")
	BackUp  = pawl.NewActivity[time.Time, pawl.None]("back-up")
)

const day = 24 * time.Hour

func nightly(ctx *pawl.Context, nights int) (pawl.None, error) {
	now := pawl.Now(ctx)
	night := now.Add(-2 * time.Hour).Truncate(day).Add(day + 2*time.Hour) // the next 02:00 UTC
	if err := pawl.Sleep(ctx, night.Sub(now)); err != nil {
		return pawl.None{}, err
	}
	if _, err := BackUp.Call(ctx, night, pawl.Retry{Attempts: 10}, pawl.Within(3*time.Hour)); err != nil {
		if errors.Is(err, context.Canceled) {
			return pawl.None{}, err
		}
		pawl.Logger(ctx).Error("no backup tonight", "night", night, "error", err)
	}
	return Nightly.ContinueAsNew(ctx, nights+1)
}

func book(ctx *pawl.Context, until time.Time) (string, error) {
	confirmed, deadline := Confirmed.Next(ctx), pawl.After(ctx, until.Sub(pawl.Now(ctx)))
	first, err := pawl.Select(ctx, confirmed, deadline)
	switch {
	case err != nil:
		return "", err
	case first == deadline:
		return "expired", nil
	default:
		return "booked", nil
	}
}

var Booking = pawl.NewOrchestration[time.Time, string]("book")

func TestGuideBookingExpiresAtItsDate(t *testing.T) {
	until := time.Date(2026, time.January, 3, 12, 0, 0, 0, time.UTC)
	env := pawltest.New(t, Booking.Do(book))
	if got, err := pawltest.Run(env, Booking, until); got != "expired" || err != nil || !env.Now().Equal(until) {
		t.Errorf("%q, %v, at %s", got, err, env.Now())
	}
	env = pawltest.New(t, Booking.Do(book))
	pawltest.Send(env.At(60*time.Hour-time.Millisecond), Confirmed, pawl.None{})
	if got, err := pawltest.Run(env, Booking, until); got != "booked" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestGuideBackupRunsAtTwoEveryNight(t *testing.T) {
	env := pawltest.New(t, Nightly.Do(nightly), BackUp.Do(func(context.Context, time.Time) (pawl.None, error) { return pawl.None{}, nil }))
	env.Script(BackUp, pawltest.Succeed().After(time.Hour), pawltest.Never()) // no backup ends in the second night
	env.At(4*day).Cancel("Ada", "enough")
	if _, err := pawltest.Run(env, Nightly, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	env.Execution(1).WantLines("TimerFired", "ActivityScheduled back-up", "ContinuedAsNew 1")
	env.Execution(2).WantLines("for 2026-01-02 02:00:00", "ContinuedAsNew 2")
	env.WantLines("Started nightly 4", "for 2026-01-05 02:00:00", "Cancelled")
}

func TestGuideTimePageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/time.md"), 2, doctest.Read(t, "guide_time_test.go"))
}
