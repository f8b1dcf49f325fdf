package work

import (
	"context"
	"time"

	"github.com/pawlrun/pawl"
)

// Orchestrations in which timers and events compete, and an activity that takes a given time.
var (
	EventOrDeadline = pawl.NewOrchestration[time.Duration, string]("event-or-deadline")
	Digest          = pawl.NewOrchestration[time.Duration, int]("digest")
	Wait            = pawl.NewActivity[time.Duration, pawl.None]("wait")
)

// Results of EventOrDeadline.
const (
	ByEvent    = "event"
	ByDeadline = "deadline"
)

// eventOrDeadline waits for an event or its deadline.
func eventOrDeadline(ctx *pawl.Context, limit time.Duration) (string, error) {
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
func digest(ctx *pawl.Context, period time.Duration) (int, error) {
	if _, err := Go.Receive(ctx); err != nil {
		return 0, err
	}
	if err := pawl.Sleep(ctx, period); err != nil {
		return 0, err
	}
	others, err := Go.Drain(ctx)
	return 1 + len(others), err
}

func waitFor(ctx context.Context, period time.Duration) (pawl.None, error) {
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-timer.C:
		return pawl.None{}, nil
	case <-ctx.Done():
		return pawl.None{}, context.Cause(ctx)
	}
}

func deadlines() []pawl.OrchestrationBinding {
	return []pawl.OrchestrationBinding{EventOrDeadline.Do(eventOrDeadline), Digest.Do(digest)}
}
