package main

import (
	"time"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// reportJSON is for a program how a cancelled activity ended.
type reportJSON struct {
	How     client.How `json:"how"`
	AfterMS int64      `json:"after_ms"` // from the moment when its context was done
	Worker  string     `json:"worker,omitempty"`
	At      string     `json:"at,omitempty"`
}

// entryLine is a line of an exported history, and beside it what is not part of the history.
type entryLine struct {
	show.Line
	Report *reportJSON `json:"report,omitempty"`
}

func entryJSON(instance string, e client.Entry) (entryLine, error) {
	l, err := show.JSON(instance, e.Event)
	if err != nil || e.Report == nil {
		return entryLine{Line: l}, err
	}
	r := &reportJSON{How: e.Report.How, AfterMS: e.Report.After.Milliseconds(), Worker: e.Report.Worker}
	if !e.Report.At.IsZero() {
		r.At = stamp(e.Report.At.UnixMilli())
	}
	return entryLine{Line: l, Report: r}, nil
}

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
