package examples

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/worker"
)

// The code of docs/guide/jobs.md.

var Refund = pawl.NewActivity[Order, Receipt]("refund-order", pawl.Concurrency(10), pawl.KeyBy("id"))

// refund repays an order on the next day.
func refund(ctx context.Context, c *client.Client, o Order, delay time.Duration) (*client.Instance[Receipt], error) {
	return client.Run(ctx, c, Refund, "refund-"+o.ID, o,
		client.After(delay), client.Retry(pawl.Retry{Attempts: 10}), client.AttemptTimeout(30*time.Second))
}

func receiptOf(ctx context.Context, c *client.Client, order string) (Receipt, error) {
	return client.AttachJob(c, Refund, "refund-"+order).Result(ctx)
}

func TestGuideJobsRunOnceByIDAndCanBeCancelled(t *testing.T) {
	nc, rdb := servers(t)
	orchestrate(t, nc, rdb) // without an orchestration
	c := connect(t, nc)
	w, err := worker.New(worker.Config{NATS: nc, Redis: rdb}, Refund.Do(func(ctx context.Context, o Order) (Receipt, error) {
		if o.ID == "blocked" {
			<-ctx.Done()
			return Receipt{}, context.Cause(ctx)
		}
		return Receipt{Order: o.ID, Cents: o.Cents}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(context.Background()) })
	for _, cents := range []int64{990, 1} { // the second has no effect
		run, err := refund(t.Context(), c, Order{ID: "42", Cents: cents}, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(t.Context()); got.Cents != 990 || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if got, err := receiptOf(t.Context(), c, "42"); got.Order != "42" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for id, delay := range map[string]time.Duration{"blocked": 0, "late": time.Hour} {
		run, err := refund(t.Context(), c, Order{ID: id}, delay)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Cancel(t.Context(), run.ID(), "wrong customer"); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := client.Run(t.Context(), c, pawl.NewActivity[int, int]("a b"), "id", 1); !errors.Is(err, pawl.ErrBadName) {
		t.Errorf("%v", err)
	}
}

func TestGuideJobsPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/jobs.md"), 2, doctest.Read(t, "guide_jobs_test.go"))
}
