package examples

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// The code of docs/guide/fleets.md.

// The handles that two teams share.
var (
	Checkout = pawl.NewOrchestration[int, string]("checkout") // of the shop
	Billing  = pawl.NewOrchestration[int, string]("billing")  // of the accountants
)

// checkout is the code of the shop.
func checkout(ctx *pawl.Context, cents int) (string, error) {
	number, err := Billing.Call(ctx, cents) // a child whose code the shop does not have
	return "paid by " + number, err
}

// startShop runs in the processes of the shop.
func startShop(ctx context.Context, nc *nats.Conn, rdb redis.UniversalClient) (*orchestrator.Orchestrator, error) {
	o, err := orchestrator.New(orchestrator.Config{NATS: nc, Redis: rdb}, Checkout.Do(checkout))
	if err != nil {
		return nil, err
	}
	return o, o.Start(ctx)
}

// startBilling runs in the processes of the accountants.
func startBilling(ctx context.Context, nc *nats.Conn, rdb redis.UniversalClient) (*orchestrator.Orchestrator, error) {
	o, err := orchestrator.New(orchestrator.Config{NATS: nc, Redis: rdb}, Billing.Do(issue))
	if err != nil {
		return nil, err
	}
	return o, o.Start(ctx)
}

func issue(*pawl.Context, int) (string, error) { return "invoice 7", nil }

func TestGuideFleetsWithDifferentCodeShareANamespace(t *testing.T) {
	t.Parallel()
	fleet := integration.Start(t)
	for _, start := range []func(context.Context, *nats.Conn, redis.UniversalClient) (*orchestrator.Orchestrator, error){startShop, startBilling} {
		o, err := start(t.Context(), fleet.NATS, fleet.Redis)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.Stop(context.Background()) })
	}
	run, err := client.Start(t.Context(), fleet.Client, Checkout, "c-1", 4900)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Result(t.Context()); got != "paid by invoice 7" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestGuideFleetsShowsThisCode(t *testing.T) {
	t.Parallel()
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/fleets.md"), 3, doctest.Read(t, "guide_fleets_test.go"))
}
