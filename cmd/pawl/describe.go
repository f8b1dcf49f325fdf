package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

const maxInput = 200 // bytes of the input of an open update

// describe shows one instance, a field per line, and its outstanding activities, open updates and children.
func describe(w io.Writer, d client.Description, children descendants) error {
	f := &term.Fields{}
	f.Add("instance", d.Instance)
	f.AddText("orchestration", d.Orchestration)
	f.AddText("version", d.Version)
	f.AddText("parent", d.Parent)
	f.AddText("attributes", attributesText(d.Attributes))
	f.Add("status", statusText(d))
	if d.Execution > 1 {
		f.Add("execution", d.Execution)
	}
	f.AddText("started", formatUTC(d.Started))
	f.AddText("starts at", formatUTC(d.StartAt))
	if d.Ended.IsZero() {
		f.AddText("times out at", formatUTC(d.Deadline))
	}
	f.AddText("ended", formatUTC(d.Ended))
	if d.Events > 0 {
		f.Add("events", d.Events)
	}
	if d.UnreadInputs > 0 {
		f.Add("unread inputs", d.UnreadInputs)
	}
	f.AddText("unread events", record.FormatUnread(d.UnreadEvents))
	if d.Timers > 0 {
		f.Add("timers", fmt.Sprintf("%d, the next at %s", d.Timers, formatUTC(d.NextTimer)))
	}
	f.AddText("paused by", d.PausedBy)
	f.AddText("paused for", d.PausedFor)
	f.AddText("waits for", diagnose.WaitsFor(d))
	for _, text := range diagnose.LimitWaits(d, time.Now()) {
		f.Add("limit", text)
	}
	if d.PendingMessages > 0 {
		f.Add("outbox", fmt.Sprintf("%s not acknowledged yet", diagnose.Counted(int(d.PendingMessages), "message"))) //nolint:gosec // a length
	}
	f.AddText("stalled", diagnose.OneLine(d.Stalled))
	if d.CustomStatus != nil {
		f.Add("custom status", customText(*d.CustomStatus))
	}
	for _, name := range slices.Sorted(maps.Keys(d.NamedStatuses)) {
		f.Add("status "+name, customText(d.NamedStatuses[name]))
	}
	f.AddText("result", diagnose.Short(string(show.Payload(d.Result)), diagnose.MaxText))
	if d.Failure != nil {
		f.Add("failure", diagnose.OneLine(d.Failure.Message))
	}
	return cmp.Or(f.Write(w), belowTable(w, activityTable(d)), belowTable(w, updateTable(d)), children.write(w))
}

// belowTable writes a table with rows under an empty line.
func belowTable(w io.Writer, t *term.Table) error {
	if len(t.Rows) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the table reports an error
	return t.Write(w)
}

// updateTable lists the open updates.
func updateTable(d client.Description) *term.Table {
	t := &term.Table{Header: []string{"OPEN UPDATE", "ID", "BY", "FOR", "INPUT"}, Right: []int{3}, Fold: 5}
	for _, u := range d.OpenUpdates {
		t.Add(u.Name, u.ID, u.By, formatElapsed(u.At, time.Time{}), diagnose.Short(string(show.Payload(u.Input)), maxInput))
	}
	return t
}

// activityTable lists the outstanding activities.
func activityTable(d client.Description) *term.Table {
	t := &term.Table{Header: []string{"ACTIVITY", "NAME", "QUEUE", "STATE", "FOR"}, Right: []int{0, 4}}
	for _, o := range d.Activities {
		state := "waits for a worker"
		if g, waits := diagnose.WaitOf(d.LimitWaits, o.Event); waits {
			state = fmt.Sprintf("waits at its limit, position %d of %d", g.Position, g.QueueLength)
		} else if o.Worker != "" {
			state = "on " + o.Worker
		} else if d.Stopped {
			state = "stopped by the pause"
		}
		if o.Claims > 1 {
			state += fmt.Sprintf(", claim %d", o.Claims)
		}
		t.Add(o.Event, o.Name, o.Queue, state, formatElapsed(o.Scheduled, time.Time{}))
	}
	return t
}

func statusText(d client.Description) string {
	switch {
	case d.Started.IsZero():
		return string(d.Status)
	case d.Ended.IsZero():
		return string(d.Status) + " for " + formatElapsed(d.Started, time.Time{})
	default:
		return string(d.Status) + " after " + formatElapsed(d.Started, d.Ended)
	}
}

func customText(c client.StatusAt[history.Payload]) string {
	if c.Cleared {
		return fmt.Sprintf("cleared (version %d)", c.Version)
	}
	return fmt.Sprintf("%s (version %d)", diagnose.Short(string(show.Payload(c.Value)), diagnose.MaxText), c.Version)
}
