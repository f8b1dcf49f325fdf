package work

import (
	"errors"
	"strconv"

	"github.com/pawlrun/pawl"
)

// An orchestration that numbers the updates that it executes, over all executions.
var (
	Adder = pawl.NewOrchestration[int, int]("adder")
	Add   = pawl.NewUpdate[int, int]("add")
)

// CloseAdds ends an Adder, with the number of updates as the answer.
const CloseAdds = -1

const adderLife = 50 // updates of one execution

// adder answers each update with its number. Of every ten inputs it rejects one, with the number as the text.
func adder(ctx *pawl.Context, executed int) (int, error) {
	for range adderLife {
		u, err := Add.Next(ctx).Get(ctx)
		if err != nil {
			return executed, err
		}
		if u.Input == CloseAdds {
			return executed, u.Answer(ctx, executed)
		}
		executed++
		if u.Input%10 == 0 {
			err = u.Reject(ctx, errors.New(strconv.Itoa(executed)))
		} else {
			err = u.Answer(ctx, executed)
		}
		if err != nil {
			return executed, err
		}
	}
	return Adder.ContinueAsNew(ctx, executed)
}
