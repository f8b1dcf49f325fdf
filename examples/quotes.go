package examples

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// A price is requested from all suppliers concurrently. The first offer below the limit is accepted, and the other requests are cancelled,
// wherever they run. If there is no such offer, the cheapest one is accepted.
var (
	Buy   = pawl.NewOrchestration[Request, Offer]("buy")
	Quote = pawl.NewActivity[string, Offer]("quote")

	ErrNoOffer = pawl.NewError("no-offer")
)

// Request describes what to buy, and from whom.
type Request struct {
	Suppliers []string `json:"suppliers"`
	Limit     int      `json:"limit"` // cents
}

// Offer is a supplier's price.
type Offer struct {
	Supplier string `json:"supplier"`
	Cents    int    `json:"cents"`
}

func buy(ctx *pawl.Context, in Request) (best Offer, err error) {
	found, left := false, len(in.Suppliers)
	err = pawl.Scope(ctx, func(ctx *pawl.Context) error { // its end cancels requests that are no longer needed
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

// quote simulates a supplier that charges one cent per letter of its name.
func quote(_ context.Context, supplier string) (Offer, error) {
	if supplier == "" {
		return Offer{}, fmt.Errorf("a supplier without a name: %w", ErrNoOffer)
	}
	return Offer{Supplier: supplier, Cents: len(supplier)}, nil
}
