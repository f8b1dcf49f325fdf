package examples

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// Two activities run the same way; the loser is cancelled, wherever it runs, and
// stops at once. Each takes the time that it needs, in milliseconds.
var (
	Race     = pawl.NewOrchestration[Times, string]("race")
	Hare     = pawl.NewActivity[int, string]("race-hare")
	Tortoise = pawl.NewActivity[int, string]("race-tortoise")
)

// Times is how long the two would run, in milliseconds.
type Times struct {
	Hare     int `json:"hare"`
	Tortoise int `json:"tortoise"`
}

func race(ctx *pawl.Context, in Times) (string, error) {
	hare, tortoise := Hare.Start(ctx, in.Hare), Tortoise.Start(ctx, in.Tortoise)
	first, err := pawl.Select(ctx, hare, tortoise)
	if err != nil {
		return "", err
	}
	if first == hare {
		return hare.Get(ctx)
	}
	return tortoise.Get(ctx)
}

// run listens to its context, which ends as soon as its result is no longer required.
func run(ctx context.Context, ms int) (string, error) {
	finish := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer finish.Stop()
	select {
	case <-finish.C:
		return fmt.Sprintf("%s after %d ms", pawl.Info(ctx).Name, ms), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
