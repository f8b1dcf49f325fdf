package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/queue"
)

type queueCmd struct {
	Stats queueStatsCmd `cmd:"" help:"Tell how the queues in front of limited actions stand."`
	List  queueListCmd  `cmd:"" help:"List who waits for an action, or who has been let in."`
	Clear queueClearCmd `cmd:"" help:"Turn away everybody who waits for an action."`
}

// aboutAction connects, to ask about an action. A name that can not be one is a misuse.
func (r reach) aboutAction(ctx context.Context, s streams, action string) (c *client.Client, closeAll func(), err error) {
	if err := pawl.ValidateName(action); err != nil {
		return nil, nil, settings.Usage(err)
	}
	return r.client(ctx, s)
}

type queueStatsCmd struct {
	Action string `arg:"" optional:"" help:"Name of an activity or an orchestration. Without it: every queue in use."`
	Key    string `placeholder:"KEY" help:"Only the queue of this value of the action's key."`
	Limit  int    `default:"100" help:"At most so many, those where most wait first; 0 is all."`
	JSON   bool   `name:"json" help:"Write JSON, a queue a line."`
	reach  `group:"Connection"`
}

// Help is shown with the flags.
func (c *queueStatsCmd) Help() string {
	return "Every value of an action's key has a queue of its own. Queues of keys that nobody has used for some seconds are listed only with --key, and forgotten after an hour."
}

// Validate refuses what can not be meant together.
func (c *queueStatsCmd) Validate() error {
	switch {
	case c.Limit < 0:
		return fmt.Errorf("--limit %d: want 0, which is all, or more", c.Limit)
	case c.Key != "" && c.Action == "":
		return errors.New("--key needs the name of the action")
	}
	return nil
}

// Run shows queues. What could be listed is shown also when some partitions did not answer.
func (c *queueStatsCmd) Run(ctx context.Context, s streams) error {
	if c.Action != "" {
		if err := pawl.ValidateName(c.Action); err != nil {
			return settings.Usage(err)
		}
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
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
		for _, g := range all {
			if err := writeJSON(s.out, api.QueueStatsOf(g)); err != nil {
				return err
			}
		}
		return failed
	case len(all) == 0 && term.Interactive(s.out):
		_, err = fmt.Fprintln(s.out, "No limited action is in use.")
		return err
	}
	if err := queueTable(all, time.Now()).Write(s.out); err != nil {
		return err
	}
	if more && term.Interactive(s.out) {
		_, _ = fmt.Fprintf(s.err, "These are the first %d; --limit 0 shows all.\n", len(all))
	}
	return failed
}

// find gives the queues that were asked for: that of a key, those of an action with the one that has no key, or all.
func (c *queueStatsCmd) find(ctx context.Context, cl *client.Client) (all []client.QueueInfo, failed error) {
	if c.Key != "" {
		g, err := cl.QueueStats(ctx, c.Action, c.Key)
		if err != nil {
			return nil, err
		}
		return []client.QueueInfo{g}, nil
	}
	if c.Action != "" { // idle, it is not in the list
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

// busyFirst orders queues: where something is wrong, where most wait, where most are in.
func busyFirst(a, b client.QueueInfo) int {
	wrong := func(g client.QueueInfo) int {
		if g.Deadlocked {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(wrong(b), wrong(a)), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Active, a.Active), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Key, b.Key))
}

// queueTable has keys if a queue has one.
func queueTable(all []client.QueueInfo, now time.Time) *term.Table {
	keys := slices.ContainsFunc(all, func(g client.QueueInfo) bool { return g.Key != "" })
	t := &term.Table{
		Header: []string{"ACTION", "WAITING", "OLDEST", "IN", "CAME", "COMPLETED", "REJECTED", "TIMED OUT", "WITHDRAWN", "CLEARED", "STATE", "POLICY"},
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
		row := []any{g.Action, g.Waiting, since(g.OldestEnqueued, time.Time{}), in, g.Enqueued, g.Completed, g.Rejected, g.TimedOut, g.Withdrawn, g.Cleared, gateState(g, now), diagnose.Policy(g.Policy)}
		if keys {
			row = slices.Insert(row, 1, any(g.Key))
		}
		t.Add(row...)
	}
	return t
}

// gateState says in a word or two what who comes now would meet.
func gateState(g client.QueueInfo, now time.Time) string {
	switch {
	case g.Deadlocked:
		return "DEADLOCK"
	case g.LimitedUntil.After(now):
		return "limited until " + diagnose.Clock(g.LimitedUntil)
	case g.Policy.Concurrency > 0 && g.Active >= uint64(g.Policy.Concurrency):
		return "full"
	default:
		return "open"
	}
}

type queueListCmd struct {
	Action  string `arg:"" help:"Name of an activity or an orchestration."`
	Key     string `placeholder:"KEY" help:"Value of the action's key, if it has one."`
	Holders bool   `help:"Who has been let in, in place of who waits."`
	Limit   int    `default:"100" help:"At most so many; 0 is all, of --holders as many as fit into an answer."`
	JSON    bool   `name:"json" help:"Write JSON, a waiter a line."`
	reach   `group:"Connection"`
}

// Validate refuses what is no number of rows.
func (c *queueListCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit %d: want 0, which is all, or more", c.Limit)
	}
	return nil
}

// Run lists who waits.
func (c *queueListCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.aboutAction(ctx, s, c.Action)
	if err != nil {
		return err
	}
	defer done()
	rows, more, err := c.rows(ctx, cl)
	if len(rows) == 0 {
		err = whichKey(ctx, cl, c.Action, c.Key, err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		for _, w := range rows {
			if err := writeJSON(s.out, api.WaiterOf(w)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := c.show(s.out, rows); err != nil {
		return err
	}
	if term.Interactive(s.out) {
		_, _ = io.WriteString(s.err, c.footer(len(rows), more))
	}
	return nil
}

// footer says that there are more rows, or may be, and how to see them, if one can.
func (c *queueListCmd) footer(rows int, more bool) string {
	switch {
	case c.Holders && rows >= queue.MaxGateRows:
		return fmt.Sprintf("These are %d, as many as fit into an answer; \"pawl queue stats\" says how many are in.\n", rows)
	case !more:
		return ""
	case c.Holders:
		return fmt.Sprintf("These are %d of them; --limit 0 shows up to %d.\n", rows, queue.MaxGateRows)
	default:
		return fmt.Sprintf("These are the first %d; --limit 0 shows all.\n", rows)
	}
}

func (c *queueListCmd) rows(ctx context.Context, cl *client.Client) (rows []client.Waiter, more bool, err error) {
	if c.Holders {
		most := c.Limit
		if most > 0 {
			most++
		}
		rows, err = cl.Holders(ctx, c.Action, c.Key, most)
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
	if len(rows) == 0 && term.Interactive(w) {
		text := "Nobody waits."
		if c.Holders {
			text = "Nobody is in."
		}
		_, err := fmt.Fprintln(w, text)
		return err
	}
	t := &term.Table{Header: []string{"POSITION", "INSTANCE", "WHAT", "SINCE (UTC)", "FOR"}, Right: []int{0, 4}}
	if c.Holders {
		t = &term.Table{Header: []string{"INSTANCE", "WHAT"}}
	}
	for _, x := range rows {
		if c.Holders {
			t.Add(x.Instance, what(x))
		} else {
			t.Add(x.Position, x.Instance, what(x), second(x.Since), since(x.Since, time.Time{}))
		}
	}
	return t.Write(w)
}

// what says which part of an instance is at a gate.
func what(w client.Waiter) string {
	switch {
	case w.Event == 0:
		return "activity of a call that keeps its slot"
	case w.Event == 1:
		return "start"
	case w.Execution > 1:
		return fmt.Sprintf("activity %d of execution %d", w.Event, w.Execution)
	default:
		return fmt.Sprintf("activity %d", w.Event)
	}
}

// whichKey says that a key is needed, if that is why a queue was not found, or has nobody in it: inputs without the key have a queue, too.
func whichKey(ctx context.Context, cl *client.Client, action, key string, err error) error {
	if key != "" || err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	for g, failed := range cl.Queues(ctx, action) {
		if failed != nil {
			break
		}
		if g.Key != "" {
			return fmt.Errorf("%s has a queue for every key: which one? Such as --key %s; \"pawl queue stats %s\" lists them", action, g.Key, action)
		}
	}
	return err
}

type queueClearCmd struct {
	Action string `arg:"" help:"Name of an activity or an orchestration."`
	Key    string `placeholder:"KEY" help:"Value of the action's key, if it has one."`
	Yes    bool   `short:"y" help:"Do not ask; elsewhere than on a terminal nobody is asked."`
	JSON   bool   `name:"json" help:"Write JSON."`
	reach  `group:"Connection"`
}

// Help is shown with the flags.
func (c *queueClearCmd) Help() string {
	return "An activity that waits fails with pawl.ErrQueueCleared, an instance that waits for its start is cancelled. Who has been let in goes on, and who comes after may wait again."
}

// Run clears a queue.
func (c *queueClearCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.aboutAction(ctx, s, c.Action)
	if err != nil {
		return err
	}
	defer done()
	if !c.Yes && person(s) {
		g, err := c.queue(ctx, cl)
		if err != nil {
			return err
		}
		if err := confirm(ctx, os.Stdin, s.err, c.question(g)); err != nil {
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
	if c.JSON {
		return writeJSON(s.out, map[string]any{"action": c.Action, "key": c.Key, "cleared": n})
	}
	_, err = fmt.Fprintf(s.out, "%s: %d turned away\n", diagnose.ActionAndKey(c.Action, c.Key), n)
	return err
}

// queue is the one that is meant: of an action with keys, but without one, that of the inputs which have none.
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
	return fmt.Sprintf("Turn away all who wait for %s, %d at the moment? Activities fail, instances are cancelled.", diagnose.ActionAndKey(c.Action, c.Key), g.Waiting)
}
