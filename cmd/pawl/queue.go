package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type queueCmd struct {
	Stats queueStatsCmd `cmd:"" help:"Show the limits in use: waiters, holders and counts."`
	List  queueListCmd  `cmd:"" help:"List the waiters of an action, or its holders."`
	Clear queueClearCmd `cmd:"" help:"Reject all waiters of an action."`
}

type queueStatsCmd struct {
	Action     string `arg:"" optional:"" help:"Name of an activity or an orchestration. Default: every limit in use."`
	Key        string `placeholder:"KEY" help:"Only the limit of this value of the action's key."`
	Limit      int    `default:"100" help:"Maximum number of limits, the ones with the most waiters first; 0 is unlimited."`
	JSON       bool   `name:"json" help:"Write one JSON object per limit."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *queueStatsCmd) Help() string {
	return "Every value of an action's key has a limit of its own. Limits that have been idle for some seconds are listed only with --key, and removed after an hour."
}

// Validate rejects invalid combinations.
func (c *queueStatsCmd) Validate() error {
	switch {
	case c.Limit < 0:
		return fmt.Errorf("--limit must not be negative (got %d)", c.Limit)
	case c.Key != "" && c.Action == "":
		return errors.New("--key needs the name of the action")
	case c.Action != "":
		return pawl.ValidateName(c.Action)
	}
	return nil
}

// Run shows limits. If some partitions did not answer, it shows the others and returns an error.
func (c *queueStatsCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	all, failed := c.find(ctx, cl)
	slices.SortFunc(all, busyFirst)
	more := c.Limit > 0 && len(all) > c.Limit
	if more {
		all = all[:c.Limit]
	}
	switch {
	case failed != nil && len(all) == 0:
		return failed
	case c.JSON:
		return cmp.Or(writeLines(s.out, all, api.QueueStatsOf), failed)
	}
	if err := queueTable(all, time.Now()).WriteOr(s.out, "No limited action is in use."); err != nil {
		return err
	}
	if more && term.Interactive(s.out) {
		_, _ = fmt.Fprintf(s.err, "The first %d are shown; --limit 0 shows all.\n", len(all))
	}
	return failed
}

// find returns the limit of a key, those of an action, or all.
func (c *queueStatsCmd) find(ctx context.Context, cl *client.Client) (all []client.QueueInfo, failed error) {
	if c.Key != "" {
		g, err := cl.QueueStats(ctx, c.Action, c.Key)
		if err != nil {
			return nil, err
		}
		return []client.QueueInfo{g}, nil
	}
	if c.Action != "" { // the list below does not contain an idle limit
		switch g, err := cl.QueueStats(ctx, c.Action, ""); {
		case err != nil:
			return nil, err
		case g.Keys == 0:
			all = append(all, g)
		}
	}
	for g, err := range cl.Queues(ctx, c.Action) {
		if err != nil {
			return all, err
		}
		if !slices.ContainsFunc(all[:min(1, len(all))], func(has client.QueueInfo) bool { return has.Key == g.Key }) {
			all = append(all, g)
		}
	}
	return all, nil
}

// busyFirst orders limits: deadlocked ones first, then by waiters and by holders, in descending order.
func busyFirst(a, b client.QueueInfo) int {
	wrong := func(g client.QueueInfo) int {
		if g.Deadlocked {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(wrong(b), wrong(a)), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Active, a.Active), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Key, b.Key))
}

// queueTable lists limits. It has a column for keys if a limit has one.
func queueTable(all []client.QueueInfo, now time.Time) *term.Table {
	keys := slices.ContainsFunc(all, func(g client.QueueInfo) bool { return g.Key != "" })
	t := &term.Table{
		Header: []string{"ACTION", "WAITING", "OLDEST", "ACTIVE", "TOTAL", "COMPLETED", "REJECTED", "TIMED OUT", "WITHDRAWN", "CLEARED", "STATE", "POLICY"},
		Right:  []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, Fold: 12,
	}
	if keys {
		t.Header, t.Right, t.Fold = slices.Insert(t.Header, 1, "KEY"), []int{2, 3, 4, 5, 6, 7, 8, 9, 10}, 13
	}
	for _, g := range all {
		in := fmt.Sprint(g.Active)
		if g.Policy.Concurrency > 0 {
			in += fmt.Sprintf("/%d", g.Policy.Concurrency)
		}
		row := []any{g.Action, g.Waiting, formatElapsed(g.OldestEnqueued, time.Time{}), in, g.Enqueued, g.Completed, g.Rejected, g.TimedOut, g.Withdrawn, g.Cleared, limitState(g, now), diagnose.Policy(g.Policy)}
		if keys {
			row = slices.Insert(row, 1, any(g.Key))
		}
		t.Add(row...)
	}
	return t
}

// limitState describes whether a limit would admit a further call.
func limitState(g client.QueueInfo, now time.Time) string {
	switch {
	case g.Deadlocked:
		return "DEADLOCK"
	case g.Policy.Paused:
		return "paused"
	case g.LimitedUntil.After(now):
		return "limited until " + diagnose.Clock(g.LimitedUntil, now)
	case g.Policy.Concurrency > 0 && g.Active >= uint64(g.Policy.Concurrency):
		return "full"
	default:
		return "open"
	}
}

type queueListCmd struct {
	Action     string `arg:"" help:"Name of an activity or an orchestration."`
	Key        string `placeholder:"KEY" help:"Value of the action's key, if it has one."`
	Holders    bool   `help:"List holders instead of waiters."`
	Limit      int    `default:"100" help:"Maximum number; 0 is unlimited, with --holders as many as fit into one reply."`
	JSON       bool   `name:"json" help:"Write one JSON object per waiter."`
	connection `group:"Connection"`
}

// Validate rejects invalid numbers and names.
func (c *queueListCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit must not be negative (got %d)", c.Limit)
	}
	return pawl.ValidateName(c.Action)
}

// Run lists waiters or holders.
func (c *queueListCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	rows, more, err := c.rows(ctx, cl)
	if len(rows) == 0 {
		err = whichKey(ctx, cl, c.Action, c.Key, err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeLines(s.out, rows, api.WaiterOf)
	}
	if err := c.show(s.out, rows); err != nil {
		return err
	}
	if term.Interactive(s.out) {
		_, _ = io.WriteString(s.err, c.footer(len(rows), more))
	}
	return nil
}

// footer returns a line that reports that there are more rows, or may be, and how to see them.
func (c *queueListCmd) footer(rows int, more bool) string {
	switch {
	case c.Holders && rows >= request.MaxLimitRows:
		return fmt.Sprintf("%d are shown, as many as fit into one reply; \"pawl queue stats\" shows how many there are.\n", rows)
	case !more:
		return ""
	case c.Holders:
		return fmt.Sprintf("%d are shown; --limit 0 shows up to %d.\n", rows, request.MaxLimitRows)
	default:
		return fmt.Sprintf("The first %d are shown; --limit 0 shows all.\n", rows)
	}
}

func (c *queueListCmd) rows(ctx context.Context, cl *client.Client) (rows []client.Waiter, more bool, err error) {
	if c.Holders {
		limit := c.Limit
		if limit > 0 {
			limit++
		}
		rows, err = cl.Holders(ctx, c.Action, c.Key, limit)
		if more = c.Limit > 0 && len(rows) > c.Limit; more {
			rows = rows[:c.Limit]
		}
		return rows, more, err
	}
	for w, err := range cl.Waiters(ctx, c.Action, c.Key) {
		if err != nil {
			return nil, false, err
		}
		if c.Limit > 0 && len(rows) == c.Limit {
			return rows, true, nil
		}
		rows = append(rows, w)
	}
	return rows, false, nil
}

func (c *queueListCmd) show(w io.Writer, rows []client.Waiter) error {
	t, none := &term.Table{Header: []string{"POSITION", "INSTANCE", "CALL", "SINCE (UTC)", "FOR"}, Right: []int{0, 4}}, "There are no waiters."
	if c.Holders {
		t, none = &term.Table{Header: []string{"INSTANCE", "CALL"}}, "There are no holders."
	}
	for _, x := range rows {
		if c.Holders {
			t.Add(x.Instance, callText(x))
		} else {
			t.Add(x.Position, x.Instance, callText(x), formatSecond(x.Since), formatElapsed(x.Since, time.Time{}))
		}
	}
	return t.WriteOr(w, none)
}

// callText names the call that is at a limit.
func callText(w client.Waiter) string {
	switch {
	case w.Event == 0:
		return "activity of a call that retains its slot"
	case w.Event == 1:
		return "start"
	case w.Execution > 1:
		return fmt.Sprintf("activity %d of execution %d", w.Event, w.Execution)
	default:
		return fmt.Sprintf("activity %d", w.Event)
	}
}

// whichKey returns an error that requires a key, if the action has one and none was given. Otherwise it returns err. Without a key, the limit
// of inputs that have no value at the key's path is meant.
func whichKey(ctx context.Context, cl *client.Client, action, key string, err error) error {
	if key != "" || err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	for g, failed := range cl.Queues(ctx, action) {
		if failed != nil {
			break
		}
		if g.Key != "" {
			return fmt.Errorf("%s has a limit for each key: choose one, such as --key %s; \"pawl queue stats %s\" lists them", action, g.Key, action)
		}
	}
	return err
}

type queueClearCmd struct {
	Action string `arg:"" help:"Name of an activity or an orchestration."`
	Key    string `placeholder:"KEY" help:"Value of the action's key, if it has one."`
	confirmation
	JSON       bool `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *queueClearCmd) Help() string {
	return "Waiting activities fail with pawl.ErrQueueCleared; instances that wait for their start are cancelled. Holders and later calls are not affected."
}

// Validate checks the name.
func (c *queueClearCmd) Validate() error { return pawl.ValidateName(c.Action) }

// Run rejects the waiters.
func (c *queueClearCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if c.needed(s) {
		g, err := c.queue(ctx, cl)
		if err == nil {
			err = c.ask(ctx, s, c.question(g))
		}
		if err != nil {
			return err
		}
	}
	n, err := cl.ClearQueue(ctx, c.Action, c.Key)
	if n == 0 {
		err = whichKey(ctx, cl, c.Action, c.Key, err)
	}
	if err != nil {
		return err
	}
	return s.answer(c.JSON, map[string]any{"action": c.Action, "key": c.Key, "cleared": n}, "%s: %d rejected", diagnose.ActionAndKey(c.Action, c.Key), n)
}

// queue returns the limit to clear. Without a key, it is the limit of inputs without one.
func (c *queueClearCmd) queue(ctx context.Context, cl *client.Client) (client.QueueInfo, error) {
	g, err := cl.QueueStats(ctx, c.Action, c.Key)
	if err != nil || g.Keys == 0 {
		return g, err
	}
	for g, err := range cl.Queues(ctx, c.Action) {
		if err != nil || g.Key == "" {
			return g, err
		}
	}
	return g, whichKey(ctx, cl, c.Action, c.Key, nil)
}

func (c *queueClearCmd) question(g client.QueueInfo) string {
	return fmt.Sprintf("Reject all waiters of %s (%d at present)? Activities fail, instances are cancelled.", diagnose.ActionAndKey(c.Action, c.Key), g.Waiting)
}
