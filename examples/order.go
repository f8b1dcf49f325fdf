package examples

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// An order takes goods from the stock, waits for an approval, and charges a
// card; whatever goes wrong, also a cancellation, the goods go back.
var (
	Fulfil   = pawl.NewOrchestration[Order, Receipt]("fulfil-order")
	Reserve  = pawl.NewActivity[Order, Hold]("reserve-stock")
	Release  = pawl.NewActivity[Hold, pawl.None]("release-stock")
	Charge   = pawl.NewActivity[Order, Receipt]("charge-card", pawl.Queue("payments"))
	Approved = pawl.NewEvent[Approval]("approved")
)

// What may go wrong with an order.
var (
	ErrOutOfStock   = pawl.NewError("out-of-stock")
	ErrNotApproved  = pawl.NewError("not-approved")
	ErrCardDeclined = pawl.NewError("card-declined")
)

// Order is an order of a customer.
type Order struct {
	ID       string `json:"id"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"` // more than 100: out of stock
	Cents    int64  `json:"cents"`    // more than 100,000: the card is declined
}

// Hold is goods set aside.
type Hold struct {
	ID    string `json:"id"`
	Order string `json:"order"`
}

// Approval confirms an order.
type Approval struct {
	By string `json:"by"`
}

// Receipt is what the buyer gets.
type Receipt struct {
	ID    string `json:"id"`
	Order string `json:"order"`
	Cents int64  `json:"cents"`
}

func fulfil(ctx *pawl.Context, o Order) (_ Receipt, err error) {
	hold, err := Reserve.Call(ctx, o)
	if err != nil {
		return Receipt{}, fmt.Errorf("reserve %s: %w", o.ID, err)
	}
	defer func() {
		if err != nil { // also when the order is cancelled: Detach survives that
			_, rerr := Release.Call(pawl.Detach(ctx), hold)
			err = errors.Join(err, rerr)
		}
	}()
	approval, deadline := Approved.Next(ctx), pawl.After(ctx, 24*time.Hour)
	switch first, err := pawl.Select(ctx, approval, deadline); { // losers are cancelled
	case err != nil:
		return Receipt{}, err
	case first == deadline:
		return Receipt{}, ErrNotApproved
	}
	return Charge.Call(ctx, o, pawl.Retry{Attempts: 5, Unless: []*pawl.Error{ErrCardDeclined}}, pawl.AttemptTimeout(30*time.Second))
}

// The shop's systems are played by functions without a memory. Where a real one
// receives an idempotency key, so do these: it becomes the id of what they make.

func reserve(ctx context.Context, o Order) (Hold, error) {
	if o.Quantity > 100 {
		return Hold{}, fmt.Errorf("%d of %s: %w", o.Quantity, o.Item, ErrOutOfStock)
	}
	return Hold{ID: "hold-" + pawl.Info(ctx).Key, Order: o.ID}, nil
}

func release(context.Context, Hold) (pawl.None, error) { return pawl.None{}, nil }

func charge(ctx context.Context, o Order) (Receipt, error) {
	if o.Cents > 100_000 {
		return Receipt{}, fmt.Errorf("%d cents: %w", o.Cents, ErrCardDeclined)
	}
	return Receipt{ID: "receipt-" + pawl.Info(ctx).Key, Order: o.ID, Cents: o.Cents}, nil
}
