package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/queue"
)

// mostWaits is how many activities of an instance are told of one by one that wait at gates.
const mostWaits = 5

// LimitWaits say, a line each, at which gates an instance waits, and why; of many the first.
func LimitWaits(d client.Description, now int64) []string {
	var out []string
	for _, g := range d.Waits[:min(len(d.Waits), mostWaits)] {
		out = append(out, LimitWait(g, now))
	}
	if more := len(d.Waits) - mostWaits; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// LimitWait says why something waits at a gate.
func LimitWait(g queue.GateWait, now int64) string {
	if g.In {
		return ActionAndKey(g.Action, g.Key) + ": let in this moment"
	}
	if g.Position == 0 {
		return ActionAndKey(g.Action, g.Key) + ": its gate does not know it at the moment, or does not answer; it asks again"
	}
	var why string
	switch {
	case g.Deadlocked:
		why = "DEADLOCK: every slot is held by somebody who waits for this queue"
	case g.LimitedUntil > now:
		why = "limited to " + limitText(g.Policy) + ", next at " + Clock(g.LimitedUntil)
	case g.Policy.Concurrency > 0 && g.Holding >= uint64(g.Policy.Concurrency):
		why = fmt.Sprintf("%d of %d slots are taken", g.Holding, g.Policy.Concurrency)
	default:
		why = "about to be let in"
	}
	text := fmt.Sprintf("%s: place %d of %d; %s", ActionAndKey(g.Action, g.Key), g.Position, g.Length, why)
	if g.Since != 0 {
		text += ", since " + Duration(time.Duration(now-g.Since)*time.Millisecond)
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
func WaitOf(waits []queue.GateWait, event uint64) (queue.GateWait, bool) {
	i := slices.IndexFunc(waits, func(g queue.GateWait) bool { return g.Event == event })
	if i < 0 {
		return queue.GateWait{}, false
	}
	return waits[i], true
}

// atGates says in few words at which gates an instance waits; empty if it waits at none. Without places, for they change.
func atGates(d client.Description) string {
	var names []string
	dead := ""
	for _, g := range d.Waits {
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
