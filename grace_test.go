package pawl_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestAnActivityIsToldItsGraceAndABindingHasOneOfItsOwn(t *testing.T) {
	tell := func(b func(pawl.ActivityBinding) pawl.ActivityBinding) (told time.Duration, leash *pawl.Leash) {
		binding := b(pawl.NewActivity[pawl.None, pawl.None]("a").Do(func(ctx context.Context, _ pawl.None) (pawl.None, error) {
			told = pawl.Info(ctx).Grace
			if pawl.Info(ctx).Name != "a" {
				t.Error("the rest of the info is lost")
			}
			return pawl.None{}, nil
		}))
		ctx, leash := pawl.WithLeash(pawl.WithInfo(context.Background(), pawl.ActivityInfo{Name: "a", Grace: pawl.DefaultGrace}))
		if _, failure := binding.Handle(ctx, history.Payload{}); failure != nil {
			t.Fatal(failure)
		}
		return told, leash
	}
	for want, b := range map[time.Duration]func(pawl.ActivityBinding) pawl.ActivityBinding{
		pawl.DefaultGrace: func(b pawl.ActivityBinding) pawl.ActivityBinding { return b },
		time.Minute:       func(b pawl.ActivityBinding) pawl.ActivityBinding { return b.WithGrace(time.Minute) },
		0:                 func(b pawl.ActivityBinding) pawl.ActivityBinding { return b.WithGrace(-time.Second) },
	} {
		if told, leash := tell(b); told != want || leash.Grace() != want {
			t.Errorf("told %s, the worker %s; want %s", told, leash.Grace(), want)
		}
	}
}

func TestTheEndOfTheGraceIsToldOnceAndOutsideAnActivityNever(t *testing.T) {
	ctx, leash := pawl.WithLeash(context.Background())
	select {
	case <-pawl.GraceOver(ctx):
		t.Fatal("over at once")
	default:
	}
	leash.Cut()
	leash.Cut()
	<-pawl.GraceOver(ctx)
	if pawl.GraceOver(context.Background()) != nil {
		t.Fatal("there is a grace without an activity")
	}
	// A binding outside a worker, as in the test of an activity's function, runs as ever.
	b := pawl.NewActivity[pawl.None, pawl.None]("a").Do(func(context.Context, pawl.None) (pawl.None, error) { return pawl.None{}, nil })
	if _, failure := b.WithGrace(time.Second).Handle(context.Background(), history.Payload{}); failure != nil {
		t.Fatal(failure)
	}
}
