package examples

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// A payment provider accepts two concurrent debits per tenant, and ten per second. The activity is therefore limited per tenant: calls
// over the limit wait in order, on whatever machine of the fleet they run. A tenant with more bills than may wait gets an error, without
// affecting other tenants.
var (
	Bill  = pawl.NewOrchestration[Bills, Billed]("bill-tenant")
	Debit = pawl.NewActivity[Amount, string]("debit",
		pawl.Concurrency(2), pawl.Rate(10, time.Second), pawl.KeyBy("tenant"),
		pawl.QueueLimit(1000), pawl.QueueTimeout(30*time.Minute))
)

// Bills are the open bills of a tenant.
type Bills struct {
	Tenant string `json:"tenant"`
	Cents  []int  `json:"cents"` // amount of each bill
}

// Amount is the amount of one debit from a tenant.
type Amount struct {
	Tenant string `json:"tenant"`
	Cents  int    `json:"cents"`
}

// Billed is the result of charging the bills.
type Billed struct {
	Cents    int   `json:"cents"`              // total amount charged
	Deferred []int `json:"deferred,omitempty"` // amounts of the bills that are deferred to the next night
}

func bill(ctx *pawl.Context, in Bills) (Billed, error) {
	debits := make([]*pawl.Future[string], len(in.Cents))
	for i, cents := range in.Cents { // all at once: the limit admits them in order
		debits[i] = Debit.Start(ctx, Amount{Tenant: in.Tenant, Cents: cents},
			pawl.Retry{}, pawl.KeepSlot(), // a refusal can only come before the first attempt
			pawl.AttemptTimeout(time.Minute))
	}
	var out Billed
	for i, debit := range debits {
		_, err := debit.Get(ctx)
		switch {
		case errors.Is(err, pawl.ErrQueueFull), errors.Is(err, pawl.ErrQueueTimeout): // never begun: nothing was taken
			out.Deferred = append(out.Deferred, in.Cents[i])
		case err != nil:
			return out, fmt.Errorf("bill %d of %s: %w", i+1, in.Tenant, err)
		default:
			out.Cents += in.Cents[i]
		}
	}
	return out, nil
}

func debit(ctx context.Context, a Amount) (string, error) {
	return fmt.Sprintf("%s-%s", a.Tenant, pawl.Info(ctx).Key), nil
}
