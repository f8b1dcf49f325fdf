package examples

import (
	"errors"

	"github.com/pawlrun/pawl"
)

// A counter that runs forever: it receives numbers as events, publishes the sum as its custom status, and periodically continues as
// new with an empty history.
var (
	Counter = pawl.NewOrchestration[Tally, pawl.None]("counter")
	Add     = pawl.NewEvent[int]("add")
	Counted = pawl.NewStatus[Tally]()
)

// AddsAnExecution is the number of events that a Counter receives before it continues as new.
const AddsAnExecution = 100

// Tally is the state that a Counter passes from one execution to the next.
type Tally struct {
	Sum  int `json:"sum"`
	Adds int `json:"adds"`
}

func count(ctx *pawl.Context, t Tally) (pawl.None, error) {
	for range AddsAnExecution {
		if err := Counted.Set(ctx, t); err != nil {
			return pawl.None{}, err
		}
		n, err := Add.Receive(ctx)
		switch {
		case errors.Is(err, pawl.ErrUndecodable):
			continue // not a number; must not end the counter
		case err != nil:
			return pawl.None{}, err
		}
		t = Tally{Sum: t.Sum + n, Adds: t.Adds + 1}
	}
	return Counter.ContinueAsNew(ctx, t)
}
