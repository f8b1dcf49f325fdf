package main

import (
	"time"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// summary says on one line what an event is about and, of a cancelled activity, how it ended.
func summary(e history.Event, r *client.Report) string {
	text := short(show.Summary(e), shortCell)
	if r == nil {
		return text
	}
	return text + " → " + ended(*r)
}

// ended says how a cancelled activity ended.
func ended(r client.Report) string {
	on := ""
	if r.Worker != "" {
		on = " on " + r.Worker
	}
	switch r.How {
	case client.HowStopped:
		if r.After < time.Millisecond {
			return "stopped at once" + on
		}
		return "stopped after " + spell(r.After) + on
	case client.HowFinishedFirst:
		return "finished first" + on
	case client.HowFinishedLate:
		return "finished before it was told" + on
	case client.HowNeverStarted:
		return "never started"
	case client.HowAbandoned:
		return "abandoned after " + spell(r.After) + on
	default: // of a newer worker
		return string(r.How) + on
	}
}
