package work

import (
	"context"
	"time"

	"github.com/pawlrun/pawl"
)

// Orchestrations in which timers and events compete, and an activity that takes a given time.
var (
	Vote   = pawl.NewOrchestration[time.Duration, string]("vote")
	Digest = pawl.NewOrchestration[time.Duration, int]("digest")
	Rest   = pawl.NewActivity[time.Duration, pawl.None]("rest")
)

// Results of a Vote.
const (
	ByEvent    = "event"
	ByDeadline = "deadline"
)

// vote waits for an event or its deadline.
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

// digest counts the events within a period that begins with the first event.
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
