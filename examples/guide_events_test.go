package examples

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/events.md.

var (
	Digest     = pawl.NewOrchestration[string, int]("digest")
	News       = pawl.NewEvent[string]("news")
	SendDigest = pawl.NewActivity[[]string, pawl.None]("send-digest")
)

func digest(ctx *pawl.Context, to string) (int, error) {
	first, err := News.Receive(ctx)
	if err != nil {
		return 0, err
	}
	if err := pawl.Sleep(ctx, time.Hour); err != nil { // further news may arrive
		return 0, err
	}
	others, err := News.Drain(ctx)
	if err != nil {
		return 0, err
	}
	letter := append([]string{to, first}, others...)
	_, err = SendDigest.Call(ctx, letter, pawl.Retry{})
	return len(letter) - 1, err
}

func reportUsage(ctx context.Context, c *client.Client, tenant, number string, u Usage) error {
	_, err := client.SendOrStart(ctx, c, Tenant, tenant, Account{}, Used, u, client.MessageID(number))
	return err
}

func TestGuideDigestHasTheNewsOfAnHour(t *testing.T) {
	env := pawltest.New(t, Digest.Do(digest), SendDigest.Do(func(context.Context, []string) (pawl.None, error) { return pawl.None{}, nil }))
	pawltest.Send(env.BeforeStart(), News, "snow")
	pawltest.Send(env.At(time.Minute), News, "more snow")
	pawltest.Send(env.At(59*time.Minute), News, "rain")
	pawltest.Send(env.At(61*time.Minute), News, "too late")
	if n, err := pawltest.Run(env, Digest, "Ada"); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestGuideEventsPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/events.md"), 5,
		doctest.Read(t, "guide_events_test.go", "parcels.go", "reminder.go", "tenant.go"))
}
