package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

// maxWaits is the maximum number of waits of an instance that are described individually.
const maxWaits = 5

// LimitWaits describes the first waits of an instance at limits, one per line.
func LimitWaits(d client.Description, now time.Time) []string {
	var out []string
	for _, g := range d.LimitWaits[:min(len(d.LimitWaits), maxWaits)] {
		out = append(out, LimitWait(g, now))
	}
	if more := len(d.LimitWaits) - maxWaits; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// LimitWait describes a wait at a limit.
func LimitWait(g client.LimitWait, now time.Time) string {
	if g.Admitted {
		return ActionAndKey(g.Action, g.Key) + ": being admitted"
	}
	if g.Position == 0 {
		return ActionAndKey(g.Action, g.Key) + ": not known to its limit at present; the request is repeated"
	}
	var reason string
	switch {
	case g.Deadlocked:
		reason = "DEADLOCK: every holder waits for a waiter of this limit"
	case g.Policy.Paused:
		reason = "the action is " + Pause(g.Policy)
	case g.LimitedUntil.After(now):
		reason = "limited to " + limitText(g.Policy) + ", next at " + Clock(g.LimitedUntil, now)
	case g.Policy.Concurrency > 0 && g.Active >= uint64(g.Policy.Concurrency):
		reason = fmt.Sprintf("%d of %d slots are in use", g.Active, g.Policy.Concurrency)
	default:
		reason = "next to be admitted"
	}
	text := fmt.Sprintf("%s: position %d of %d; %s", ActionAndKey(g.Action, g.Key), g.Position, g.QueueLength, reason)
	if !g.Since.IsZero() {
		text += ", since " + Duration(now.Sub(g.Since))
	}
	return text
}

// limitText describes a rate and a quota.
func limitText(p client.Policy) string {
	var all []string
	if p.Rate > 0 {
		all = append(all, Rate(p))
	}
	if p.Quota > 0 {
		all = append(all, Quota(p))
	}
	return strings.Join(all, " and ")
}

// WaitOf returns the wait of the activity or start with an event id, if it waits at a limit.
func WaitOf(waits []client.LimitWait, event uint64) (client.LimitWait, bool) {
	i := slices.IndexFunc(waits, func(g client.LimitWait) bool { return g.Event == event })
	if i < 0 {
		return client.LimitWait{}, false
	}
	return waits[i], true
}

// atLimits lists the limits at which an instance waits, without positions, because they change. It returns "" if there are none.
func atLimits(d client.Description) string {
	var names []string
	dead := ""
	for _, g := range d.LimitWaits {
		name := ActionAndKey(g.Action, g.Key)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if g.Deadlocked && dead == "" {
			dead = name
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case dead != "":
		return "it waits at the limit of " + dead + ", which is DEADLOCKED: every holder waits for one of its waiters"
	case len(names) > maxWaits:
		return fmt.Sprintf("it waits at %d limits", len(names))
	case len(names) == 1:
		return "it waits at the limit of " + names[0]
	default:
		return "it waits at the limits of " + strings.Join(names, ", ")
	}
}
