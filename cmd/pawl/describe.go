package main

import (
	"fmt"
	"io"
	"time"

	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// describe shows one instance, a field a line, and what it has outstanding. kin tells of its children.
func describe(w io.Writer, d client.Description, kin kinship) error {
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
	f.Add("status", standing(d))
	if d.Execution > 1 {
		f.Add("execution", d.Execution)
	}
	if d.Created != 0 {
		f.Add("started", when(d.Created)+" UTC")
	}
	if d.Ended != 0 {
		f.Add("ended", when(d.Ended)+" UTC")
	}
	if d.Events > 0 {
		f.Add("events", d.Events)
	}
	if d.Inbox > 0 {
		f.Add("unread inputs", d.Inbox)
	}
	if len(d.Unread) > 0 {
		f.Add("unread events", history.UnreadText(d.Unread))
	}
	if d.Timers > 0 {
		f.Add("timers", fmt.Sprintf("%d, the next at %s UTC", d.Timers, when(d.NextTimer)))
	}
	if text := diagnose.WaitsFor(d); text != "" {
		f.Add("waits for", text)
	}
	for _, text := range diagnose.LimitWaits(d, time.Now().UnixMilli()) {
		f.Add("waits", text)
	}
	if d.Owes > 0 {
		f.Add("owes", fmt.Sprintf("%s not known to be sent", diagnose.Counted(int(d.Owes), "message"))) //nolint:gosec // a length
	}
	if d.Stuck != "" {
		f.Add("stuck", diagnose.OneLine(d.Stuck))
	}
	if d.Custom != nil {
		f.Add("custom status", customText(*d.Custom))
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
	if err := activityTable(w, d); err != nil {
		return err
	}
	return childTable(w, d.Children, kin)
}

// activityTable shows, under an empty line, what is outstanding; nothing if nothing is.
func activityTable(w io.Writer, d client.Description) error {
	if len(d.Outstanding) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w) // the table reports
	t := &term.Table{Header: []string{"ACTIVITY", "NAME", "QUEUE", "STATE", "FOR"}, Right: []int{0, 4}}
	for _, o := range d.Outstanding {
		state := "waits for a worker"
		if g, waits := diagnose.WaitOf(d.Waits, o.Activity); waits {
			state = fmt.Sprintf("waits at its gate, place %d of %d", g.Position, g.Length)
		} else if o.Worker != "" {
			state = "on " + o.Worker
		}
		if o.Claims > 1 {
			state += fmt.Sprintf(", claim %d", o.Claims)
		}
		t.Add(o.Activity, o.Name, o.Queue, state, since(o.Since, 0))
	}
	return t.Write(w)
}

func standing(d client.Description) string {
	switch {
	case d.Created == 0:
		return d.Status
	case d.Ended == 0:
		return d.Status + " for " + since(d.Created, 0)
	default:
		return d.Status + " after " + since(d.Created, d.Ended)
	}
}
