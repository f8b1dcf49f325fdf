package show

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// RewindPlan returns lines of text that describe what a rewind of an instance would do.
func RewindPlan(id string, p *history.RewindPlan) []string {
	lines := []string{fmt.Sprintf("%s would keep events 1 to %d", id, p.Keep)}
	if p.Keep == 0 {
		lines[0] = id + " would start again"
	}
	for _, e := range p.Reruns {
		lines = append(lines, fmt.Sprintf("runs again: activity %s (event %d)", e.Name, e.ID))
	}
	for _, e := range p.Awaited {
		lines = append(lines, fmt.Sprintf("waits again: child %s (event %d); retry it first if it has failed", e.Instance, e.ID))
	}
	for _, e := range p.Undone {
		lines = append(lines, fmt.Sprintf("undone: child %s (event %d)", e.Instance, e.ID))
	}
	events := 0
	for _, e := range p.PutBack {
		if e.Kind() == history.KindEventReceived {
			events++
		}
	}
	if events > 0 {
		lines = append(lines, fmt.Sprintf("received again: %s", counted(events)))
	}
	return lines
}

func counted(events int) string {
	if events == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", events)
}
