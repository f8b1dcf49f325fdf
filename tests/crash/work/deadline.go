package work

import (
	"context"
	"time"

	"github.com/pawlrun/pawl"
)

// Orchestrations in which time and events compete, and an activity that takes its time.
var (
	Vote   = pawl.NewOrchestration[time.Duration, string]("vote")
	Digest = pawl.NewOrchestration[time.Duration, int]("digest")
	Rest   = pawl.NewActivity[time.Duration, pawl.None]("rest")
)

// What a vote may end with.
const (
	ByEvent    = "event"
	ByDeadline = "deadline"
)

// vote waits for an event until its deadline.
func vote(ctx *pawl.Context, limit time.Duration) (string, error) {
	event, deadline := Go.Next(ctx), pawl.After(ctx, limit)
	first, err := pawl.Select(ctx, event, deadline)
	if err != nil {
		return "", err
	}
	if first == deadline {
		return ByDeadline, nil
	}
	return ByEvent, nil
}

// digest counts the events of a while, which begins with the first.
func digest(ctx *pawl.Context, while time.Duration) (int, error) {
	if _, err := Go.Receive(ctx); err != nil {
		return 0, err
	}
	if err := pawl.Sleep(ctx, while); err != nil {
		return 0, err
	}
	others, err := Go.Drain(ctx)
	return 1 + len(others), err
}

func rest(ctx context.Context, while time.Duration) (pawl.None, error) {
	over := time.NewTimer(while)
	defer over.Stop()
	select {
	case <-over.C:
		return pawl.None{}, nil
	case <-ctx.Done():
		return pawl.None{}, context.Cause(ctx)
	}
}

func deadlines() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{Vote.Do(vote), Digest.Do(digest)}
}
