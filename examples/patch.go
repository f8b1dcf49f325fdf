package examples

import (
	"context"
	"time"

	"github.com/pawlrun/pawl"
)

// A contract is renewed when its year is over. The code was changed in place: contracts that had already passed the changed point,
// because they wait for the end of their year, keep the price that they were promised; all others are repriced first.
var (
	Renew    = pawl.NewOrchestration[Contract, Contract]("renew-contract")
	Reprice  = pawl.NewActivity[Contract, Contract]("reprice")
	Announce = pawl.NewActivity[Contract, pawl.None]("announce-renewal")
)

// Contract is the contract that is renewed.
type Contract struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"` // price per year
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

// reprice adds three percent, rounded down.
func reprice(_ context.Context, c Contract) (Contract, error) {
	c.Cents += c.Cents * 3 / 100
	return c, nil
}

func announce(context.Context, Contract) (pawl.None, error) { return pawl.None{}, nil }
