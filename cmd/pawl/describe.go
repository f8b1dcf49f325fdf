package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
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
	if d.Orchestration != "" {
		f.Add("orchestration", d.Orchestration)
	}
	if d.Version != "" {
		f.Add("version", d.Version)
	}
	if d.Parent != "" {
		f.Add("parent", d.Parent)
	}
	if text := attributesText(d.Attributes); text != "" {
		f.Add("attributes", text)
	}
	f.Add("status", statusText(d))
	if d.Execution > 1 {
		f.Add("execution", d.Execution)
	}
	if !d.Started.IsZero() {
		f.Add("started", formatTime(d.Started)+" UTC")
	}
	if !d.StartAt.IsZero() {
		f.Add("starts at", formatTime(d.StartAt)+" UTC")
	}
	if !d.Deadline.IsZero() && d.Ended.IsZero() {
		f.Add("times out at", formatTime(d.Deadline)+" UTC")
	}
	if !d.Ended.IsZero() {
		f.Add("ended", formatTime(d.Ended)+" UTC")
	}
	if d.Events > 0 {
		f.Add("events", d.Events)
	}
	if d.UnreadInputs > 0 {
		f.Add("unread inputs", d.UnreadInputs)
	}
	if len(d.UnreadEvents) > 0 {
		f.Add("unread events", history.FormatUnread(d.UnreadEvents))
	}
	if d.Timers > 0 {
		f.Add("timers", fmt.Sprintf("%d, the next at %s UTC", d.Timers, formatTime(d.NextTimer)))
	}
	if d.PausedBy != "" {
		f.Add("paused by", d.PausedBy)
	}
	if d.PausedFor != "" {
		f.Add("paused for", d.PausedFor)
	}
	if text := diagnose.WaitsFor(d); text != "" {
		f.Add("waits for", text)
	}
	for _, text := range diagnose.LimitWaits(d, time.Now()) {
		f.Add("limit", text)
	}
	if d.PendingMessages > 0 {
		f.Add("outbox", fmt.Sprintf("%s not acknowledged yet", diagnose.Counted(int(d.PendingMessages), "message"))) //nolint:gosec // a length
	}
	if d.Stalled != "" {
		f.Add("stalled", diagnose.OneLine(d.Stalled))
	}
	if d.CustomStatus != nil {
		f.Add("custom status", customText(*d.CustomStatus))
	}
	for _, name := range slices.Sorted(maps.Keys(d.NamedStatuses)) {
		f.Add("status "+name, customText(d.NamedStatuses[name]))
	}
	if r := show.Payload(d.Result); r != nil {
		f.Add("result", diagnose.Short(string(r), diagnose.MaxText))
	}
	if d.Failure != nil {
		f.Add("failure", diagnose.OneLine(d.Failure.Message))
	}
	if err := f.Write(w); err != nil {
		return err
	}
	if err := errors.Join(activityTable(w, d), updateTable(w, d)); err != nil {
		return err
	}
	return children.write(w)
}

// updateTable shows the open updates under an empty line; nothing if there are none.
func updateTable(w io.Writer, d client.Description) error {
	if len(d.OpenUpdates) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the table reports errors
	t := &term.Table{Header: []string{"OPEN UPDATE", "ID", "BY", "FOR", "INPUT"}, Right: []int{3}, Fold: 5}
	for _, u := range d.OpenUpdates {
		t.Add(u.Name, u.ID, u.By, formatElapsed(u.At, time.Time{}), diagnose.Short(string(show.Payload(u.Input)), maxInput))
	}
	return t.Write(w)
}

// activityTable shows the outstanding activities under an empty line; nothing if there are none.
func activityTable(w io.Writer, d client.Description) error {
	if len(d.Activities) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the table reports errors
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
	return t.Write(w)
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
