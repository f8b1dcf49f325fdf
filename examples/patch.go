package examples

import (
	"context"
	"time"

	"github.com/pawlrun/pawl"
)

// A contract is renewed when its year is over. That was changed in place: contracts
// that have passed the place of the change, because they wait for the end of their
// year, keep the price that they were promised; all others receive a new one first.
var (
	Renew    = pawl.NewOrchestration[Contract, Contract]("renew-contract")
	Reprice  = pawl.NewActivity[Contract, Contract]("reprice")
	Announce = pawl.NewActivity[Contract, pawl.None]("announce-renewal")
)

// Contract is what is renewed.
type Contract struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"` // a year
}

func renew(ctx *pawl.Context, c Contract) (Contract, error) {
	if pawl.Patched(ctx, "reprice-before-renewal") {
		var err error
		if c, err = Reprice.Call(ctx, c, pawl.Retry{}); err != nil {
			return c, err
		}
	}
	if err := pawl.Sleep(ctx, 365*24*time.Hour); err != nil {
		return c, err
	}
	_, err := Announce.Call(ctx, c, pawl.Retry{})
	return c, err
}

// reprice adds three in a hundred, rounded down.
func reprice(_ context.Context, c Contract) (Contract, error) {
	c.Cents += c.Cents * 3 / 100
	return c, nil
}

func announce(context.Context, Contract) (pawl.None, error) { return pawl.None{}, nil }
