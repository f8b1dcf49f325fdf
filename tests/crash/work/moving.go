package work

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// Moving reaches a state that its number selects, and remains in it while the partitions are resized.
var (
	Moving = pawl.NewOrchestration[int, int]("moving")
	Sum    = pawl.NewUpdate[int, int]("sum")
)

// The states of Moving, by its number modulo States.
const (
	StateEvent    = iota // waits for an event
	StateTimer           // waits for a timer that is due before the resize
	StateActivity        // its activity was claimed by a worker that has died
	StateLimit           // waits at a limit, or holds a slot
	StateChild           // has a child that waits for an event
	StateUpdate          // has received an update
	StateNext            // is in its second execution
	States
)

// ChildOf is the id of the child of Moving with that number.
func ChildOf(n int) string { return fmt.Sprintf("moving-child-%d", n) }

// moving returns the number that it received, plus 1,000 for each repeated event that was not recognized.
func moving(ctx *pawl.Context, n int) (int, error) {
	var received *pawl.ReceivedUpdate[int, int]
	var err error
	switch n % States {
	case StateTimer:
		err = pawl.Sleep(ctx, 2*time.Second)
	case StateActivity:
		_, err = Hanging.Call(ctx, pawl.None{})
	case StateLimit:
		_, err = Limited.Call(ctx, n)
	case StateChild:
		_, err = Moving.Call(ctx, 0, pawl.ID(ChildOf(n)))
	case StateUpdate:
		received, err = Sum.Next(ctx).Get(ctx)
	case StateNext:
		return Moving.ContinueAsNew(ctx, n-StateNext)
	}
	if err != nil {
		return 0, err
	}
	got, err := Go.Receive(ctx)
	if err != nil {
		return 0, err
	}
	if received != nil {
		if err := received.Answer(ctx, received.Input+got); err != nil {
			return 0, err
		}
	}
	if _, err := Step.Call(ctx, n); err != nil {
		return 0, fmt.Errorf("step: %w", err)
	}
	rest, err := Go.Drain(ctx)
	return got + 1000*len(rest), err
}
