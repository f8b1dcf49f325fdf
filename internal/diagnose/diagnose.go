// Package diagnose describes what an instance waits for, and what prevents it from proceeding. The command line and the
// console show the same sentences.
package diagnose

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

const (
	slowStart    = 2 * time.Second // time after which an activity without a worker is reported
	maxDescribed = 8               // descendants that are read to find an obstacle
)

// Obstacle describes what prevents an instance, or one of its descendants, from proceeding. It returns "" if no obstacle is found.
func Obstacle(ctx context.Context, cl *client.Client, d client.Description) string {
	if h := OwnObstacle(d); h != "" {
		return h
	}
	left := maxDescribed
	return below(ctx, cl, d, &left)
}

// below searches the descendants for an obstacle, depth first from the oldest child.
func below(ctx context.Context, cl *client.Client, d client.Description, left *int) string {
	for _, c := range d.Children {
		if *left--; *left < 0 {
			return ""
		}
		child, err := cl.Describe(ctx, c.Instance)
		if err != nil {
			continue // the request for the result reports the error
		}
		h := OwnObstacle(child)
		if h == "" {
			h = below(ctx, cl, child, left)
		}
		if h != "" {
			return fmt.Sprintf("its child %s: %s", c.Instance, h)
		}
	}
	return ""
}

// OwnObstacle describes what prevents an instance itself from proceeding, without regard to its descendants.
func OwnObstacle(d client.Description) string {
	switch {
	case d.Stalled != "":
		return "it is stalled: " + OneLine(d.Stalled)
	case d.Status == client.Paused:
		return strings.TrimSpace("it is paused "+ByWhom(d.PausedBy, OneLine(d.PausedFor))) + "; it takes no turn until it is resumed"
	}
	var queues []string
	atLimit := d.Status == client.Pending
	for _, o := range d.Activities {
		if _, waits := WaitOf(d.LimitWaits, o.Event); waits {
			atLimit = atLimit || delayed(o.Scheduled)
			continue
		}
		if o.Worker != "" {
			return ""
		}
		if delayed(o.Scheduled) && !slices.Contains(queues, o.Queue) {
			queues = append(queues, o.Queue)
		}
	}
	switch {
	case len(queues) == 0 && atLimit:
		return atLimits(d)
	case len(queues) == 0:
		return ""
	}
	return "no worker has taken its activities from " + strings.Join(queues, ", ") + "; is a worker running that has them?"
}

func delayed(since time.Time) bool { return time.Since(since) > slowStart }

// WaitsFor describes what a running instance waits for. It returns "" if the instance is not running, is stalled, or has inputs to apply.
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
		all = append(all, outstanding(n)+" activities")
	}
	switch n := len(d.Children); n {
	case 0:
	case 1:
		all = append(all, "child "+d.Children[0].Instance)
	default:
		all = append(all, outstanding(n)+" children")
	}
	for _, a := range []struct {
		what  string
		names []string
	}{{"event", d.AwaitedEvents}, {"update", d.AwaitedUpdates}} {
		switch len(a.names) {
		case 0:
		case 1:
			all = append(all, a.what+" "+a.names[0])
		default:
			all = append(all, a.what+"s "+strings.Join(a.names, ", "))
		}
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
	case alone: // a timer is often a deadline for an event
		return all[0] + ", perhaps an event"
	default:
		return strings.Join(all, ", ")
	}
}

// outstanding formats a number of activities or children, of which a description lists at most 100.
func outstanding(n int) string {
	if n < 100 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n) + " or more"
}

// heldBy describes where an activity runs or waits.
func heldBy(o client.Activity, waits []client.LimitWait) string {
	if _, atLimit := WaitOf(waits, o.Event); atLimit {
		return "(waits at its limit)"
	}
	if o.Worker == "" {
		return "(waits for a worker)"
	}
	return "on " + o.Worker
}
