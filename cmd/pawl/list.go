package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type listCmd struct {
	Status     string `enum:",pending,running,paused,completed,failed,cancelled" default:"" placeholder:"STATUS" help:"Only instances that are pending (not begun: waiting for the time of their start, at the limit of their orchestration, or for an orchestrator that has it), running, paused, completed, failed or cancelled."`
	Where      string `placeholder:"FILTER" help:"Only instances that pass a filter, such as 'orchestration = fulfil and started > -24h and id starts order-'."`
	Stalled    bool   `help:"Everything that makes no progress, with the reason: stalled instances, instances that wait for their start or for a worker, and refused inputs. In --where, use stalled = true."`
	Oldest     bool   `help:"Sort by the latest change of status, the oldest first. Default: the newest first."`
	Limit      int    `default:"100" help:"Maximum number; 0 is unlimited."`
	JSON       bool   `name:"json" help:"Write one JSON object per instance."`
	connection `group:"Connection"`
}

// Validate rejects invalid combinations.
func (c *listCmd) Validate() error {
	switch {
	case c.Limit < 0:
		return fmt.Errorf("--limit must not be negative (got %d)", c.Limit)
	case c.Stalled && (c.Status != "" || c.Where != "" || c.Oldest):
		return errors.New("--stalled excludes --status, --where and --oldest")
	}
	return checkWhere(c.Where)
}

// checkWhere rejects an invalid filter before the command connects.
func checkWhere(text string) error {
	if _, err := filter.Parse(text, time.Now()); err != nil {
		return fmt.Errorf("--where: %w", err)
	}
	return nil
}

// Run lists instances. If some partitions did not answer, it shows the others and returns an error.
func (c *listCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
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
	if n == 0 && failed != nil {
		return failed
	}
	table := listTable
	if c.Stalled {
		table = stalledTable
	}
	if err := table(rows).WriteOr(s.out, c.none()); err != nil {
		return err
	}
	if more && term.Interactive(s.out) {
		_, _ = fmt.Fprintf(s.err, "The first %d are shown; --limit 0 shows all.\n", n)
	}
	return failed
}

func stalledTable(rows []client.Summary) *term.Table {
	t := &term.Table{Header: []string{"INSTANCE", "ORCHESTRATION", "STALLED SINCE (UTC)", "REASON"}, Fold: 4}
	for _, d := range rows {
		t.Add(d.Instance, d.Orchestration, formatSecond(d.Updated), diagnose.OneLine(d.Stalled))
	}
	return t
}

const maxProblem = 60 // bytes of the text of a failure or a stall in a table

// listTable lists instances. It has a column for versions if an instance has one, and a column for problems if an instance has one: the code
// of a failure, or its text if it has no code, and the reason of a stall. Only for ended instances the number of events is known.
func listTable(rows []client.Summary) *term.Table {
	versions := slices.ContainsFunc(rows, func(d client.Summary) bool { return d.Version != "" })
	t := &term.Table{Header: []string{"INSTANCE", "ORCHESTRATION", "STATUS", "STARTED (UTC)", "RAN", "EVENTS"}, Right: []int{4, 5}}
	if versions {
		t.Header, t.Right = slices.Insert(t.Header, 2, "VERSION"), []int{5, 6}
	}
	problems := slices.ContainsFunc(rows, func(d client.Summary) bool { return d.Code != "" || d.Error != "" || d.Stalled != "" })
	if problems {
		t.Header = append(t.Header, "PROBLEM")
	}
	for _, d := range rows {
		events := any(d.Events)
		if d.Ended.IsZero() {
			events = ""
		}
		row := []any{d.Instance, d.Orchestration, d.Status, formatSecond(d.Started), formatElapsed(d.Started, d.Ended), events}
		if versions {
			row = slices.Insert(row, 2, any(d.Version))
		}
		if problems {
			problem := d.Error
			if d.Stalled != "" {
				problem = "stalled: " + d.Stalled
			}
			row = append(row, cmp.Or(d.Code, diagnose.Short(diagnose.OneLine(problem), maxProblem)))
		}
		t.Add(row...)
	}
	return t
}

func (c *listCmd) none() string {
	switch {
	case c.Stalled:
		return "No instance is stalled."
	case c.Where != "":
		return "No instance passes the filter."
	case c.Status != "":
		return "No instance is " + c.Status + "."
	default:
		return "There are no instances."
	}
}

// rows returns the instances to list. It returns one more than the limit if there are more.
func (c *listCmd) rows(ctx context.Context, cl *client.Client) iter.Seq2[client.Summary, error] {
	if c.Stalled {
		return cl.Stalled(ctx)
	}
	o := client.ListOptions{Where: c.Where, Status: client.Status(c.Status), Oldest: c.Oldest}
	if c.Limit > 0 {
		o.Limit = c.Limit + 1
	}
	begun := cl.List(ctx, o)
	if c.Where != "" || c.Status != "" && c.Status != string(client.Pending) {
		return begun
	}
	return c.withNotBegun(ctx, cl, begun)
}

// withNotBegun adds the instances that are stalled before their start to a list, in its order.
func (c *listCmd) withNotBegun(ctx context.Context, cl *client.Client, begun iter.Seq2[client.Summary, error]) iter.Seq2[client.Summary, error] {
	return func(yield func(client.Summary, error) bool) {
		var rows []client.Summary
		var failed error
		for d, err := range cl.Stalled(ctx) {
			if failed = err; err == nil && d.Status == client.Pending && d.Started.IsZero() && d.Orchestration != "" {
				rows = append(rows, d)
			}
		}
		order := func(a, b client.Summary) int {
			if c.Oldest {
				a, b = b, a
			}
			return b.StatusSince.Compare(a.StatusSince)
		}
		slices.SortFunc(rows, order)
		for d, err := range begun {
			for ; err == nil && len(rows) > 0 && order(rows[0], d) < 0; rows = rows[1:] {
				if !yield(rows[0], nil) {
					return
				}
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
		for _, d := range rows {
			if !yield(d, nil) {
				return
			}
		}
		if failed != nil {
			yield(client.Summary{}, failed)
		}
	}
}
