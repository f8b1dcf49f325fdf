package pawl_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
)

// The code of docs/guide/siblings-and-scopes.md.

type Stop struct{ City string }

var (
	Trip   = pawl.NewOrchestration[[]string, []string]("book-trip")
	Hotel  = pawl.NewActivity[string, string]("book-hotel")
	Train  = pawl.NewActivity[string, string]("book-train")
	Refund = pawl.NewActivity[string, pawl.None]("refund")
	Change = pawl.NewEvent[Stop]("change-of-plan")
)

func bookTrip(ctx *pawl.Context, cities []string) ([]string, error) {
	var booked []string
	watch := pawl.Go(ctx, func(ctx *pawl.Context) (string, error) {
		change, err := Change.Receive(ctx)
		return change.City, err
	})
	for _, city := range cities {
		both, err := bookCity(ctx, city)
		if err != nil {
			return booked, err
		}
		booked = append(booked, both...)
	}
	if watch.Ready() {
		city, err := watch.Get(ctx)
		return append(booked, "instead: "+city), err
	}
	watch.Cancel("the trip is booked")
	return booked, nil
}

func bookCity(ctx *pawl.Context, city string) (booked []string, err error) {
	err = pawl.Scope(ctx, func(ctx *pawl.Context) (err error) {
		defer func() {
			for _, b := range booked {
				if err != nil { // also when the trip is cancelled
					_, undone := Refund.Call(pawl.Detach(ctx), b)
					err = errors.Join(err, undone)
				}
			}
		}()
		hotel, train := Hotel.Start(ctx, city), Train.Start(ctx, city)
		for _, f := range []*pawl.Future[string]{hotel, train} {
			b, err := f.Get(ctx)
			if err != nil {
				return err // the other one is cancelled: the scope ends here
			}
			booked = append(booked, b)
		}
		return nil
	})
	return booked, err
}

// bookInTurn books one after the other, and undoes what it has booked if it fails or is cancelled.
func bookInTurn(ctx *pawl.Context, city string) (booked []string, err error) {
	var undo pawl.Compensations
	defer undo.Run(ctx, &err)
	for _, book := range []pawl.Activity[string, string]{Hotel, Train} {
		b, err := book.Call(ctx, city)
		if err != nil {
			return nil, err
		}
		booked = append(booked, b)
		undo.Add(func(ctx *pawl.Context) error {
			_, err := Refund.Call(ctx, b, pawl.Retry{})
			return err
		})
	}
	return booked, nil
}

func bookAll(ctx *pawl.Context, cities []string) ([]string, error) {
	var booked []string
	free, left := 2, len(cities) // two at a time
	for _, city := range cities {
		pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
			defer func() { left-- }()
			if err := pawl.Await(ctx, func() bool { return free > 0 }); err != nil {
				return pawl.None{}, err
			}
			free--
			defer func() { free++ }()
			both, err := bookCity(ctx, city)
			booked = append(booked, both...)
			return pawl.None{}, err
		})
	}
	err := pawl.Await(ctx, func() bool { return left == 0 })
	return booked, err
}

func bookQuickly(ctx *pawl.Context, cities []string) ([]string, error) {
	hotels, err := pawl.MapOrFail(ctx, 10, cities, func(ctx *pawl.Context, city string) (string, error) {
		return Hotel.Call(ctx, city)
	})
	if err != nil {
		return nil, err // the first error; the other calls were cancelled
	}
	train, i, err := pawl.First(ctx, Train.Start(ctx, cities[0]), Train.Start(ctx, cities[1]))
	if err != nil {
		return nil, err
	}
	pawl.Logger(ctx).Info("booked", "first", cities[i])
	return append(hotels, train), nil
}

func trips(t *testing.T, code func(*pawl.Context, []string) ([]string, error)) *pawltest.Env {
	t.Helper()
	greet := func(what string) func(context.Context, string) (string, error) {
		return func(_ context.Context, city string) (string, error) { return what + " in " + city, nil }
	}
	return pawltest.New(t, Trip.Do(code), Hotel.Do(greet("hotel")), Train.Do(greet("train")),
		Refund.Do(func(context.Context, string) (pawl.None, error) { return pawl.None{}, nil }))
}

func TestGuideTripIsBooked(t *testing.T) {
	env := trips(t, bookTrip)
	pawltest.Send(env.BeforeStart(), Change, Stop{City: "Bern"})
	got, err := pawltest.Run(env, Trip, []string{"Ulm", "Jena"})
	if err != nil || strings.Join(got, ", ") != "hotel in Ulm, train in Ulm, hotel in Jena, train in Jena, instead: Bern" {
		t.Errorf("%q, %v", got, err)
	}
	got, err = pawltest.Run(trips(t, bookTrip), Trip, []string{"Ulm"})
	if err != nil || len(got) != 2 {
		t.Errorf("%q, %v", got, err)
	}
	got, err = pawltest.Run(trips(t, bookAll), Trip, []string{"Ulm", "Jena", "Bern"})
	if err != nil || len(got) != 6 {
		t.Errorf("%q, %v", got, err)
	}
	got, err = pawltest.Run(trips(t, bookQuickly), Trip, []string{"Ulm", "Jena"})
	if err != nil || strings.Join(got, ", ") != "hotel in Ulm, hotel in Jena, train in Ulm" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestGuideTripIsRefundedIfItCannotBeBooked(t *testing.T) {
	env := trips(t, bookTrip)
	env.Script(Train, pawltest.Fail(errors.New("no trains")).After(time.Minute))
	if _, err := pawltest.Run(env, Trip, []string{"Ulm"}); err == nil || err.Error() != "no trains" {
		t.Errorf("%v", err)
	}
	env.WantLines(`ActivityFailed of 3 on test no trains`, `ActivityScheduled refund "hotel in Ulm"`, "Failed")
}

func TestGuideTripThatFailsIsRefundedInReverseOrder(t *testing.T) {
	trip := pawl.NewOrchestration[string, []string]("trip")
	var refunded []string
	name := func(what string) func(context.Context, string) (string, error) {
		return func(_ context.Context, city string) (string, error) { return what + " in " + city, nil }
	}
	env := pawltest.New(t, trip.Do(bookInTurn), Hotel.Do(name("hotel")), Train.Do(name("train")), Refund.Do(func(_ context.Context, b string) (pawl.None, error) {
		refunded = append(refunded, b)
		return pawl.None{}, nil
	}))
	env.Script(Train, pawltest.Fail(errors.New("no seat")))
	if _, err := pawltest.Run(env, trip, "Rome"); err == nil || !slices.Equal(refunded, []string{"hotel in Rome"}) {
		t.Errorf("%v, refunded %q", err, refunded)
	}
}

func TestGuideSiblingsCodeIsCompiled(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "docs/guide/siblings-and-scopes.md"), 4, doctest.Read(t, "guide_test.go"))
}
