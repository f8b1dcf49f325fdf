package examples

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// Suppliers are asked for a price, all at once; the first one below the limit is taken
// and the others are stopped, wherever they run. If there is none, the cheapest is.
var (
	Buy   = pawl.NewOrchestration[Wish, Offer]("buy")
	Quote = pawl.NewActivity[string, Offer]("quote")

	ErrNoOffer = pawl.NewError("no-offer")
)

// Wish is what to buy, and where.
type Wish struct {
	Suppliers []string `json:"suppliers"`
	Limit     int      `json:"limit"` // cents
}

// Offer is a supplier's price.
type Offer struct {
	Supplier string `json:"supplier"`
	Cents    int    `json:"cents"`
}

func buy(ctx *pawl.Context, in Wish) (best Offer, err error) {
	found, left := false, len(in.Suppliers)
	err = pawl.Scope(ctx, func(ctx *pawl.Context) error { // what is not needed ends with it
		for _, supplier := range in.Suppliers {
			pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
				defer func() { left-- }()
				offer, err := Quote.Call(ctx, supplier, pawl.Within(time.Minute))
				if err == nil && (!found || offer.Cents < best.Cents) {
					best, found = offer, true
				}
				return pawl.None{}, err
			})
		}
		return pawl.Await(ctx, func() bool { return left == 0 || found && best.Cents <= in.Limit })
	})
	if err == nil && !found {
		err = ErrNoOffer
	}
	return best, err
}

// quote plays a supplier who asks a cent for every letter of its name.
func quote(_ context.Context, supplier string) (Offer, error) {
	if supplier == "" {
		return Offer{}, fmt.Errorf("a supplier without a name: %w", ErrNoOffer)
	}
	return Offer{Supplier: supplier, Cents: len(supplier)}, nil
}
