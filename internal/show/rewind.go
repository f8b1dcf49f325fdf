package show

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// RewindPlan describes the effects of a rewind of an instance, in lines of text.
func RewindPlan(id string, p *history.RewindPlan) []string {
	lines := []string{fmt.Sprintf("%s would keep events 1 to %d", id, p.Keep)}
	if p.Keep == 0 {
		lines[0] = id + " would start again"
	}
	for _, e := range p.Reruns {
		lines = append(lines, fmt.Sprintf("runs again: activity %s (event %d)", e.Name, e.ID))
	}
	events, updates, ended := 0, 0, make(map[uint64]bool)
	for _, e := range p.PutBack {
		switch e := e.(type) {
		case *history.EventReceived:
			events++
		case *history.UpdateReceived:
			updates++
		case *history.ChildCompleted:
			ended[e.Scheduled] = true
		}
	}
	for _, e := range p.Awaited {
		if !ended[e.ID] {
			lines = append(lines, fmt.Sprintf("waits again: child %s (event %d); retry it first if it has failed", e.Instance, e.ID))
		}
	}
	for _, e := range p.Undone {
		lines = append(lines, fmt.Sprintf("undone: child %s (event %d)", e.Instance, e.ID))
	}
	for _, e := range p.Answered {
		lines = append(lines, fmt.Sprintf("keeps its result: activity %s (event %d)", e.Name, e.ID))
	}
	for _, e := range p.Awaited {
		if ended[e.ID] {
			lines = append(lines, fmt.Sprintf("keeps its result: child %s (event %d)", e.Instance, e.ID))
		}
	}
	for _, again := range []struct {
		n    int
		what string
	}{{events, "event"}, {updates, "update"}} {
		if again.n > 0 {
			lines = append(lines, "received again: "+counted(again.n, again.what))
		}
	}
	return lines
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
