package examples

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// An order reserves goods, waits for an approval, and charges a card. If anything fails, including by a cancellation, the goods are
// released.
var (
	Fulfil   = pawl.NewOrchestration[Order, Receipt]("fulfil-order")
	Reserve  = pawl.NewActivity[Order, Hold]("reserve-stock")
	Release  = pawl.NewActivity[Hold, pawl.None]("release-stock")
	Charge   = pawl.NewActivity[Order, Receipt]("charge-card", pawl.Queue("payments"))
	Approved = pawl.NewEvent[Approval]("approved")
)

// Errors of an order.
var (
	ErrOutOfStock   = pawl.NewError("out-of-stock")
	ErrNotApproved  = pawl.NewError("not-approved")
	ErrCardDeclined = pawl.NewError("card-declined")
)

// Order is an order of a customer.
type Order struct {
	ID       string `json:"id"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"` // more than 100 are out of stock
	Cents    int64  `json:"cents"`    // above 100,000 the card is declined
}

// Hold is a reservation of goods.
type Hold struct {
	ID    string `json:"id"`
	Order string `json:"order"`
}

// Approval confirms an order.
type Approval struct {
	By string `json:"by"`
}

// Receipt is the result of a paid order.
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
	if _, err := approval.Get(ctx); err != nil { // the event of another program may not decode
		return Receipt{}, err
	}
	return Charge.Call(ctx, o, pawl.Retry{Attempts: 5, Unless: []*pawl.Error{ErrCardDeclined}}, pawl.AttemptTimeout(30*time.Second))
}

// The shop's systems are simulated by functions without state. Like real systems that accept an idempotency key, they use it as the id of
// what they create.

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
