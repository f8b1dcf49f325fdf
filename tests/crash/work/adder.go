package work

import (
	"errors"
	"strconv"

	"github.com/pawlrun/pawl"
)

// Adder numbers the updates that it executes, across all executions. Add is such an update.
var (
	Adder = pawl.NewOrchestration[int, int]("adder")
	Add   = pawl.NewUpdate[int, int]("add")
)

// CloseAdds is the input that ends an Adder. The answer is the number of updates.
const CloseAdds = -1

const updatesPerExecution = 50 // updates per execution

// adder answers each update with its number. It rejects every input divisible by ten, with the number as the message.
func adder(ctx *pawl.Context, executed int) (int, error) {
	for range updatesPerExecution {
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
