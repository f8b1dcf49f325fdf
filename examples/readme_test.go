package examples

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

func fulfilOrder(ctx *pawl.Context, o Order) (Receipt, error) {
	if _, err := Reserve.Call(ctx, o, pawl.Retry{Attempts: 5}); err != nil { // an activity, on any worker
		return Receipt{}, err
	}
	if _, err := Approved.Receive(ctx); err != nil { // waits for days, through restarts and deploys
		return Receipt{}, err
	}
	return Charge.Call(ctx, o, pawl.AttemptTimeout(30*time.Second))
}

func runOrchestrator(ctx context.Context, nc *nats.Conn, rdb redis.UniversalClient) error {
	o, err := orchestrator.New(orchestrator.Config{NATS: nc, Redis: rdb}, Fulfil.Do(fulfilOrder))
	if err != nil {
		return err
	}
	if err := o.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return o.Stop(context.WithoutCancel(ctx)) // hands its partitions over, in milliseconds
}

func runWorker(ctx context.Context, nc *nats.Conn, rdb redis.UniversalClient) error {
	w, err := worker.New(worker.Config{NATS: nc, Redis: rdb}, Reserve.Do(reserve), Release.Do(release), Charge.Do(charge))
	if err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return w.Stop(context.WithoutCancel(ctx)) // lets running activities finish
}

func order(ctx context.Context, nc *nats.Conn, o Order) (Receipt, error) {
	c, err := client.New(ctx, nc, client.Options{}) // NATS only
	if err != nil {
		return Receipt{}, err
	}
	defer c.Close()
	run, err := client.Start(ctx, c, Fulfil, o.ID, o) // a second start of the same id has no effect
	if err != nil {
		return Receipt{}, err
	}
	if err := client.Send(ctx, c, Approved, o.ID, Approval{By: "finance"}); err != nil {
		return Receipt{}, err
	}
	return run.Result(ctx)
}

// Every Go block of the README is in this package verbatim, so it compiles; the fleet test below runs it.
func TestReadmeCodeIsInExamples(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../README.md"), 5, doctest.Read(t, "order.go", "ratelimit.go", "readme_test.go"))
}

func TestReadmeFleetsFulfilOrdersAlsoFromPlainJSON(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), 5*soon)
	defer stop()
	nc, rdb := servers(t)
	fleets, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, run := range []func(context.Context, *nats.Conn, redis.UniversalClient) error{runOrchestrator, runWorker} {
		wg.Go(func() {
			if err := run(fleets, nc, rdb); err != nil {
				t.Error(err)
			}
		})
	}
	defer wg.Wait()
	defer end()

	c := connect(t, nc) // the orchestrator creates the namespace
	o := Order{ID: "order-41", Item: "lamp", Quantity: 1, Cents: 4900}
	if r, err := order(ctx, nc, o); err != nil || r.Order != o.ID || r.Cents != o.Cents {
		t.Fatal(r, err)
	}

	publish := func(subject, body string) {
		t.Helper()
		m, err := nc.RequestWithContext(ctx, subject, []byte(body))
		if err != nil || !strings.Contains(string(m.Data), `"seq"`) {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	publish("pawl.default.to.order-42.start.fulfil-order", `{"id":"order-42","item":"lamp","quantity":1,"cents":4900}`)
	publish("pawl.default.to.order-42.event.approved", `{"by":"finance"}`)
	run := client.Attach(c, Fulfil, "order-42")
	poll.Until(t, soon, "the order is fulfilled", func() bool {
		r, err := run.Result(ctx)
		if errors.Is(err, client.ErrNotFound) { // a start that is only published may not be visible yet
			return false
		}
		if err != nil || r.Order != "order-42" {
			t.Fatal(r, err)
		}
		return true
	})
}
