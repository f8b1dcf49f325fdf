package examples

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/doctest"
	"github.com/pawlrun/pawl/pawltest/integration"
	"github.com/pawlrun/pawl/pkg/client"
)

// The code of docs/guide/batches.md.

// retryDeclined retries the orders that the bank has declined, at most 200 per second, and waits until all requests are sent.
func retryDeclined(ctx context.Context, c *client.Client) (sent uint64, _ error) {
	batch, err := c.StartBatch(ctx, "retry-declined", client.Batch{
		Verb: client.BatchRetry, Where: `code = declined and ended > -2h`, Rate: 200, Reason: "the bank is up",
	})
	if err != nil {
		return 0, err
	}
	st, err := batch.Result(ctx)
	return st.Sent, err
}

func TestGuideBatchRetriesWhatTheBankHasDeclined(t *testing.T) {
	t.Parallel()
	declined := pawl.NewError("declined")
	var bankIsUp atomic.Bool
	charge := pawl.NewActivity[int, int]("charge")
	pay := pawl.NewOrchestration[int, int]("pay")
	fleet := integration.Start(t, pay.Do(func(ctx *pawl.Context, n int) (int, error) {
		return charge.Call(ctx, n)
	}), charge.Do(func(_ context.Context, n int) (int, error) {
		if !bankIsUp.Load() {
			return 0, declined
		}
		return n, nil
	}))
	runs := make([]*client.Instance[int], 3)
	for i, id := range []string{"p-1", "p-2", "p-3"} {
		var err error
		if runs[i], err = client.Start(t.Context(), fleet.Client, pay, id, i); err != nil {
			t.Fatal(err)
		}
		if _, err := runs[i].Result(t.Context()); !errors.Is(err, declined) {
			t.Fatal(err)
		}
	}
	bankIsUp.Store(true)
	if sent, err := retryDeclined(t.Context(), fleet.Client); sent != 3 || err != nil {
		t.Errorf("%d, %v", sent, err)
	}
	for _, run := range runs {
		for st := client.Running; st != client.Completed; {
			d, err := fleet.Client.Describe(t.Context(), run.ID())
			if err != nil {
				t.Fatal(err)
			}
			st = d.Status
		}
	}
}

func TestGuideBatchesPageShowsThisCode(t *testing.T) {
	doctest.RequireShown(t, doctest.Read(t, "../docs/guide/batches.md"), 1, doctest.Read(t, "guide_batches_test.go"))
}
