package work

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// Moving reaches a state that its number selects, and stays there while the partitions are resized.
var (
	Moving = pawl.NewOrchestration[int, int]("moving")
	Ask    = pawl.NewUpdate[int, int]("ask")
)

// The states of Moving, by its number modulo Stages.
const (
	StageEvent    = iota // waits for an event
	StageTimer           // waits for a timer that is due before the resize
	StageActivity        // its activity was claimed by a worker that has died
	StageLimit           // waits at a limit, or holds it
	StageChild           // has a child, which waits for an event
	StageUpdate          // has received an update
	StageNext            // is in its second execution
	Stages
)

// ChildOf is the id of the child of Moving with that number.
func ChildOf(n int) string { return fmt.Sprintf("moving-child-%d", n) }

// moving returns the number that it received, plus 1,000 for each repeated event that was not recognized.
func moving(ctx *pawl.Context, n int) (int, error) {
	var received *pawl.ReceivedUpdate[int, int]
	var err error
	switch n % Stages {
	case StageTimer:
		err = pawl.Sleep(ctx, 2*time.Second)
	case StageActivity:
		_, err = Stray.Call(ctx, pawl.None{})
	case StageLimit:
		_, err = Booth.Call(ctx, n)
	case StageChild:
		_, err = Moving.Call(ctx, 0, pawl.ID(ChildOf(n)))
	case StageUpdate:
		received, err = Ask.Next(ctx).Get(ctx)
	case StageNext:
		return Moving.ContinueAsNew(ctx, n-StageNext)
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
