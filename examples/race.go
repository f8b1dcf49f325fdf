package examples

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
)

// Two activities race. The slower one is cancelled, wherever it runs, and stops at once. Each takes the given time in milliseconds.
var (
	Race     = pawl.NewOrchestration[Times, string]("race")
	Hare     = pawl.NewActivity[int, string]("race-hare")
	Tortoise = pawl.NewActivity[int, string]("race-tortoise")
)

// Times is how long each of the two takes, in milliseconds.
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

// run returns when ctx is done, as soon as its result is no longer required.
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
