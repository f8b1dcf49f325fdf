package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

// mostWaits is how many activities of an instance are told of one by one that wait at gates.
const mostWaits = 5

// LimitWaits say, a line each, at which gates an instance waits, and why; of many the first.
func LimitWaits(d client.Description, now time.Time) []string {
	var out []string
	for _, g := range d.LimitWaits[:min(len(d.LimitWaits), mostWaits)] {
		out = append(out, LimitWait(g, now))
	}
	if more := len(d.LimitWaits) - mostWaits; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// LimitWait says why something waits at a gate.
func LimitWait(g client.LimitWait, now time.Time) string {
	if g.Admitted {
		return ActionAndKey(g.Action, g.Key) + ": let in this moment"
	}
	if g.Position == 0 {
		return ActionAndKey(g.Action, g.Key) + ": its gate does not know it at the moment, or does not answer; it asks again"
	}
	var why string
	switch {
	case g.Deadlocked:
		why = "DEADLOCK: every slot is held by somebody who waits for this queue"
	case g.LimitedUntil.After(now):
		why = "limited to " + limitText(g.Policy) + ", next at " + Clock(g.LimitedUntil)
	case g.Policy.Concurrency > 0 && g.Active >= uint64(g.Policy.Concurrency):
		why = fmt.Sprintf("%d of %d slots are taken", g.Active, g.Policy.Concurrency)
	default:
		why = "about to be let in"
	}
	text := fmt.Sprintf("%s: place %d of %d; %s", ActionAndKey(g.Action, g.Key), g.Position, g.QueueLength, why)
	if !g.Since.IsZero() {
		text += ", since " + Duration(now.Sub(g.Since))
	}
	return text
}

// limitText names what limits how many are let in over time.
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

// WaitOf gives the wait of an event, if it waits at a gate.
func WaitOf(waits []client.LimitWait, event uint64) (client.LimitWait, bool) {
	i := slices.IndexFunc(waits, func(g client.LimitWait) bool { return g.Event == event })
	if i < 0 {
		return client.LimitWait{}, false
	}
	return waits[i], true
}

// atGates says in few words at which gates an instance waits; empty if it waits at none. Without places, for they change.
func atGates(d client.Description) string {
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
		return "it waits at the gate of " + dead + ", which is DEADLOCKED: everybody who was let in waits for somebody who waits there"
	case len(names) > mostWaits:
		return fmt.Sprintf("it waits at %d gates", len(names))
	case len(names) == 1:
		return "it waits at the gate of " + names[0]
	default:
		return "it waits at the gates of " + strings.Join(names, ", ")
	}
}
