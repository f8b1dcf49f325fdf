package pawl_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestBindingOverridesTheGracePeriodOfTheWorker(t *testing.T) {
	b := pawl.NewActivity[pawl.None, pawl.None]("a").Do(func(context.Context, pawl.None) (pawl.None, error) { return pawl.None{}, nil })
	for want, b := range map[time.Duration]pawl.ActivityBinding{
		pawl.DefaultGrace: b, time.Minute: b.WithGrace(time.Minute), 0: b.WithGrace(-time.Second),
	} {
		if got := author.ActivityOf(b).GracePeriod(pawl.DefaultGrace); got != want {
			t.Errorf("%s, not %s", got, want)
		}
		if _, failure := author.ActivityOf(b).Handle(context.Background(), history.Payload{}); failure != nil { // outside a worker
			t.Fatal(failure)
		}
	}
}

func TestGracePeriodExpiresOnceAndNeverOutsideAnActivity(t *testing.T) {
	ctx, expire := author.WithGracePeriod(context.Background())
	select {
	case <-pawl.GraceExpired(ctx):
		t.Fatal("expired at once")
	default:
	}
	expire()
	expire()
	<-pawl.GraceExpired(ctx)
	if pawl.GraceExpired(context.Background()) != nil {
		t.Fatal("a grace period without an activity")
	}
}
