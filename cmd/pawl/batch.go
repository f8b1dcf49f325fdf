package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type batchCmd struct {
	Cancel    batchCancelCmd    `cmd:"" help:"Request the cancellation of instances."`
	Terminate batchTerminateCmd `cmd:"" help:"End instances without their code, and keep their histories."`
	Pause     batchPauseCmd     `cmd:"" help:"Pause instances."`
	Resume    batchResumeCmd    `cmd:"" help:"Resume paused instances."`
	Retry     batchRetryCmd     `cmd:"" help:"Continue failed instances from before their failures, or from their starts."`
	Rewind    batchRewindCmd    `cmd:"" help:"Continue instances from an earlier event."`
	Purge     batchPurgeCmd     `cmd:"" help:"Remove ended instances, or any with --force."`
	Send      batchSendCmd      `cmd:"" help:"Send an event to instances."`
	List      batchListCmd      `cmd:"" help:"List batches."`
	Describe  batchDescribeCmd  `cmd:"" help:"Describe a batch. \"pawl cancel\", \"pause\" and \"resume\" take its id, too."`
}

// batchFlags are the flags of all batches.
type batchFlags struct {
	Where  string `placeholder:"FILTER" help:"Instances that pass a filter, such as 'orchestration = fulfil and started < -1h', and whose status permits the request."`
	All    bool   `help:"All instances, instead of --where."`
	Rate   int    `placeholder:"N" help:"Maximum number of requests per second. Default: no limit."`
	Reason string `placeholder:"TEXT" help:"Reason, shown in histories."`
	ID     string `name:"id" placeholder:"ID" help:"Id of the batch. Default: a generated one."`
	DryRun bool   `help:"Count the instances, and do nothing."`
	confirmation
	Detach     bool `help:"Do not wait for the end."`
	JSON       bool `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Validate rejects selections that the batch would reject.
func (c *batchFlags) Validate() error {
	if c.Where == "" && !c.All {
		return errors.New("--where is required, or --all to select every instance")
	}
	return checkWhere(c.Where)
}

// run counts the instances, asks for confirmation, starts the batch, and follows it.
func (c *batchFlags) run(ctx context.Context, s streams, b client.Batch) error {
	b.Where, b.All, b.Rate, b.Reason = c.Where, c.All, c.Rate, c.Reason
	id := cmp.Or(c.ID, "batch-"+nuid.Next())
	if err := errors.Join(b.Check(), pawl.ValidateID(id)); err != nil {
		return settings.Usage(err)
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	n, err := cl.CountBatch(ctx, b)
	if err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	if c.DryRun {
		return s.answer(c.JSON, api.BatchCount{Count: n.Count, AtLeast: n.AtLeast}, "%s", instances(n))
	}
	if err := c.ask(ctx, s, fmt.Sprintf("%s: %s?", api.BatchOf(id, "", &client.BatchState{Batch: b}).Request(), instances(n))); err != nil {
		return err
	}
	run, err := cl.StartBatch(ctx, id, b)
	if err != nil {
		return err
	}
	if c.Detach {
		return accepted(s, c.JSON, id, "batch started", "")
	}
	return c.follow(ctx, s, cl, run, n.Count)
}

func instances(n client.Counts) string {
	text := diagnose.Counted(int(n.Count), "instance") //nolint:gosec // far fewer
	if n.AtLeast {
		return "at least " + text
	}
	return text
}

// follow shows the progress until the end.
func (c *batchFlags) follow(ctx context.Context, s streams, cl *client.Client, run *client.Instance[client.BatchState], total uint64) error {
	bar := term.NewProgress(s.err, int(total), "requests") //nolint:gosec // far fewer
	for at, err := range cl.WatchBatch(ctx, run.ID()) {
		if err != nil {
			break // the result reports the error, too
		}
		bar.Set(int(at.Sent)) //nolint:gosec // as above
	}
	bar.End()
	_, err := run.Result(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; %s continues, and pawl cancel %s ends it: %w", run.ID(), run.ID(), context.Cause(ctx))
	}
	st, status, described := cl.DescribeBatch(ctx, run.ID())
	if described != nil {
		return described
	}
	return cmp.Or(showBatch(s, c.JSON, run.ID(), status, st), err)
}

func showBatch(s streams, asJSON bool, id string, status client.Status, st client.BatchState) error {
	b := api.BatchOf(id, status, &st)
	if asJSON {
		return writeJSON(s.out, b)
	}
	f := &term.Fields{}
	f.Add("Batch", id)
	f.Add("Status", b.Status)
	f.Add("Request", b.Request())
	f.Add("Where", cmp.Or(b.Where, "(all)"))
	f.Add("Instances", instances(client.Counts{Count: b.Total, AtLeast: b.AtLeast}))
	f.Add("Sent", fmt.Sprintf("%d, %d skipped", b.Sent, b.Skipped))
	f.AddText("Problem", b.Problem)
	return f.Write(s.out)
}

type batchCancelCmd struct{ batchFlags }

// Run starts the batch.
func (c *batchCancelCmd) Run(ctx context.Context, s streams) error {
	return c.run(ctx, s, client.Batch{Verb: client.BatchCancel})
}

type batchTerminateCmd struct{ batchFlags }

// Run starts the batch.
func (c *batchTerminateCmd) Run(ctx context.Context, s streams) error {
	return c.run(ctx, s, client.Batch{Verb: client.BatchTerminate})
}

type batchPauseCmd struct {
	batchFlags
	Stop bool `help:"Also cancel running activities, which run again when the instances are resumed."`
}

// Run starts the batch.
func (c *batchPauseCmd) Run(ctx context.Context, s streams) error {
	return c.run(ctx, s, client.Batch{Verb: client.BatchPause, Stop: c.Stop})
}

type batchResumeCmd struct{ batchFlags }

// Run starts the batch.
func (c *batchResumeCmd) Run(ctx context.Context, s streams) error {
	return c.run(ctx, s, client.Batch{Verb: client.BatchResume})
}

type batchRetryCmd struct {
	batchFlags
	FromStart bool `help:"Restart them with their inputs and the newest version of the orchestration."`
}

// Run starts the batch.
func (c *batchRetryCmd) Run(ctx context.Context, s streams) error {
	return c.run(ctx, s, client.Batch{Verb: client.BatchRetry, FromStart: c.FromStart})
}

type batchRewindCmd struct {
	batchFlags
	To uint64 `required:"" placeholder:"EVENT" help:"Id of the last event to keep; the rest of its turn is kept, too."`
}

// Run starts the batch.
func (c *batchRewindCmd) Run(ctx context.Context, s streams) error {
	return c.run(ctx, s, client.Batch{Verb: client.BatchRewind, To: c.To})
}

type batchPurgeCmd struct {
	batchFlags
	Force bool `help:"Also purge running instances. Their activities and children are cancelled, and their code does not run."`
}

// Run starts the batch.
func (c *batchPurgeCmd) Run(ctx context.Context, s streams) error {
	return c.run(ctx, s, client.Batch{Verb: client.BatchPurge, Force: c.Force})
}

type batchSendCmd struct {
	Event string `arg:"" help:"Name of the event."`
	Data  string `arg:"" optional:"" help:"Data of the event as JSON, @FILE, or - for standard input."`
	batchFlags
}

// Run starts the batch.
func (c *batchSendCmd) Run(ctx context.Context, s streams) error {
	p, err := input(c.Data)
	if err != nil {
		return err
	}
	return c.run(ctx, s, client.Batch{Verb: client.BatchEvent, Event: c.Event, Data: p.Data})
}

type batchListCmd struct {
	Limit      int  `default:"20" help:"Maximum number of batches."`
	JSON       bool `name:"json" help:"Write one JSON object per batch."`
	connection `group:"Connection"`
}

// Run lists the batches.
func (c *batchListCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	t := &term.Table{Header: []string{"BATCH", "STATUS", "REQUEST", "WHERE", "TOTAL", "SENT"}, Right: []int{4, 5}}
	for row, err := range cl.Batches(ctx, c.Limit) {
		if err != nil {
			return err
		}
		st, status, err := cl.DescribeBatch(ctx, row.Instance)
		if errors.Is(err, client.ErrNoBatch) { // just purged
			continue
		}
		if err != nil {
			return err
		}
		if !c.JSON {
			t.Add(row.Instance, string(status), api.BatchOf(row.Instance, status, &st).Request(), cmp.Or(st.Batch.Where, "(all)"), st.Total, st.Sent)
			continue
		}
		if err := writeJSON(s.out, api.BatchOf(row.Instance, status, &st)); err != nil {
			return err
		}
	}
	if c.JSON {
		return nil
	}
	return t.WriteOr(s.out, "There are no batches.")
}

type batchDescribeCmd struct {
	ID         string `arg:"" help:"Id of the batch."`
	JSON       bool   `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Validate checks the id.
func (c *batchDescribeCmd) Validate() error { return pawl.ValidateID(c.ID) }

// Run describes the batch.
func (c *batchDescribeCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	st, status, err := cl.DescribeBatch(ctx, c.ID)
	if err != nil {
		return err
	}
	return showBatch(s, c.JSON, c.ID, status, st)
}
