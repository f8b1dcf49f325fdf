package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type listCmd struct {
	Status string `enum:",pending,running,completed,failed,cancelled" default:"" placeholder:"STATUS" help:"Only instances that are pending (they wait at the gate of their orchestration), running, completed, failed or cancelled."`
	Stuck  bool   `help:"Only instances that can not go on, and why; also those that wait for their start."`
	Limit  int    `default:"100" help:"At most so many; 0 is all."`
	JSON   bool   `name:"json" help:"Write JSON, an instance a line."`
	reach  `group:"Connection"`
}

// Validate refuses what can not be meant together.
func (c *listCmd) Validate() error {
	switch {
	case c.Limit < 0:
		return fmt.Errorf("--limit %d: want 0, which is all, or more", c.Limit)
	case c.Stuck && c.Status != "":
		return errors.New("--stuck and --status can not be had together")
	}
	return nil
}

// Run lists instances. What could be listed is shown also when some partitions did not answer.
func (c *listCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	var rows []client.Summary
	n, more := 0, false
	var failed error
	for d, err := range c.rows(ctx, cl) {
		if err != nil {
			failed = err
			break
		}
		if more = c.Limit > 0 && n == c.Limit; more {
			break
		}
		n++
		if c.JSON {
			if err := writeJSON(s.out, api.SummaryOf(d)); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, d)
	}
	if c.JSON {
		return failed
	}
	if n == 0 && failed == nil && term.Interactive(s.out) {
		_, err := fmt.Fprintln(s.out, c.none())
		return err
	}
	if err := c.table(rows).Write(s.out); err != nil {
		return err
	}
	if more && term.Interactive(s.out) {
		_, _ = fmt.Fprintf(s.err, "These are the first %d; --limit 0 shows all.\n", n)
	}
	return failed
}

func (c *listCmd) table(rows []client.Summary) *term.Table {
	if c.Stuck {
		return stuckTable(rows)
	}
	return listTable(rows)
}

func stuckTable(rows []client.Summary) *term.Table {
	t := &term.Table{Header: []string{"INSTANCE", "ORCHESTRATION", "STUCK SINCE (UTC)", "WHY"}, Fold: 4}
	for _, d := range rows {
		t.Add(d.Instance, d.Orchestration, second(d.Updated), diagnose.OneLine(d.Stalled))
	}
	return t
}

// listTable has versions if an instance has one. The number of events is known of what has ended.
func listTable(rows []client.Summary) *term.Table {
	versions := slices.ContainsFunc(rows, func(d client.Summary) bool { return d.Version != "" })
	t := &term.Table{Header: []string{"INSTANCE", "ORCHESTRATION", "STATUS", "STARTED (UTC)", "RAN", "EVENTS"}, Right: []int{4, 5}}
	if versions {
		t.Header, t.Right = slices.Insert(t.Header, 2, "VERSION"), []int{5, 6}
	}
	for _, d := range rows {
		events := any(d.Events)
		if d.Ended.IsZero() {
			events = ""
		}
		row := []any{d.Instance, d.Orchestration, d.Status, second(d.Started), since(d.Started, d.Ended), events}
		if versions {
			row = slices.Insert(row, 2, any(d.Version))
		}
		t.Add(row...)
	}
	return t
}

func (c *listCmd) none() string {
	switch {
	case c.Stuck:
		return "Nothing is stuck."
	case c.Status != "":
		return "No instance is " + c.Status + "."
	default:
		return "There are no instances."
	}
}

// rows gives one more than the limit, so that it is known whether there are more.
func (c *listCmd) rows(ctx context.Context, cl *client.Client) iter.Seq2[client.Summary, error] {
	if c.Stuck {
		return cl.Stalled(ctx)
	}
	o := client.ListOptions{Status: client.Status(c.Status)}
	if c.Limit > 0 {
		o.Limit = c.Limit + 1
	}
	return cl.List(ctx, o)
}
