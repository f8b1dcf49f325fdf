package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

type historyCmd struct {
	instanceArg
	Execution  uint64 `placeholder:"N" help:"Execution to show; the latest two are kept. Default: the latest."`
	Event      uint64 `placeholder:"N" help:"Write one event as JSON, including payloads from the object store."`
	JSON       bool   `name:"json" help:"Write one JSON object per event."`
	connection `group:"Connection"`
}

const tablePage = 1000

// Run shows a history.
func (c *historyCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	var entries []client.Entry
	execution, events := c.Execution, cl.History(ctx, c.ID, c.Execution)
	switch {
	case c.Event > 0:
		events = cl.HistoryAfter(ctx, c.ID, c.Execution, c.Event-1, 1)
	case !c.JSON: // reads no large payloads, of which only the sizes are shown
		events = cl.HistoryAfter(ctx, c.ID, c.Execution, 0, tablePage)
	}
	for e, err := range events {
		if errors.Is(err, client.ErrNotFound) {
			return c.missing(ctx, cl, err)
		}
		if err != nil {
			return err
		}
		execution = e.Execution
		if !c.JSON && c.Event == 0 {
			entries = append(entries, e)
			continue
		}
		o, err := api.HistoryEventOf(c.ID, e)
		if err == nil {
			err = writeJSON(s.out, o)
		}
		if err != nil || c.Event > 0 {
			return err
		}
	}
	if c.Event > 0 {
		of := c.ID
		if execution > 0 {
			of = fmt.Sprintf("execution %d of %s", execution, c.ID)
		}
		return fmt.Errorf("%s has no event %d", of, c.Event)
	}
	if c.JSON {
		return nil
	}
	if err := c.heading(ctx, s.out, cl, execution); err != nil {
		return err
	}
	return eventTable(s.out, entries)
}

// heading writes which execution is shown, if the instance has had more than one.
func (c *historyCmd) heading(ctx context.Context, w io.Writer, cl *client.Client, execution uint64) error {
	if execution == 1 && c.Execution == 0 {
		return nil
	}
	latest := execution
	if d, err := cl.Describe(ctx, c.ID); err == nil { // an error is no reason not to show the history
		latest = max(latest, d.Execution)
	}
	if latest == 1 {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s, execution %d of %d: %s\n", c.ID, execution, latest, otherExecution(execution, latest))
	return err
}

// otherExecution names the flag that shows another execution.
func otherExecution(execution, latest uint64) string {
	if execution == latest {
		return fmt.Sprintf("--execution %d shows the previous one", execution-1)
	}
	return "the latest is shown without --execution"
}

// missing returns the error for an execution without a history.
func (c *historyCmd) missing(ctx context.Context, cl *client.Client, notFound error) error {
	if c.Execution == 0 {
		return notFound
	}
	d, err := cl.Describe(ctx, c.ID)
	switch {
	case err != nil || c.Execution > d.Execution:
		return notFound
	case c.Execution < d.Execution:
		return fmt.Errorf("execution %d of %s is no longer kept: the instance is in execution %d, and the latest two are kept", c.Execution, c.ID, d.Execution)
	default:
		return fmt.Errorf("execution %d of %s has not begun and has no history yet; see pawl get %s", d.Execution, c.ID, c.ID)
	}
}

func eventTable(w io.Writer, entries []client.Entry) error {
	t := &term.Table{Header: []string{"ID", "TIME (UTC)", "EVENT", "DETAILS"}, Right: []int{0}, Fold: 4}
	for _, e := range entries {
		m := e.Event.Meta()
		t.Add(m.ID, formatTime(m.Time()), show.Kind(e.Event), summary(e.Event, e.Report))
	}
	return t.Write(w)
}

// summary describes a history event on one line, including the end of a cancelled activity.
func summary(e history.Event, r *lease.Report) string {
	text := diagnose.Short(show.Summary(e), maxCell)
	if r == nil {
		return text
	}
	return text + " → " + diagnose.CancelOutcome(*r)
}
