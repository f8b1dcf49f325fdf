// Package diagnose reports in words what an instance waits for and what keeps it from going on. The command line and the
// console show the same sentences.
package diagnose

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

const (
	slow     = 2 * time.Second // may an activity wait for a worker before somebody should know
	mostLook = 8               // descendants that are looked at to find one that hinders
)

// Obstacle says what keeps an instance that somebody could see to, itself or one of its
// descendants; empty: nothing is known.
func Obstacle(ctx context.Context, cl *client.Client, d client.Description) string {
	if h := OwnObstacle(d); h != "" {
		return h
	}
	looks := mostLook
	return below(ctx, cl, d, &looks)
}

// below looks for the hindrance among the descendants, the oldest child and its own first.
func below(ctx context.Context, cl *client.Client, d client.Description, looks *int) string {
	for _, c := range d.Children {
		if *looks--; *looks < 0 {
			return ""
		}
		child, err := cl.Describe(ctx, c.Instance)
		if err != nil {
			continue // who waits is told by the request for the result
		}
		h := OwnObstacle(child)
		if h == "" {
			h = below(ctx, cl, child, looks)
		}
		if h != "" {
			return fmt.Sprintf("its child %s: %s", c.Instance, h)
		}
	}
	return ""
}

// OwnObstacle is Obstacle without the descendants.
func OwnObstacle(d client.Description) string {
	if d.Stalled != "" {
		return "it is stuck: " + OneLine(d.Stalled)
	}
	var queues []string
	gated := d.Status == client.Pending
	for _, o := range d.Activities {
		if _, waits := WaitOf(d.LimitWaits, o.Event); waits {
			gated = gated || tooLong(o.Scheduled)
			continue
		}
		if o.Worker != "" {
			return "" // somebody works for it
		}
		if tooLong(o.Scheduled) && !slices.Contains(queues, o.Queue) {
			queues = append(queues, o.Queue)
		}
	}
	switch {
	case len(queues) == 0 && gated:
		return atGates(d)
	case len(queues) == 0:
		return ""
	}
	return "no worker has taken its activities from " + strings.Join(queues, ", ") + "; is one running that has them?"
}

func tooLong(since time.Time) bool { return time.Since(since) > slow }

// WaitsFor says what would move an instance that runs and is not held up; empty if it does
// not, or is moving.
func WaitsFor(d client.Description) string {
	if d.Status != client.Running || d.Stalled != "" || d.UnreadInputs > 0 {
		return ""
	}
	var all []string
	switch n := len(d.Activities); n {
	case 0:
	case 1:
		all = append(all, "activity "+d.Activities[0].Name+" "+heldBy(d.Activities[0], d.LimitWaits))
	default:
		all = append(all, fmt.Sprintf("%d activities", n))
	}
	switch n := len(d.Children); n {
	case 0:
	case 1:
		all = append(all, "child "+d.Children[0].Instance)
	default:
		all = append(all, fmt.Sprintf("%d children", n))
	}
	switch n := len(d.AwaitedEvents); n {
	case 0:
	case 1:
		all = append(all, "event "+d.AwaitedEvents[0])
	default:
		all = append(all, "events "+strings.Join(d.AwaitedEvents, ", "))
	}
	alone := len(all) == 0
	switch n := d.Timers; n {
	case 0:
	case 1:
		all = append(all, "a timer")
	default:
		all = append(all, fmt.Sprintf("%d timers", n))
	}
	switch {
	case len(all) == 0:
		return "an event"
	case alone: // a timer is a deadline as often as not
		return all[0] + ", perhaps an event"
	default:
		return strings.Join(all, ", ")
	}
}

// heldBy says where an activity is.
func heldBy(o client.Activity, waits []client.LimitWait) string {
	if _, gated := WaitOf(waits, o.Event); gated {
		return "(at its gate)"
	}
	if o.Worker == "" {
		return "(no worker has it)"
	}
	return "on " + o.Worker
}
