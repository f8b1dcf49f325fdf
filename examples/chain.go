package examples

import (
	"context"

	"github.com/pawlrun/pawl"
)

// ChainLength is the number of activities in a Chain.
const ChainLength = 5

// Activities that each need the result of the previous one.
var (
	Chain = pawl.NewOrchestration[int, int]("chain")
	Step  = pawl.NewActivity[int, int]("chain-step")
)

// chain counts up from n.
func chain(ctx *pawl.Context, n int) (int, error) {
	var err error
	for range ChainLength {
		if n, err = Step.Call(ctx, n); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func step(_ context.Context, n int) (int, error) { return n + 1, nil }
