package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
)

// operateFlags are the flags of requests of operators about an instance.
type operateFlags struct {
	ID string `arg:"" help:"Id of the instance."`
	requestFlags
}

// do makes a request, and writes its outcome.
func (c *operateFlags) do(ctx context.Context, s streams, what string, request func(context.Context, *client.Client) (client.Operated, error)) error {
	return c.about(ctx, s, c.ID, what, request)
}

// requestFlags are the flags of all requests of operators.
type requestFlags struct {
	Reason     string        `placeholder:"TEXT" help:"Reason, shown in histories and to workers."`
	Timeout    time.Duration `default:"30s" help:"Maximum wait for the effect. The request takes effect later nevertheless."`
	JSON       bool          `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

func (c *requestFlags) options() []client.OperateOption {
	return []client.OperateOption{client.Reason(c.Reason)}
}

// about makes a request about an instance, and writes its outcome.
func (c *requestFlags) about(
	ctx context.Context, s streams, id, what string, request func(context.Context, *client.Client) (client.Operated, error),
) error {
	if c.Timeout <= 0 {
		return settings.Usage(fmt.Errorf("--timeout must be positive (got %s)", c.Timeout))
	}
	cl, done, err := c.toInstance(ctx, s, id)
	if err != nil {
		return err
	}
	defer done()
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	got, err := request(limited, cl)
	if errors.Is(err, client.ErrPending) && ctx.Err() == nil {
		return fmt.Errorf("%s has not been %s within %s, and will be later%s", id, what, c.Timeout, because(ctx, cl, id))
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, api.OperatedOf(got))
	}
	state := fmt.Sprintf("execution %d", got.Execution)
	if string(got.Status) != what {
		state = fmt.Sprintf("%s, %s", got.Status, state)
	}
	_, err = fmt.Fprintf(s.out, "%s: %s (%s)\n", id, what, state)
	return err
}

// pausable is what is paused and resumed: an instance, or an action.
type pausable struct {
	ID     string `arg:"" optional:"" help:"Id of the instance."`
	Action string `placeholder:"NAME" help:"Instead of an id: an activity, or an orchestration. None of its calls or starts is admitted while it is paused; they wait at its limit, and what was admitted goes on."`
	requestFlags
}

// Validate rejects invalid combinations.
func (c *pausable) Validate() error {
	if (c.ID == "") == (c.Action == "") {
		return errors.New("give the id of an instance, or --action")
	}
	if c.Action != "" {
		return pawl.ValidateName(c.Action)
	}
	return nil
}

// changePolicy pauses or resumes the action.
func (c *pausable) changePolicy(ctx context.Context, s streams, what string, change func(*client.Client) error) error {
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	if err := change(cl); err != nil {
		return err
	}
	if what == "paused" {
		warnUnknown(ctx, s, cl, c.Action)
	}
	if c.JSON {
		return writeJSON(s.out, map[string]any{"action": c.Action, "paused": what == "paused"})
	}
	_, err = fmt.Fprintf(s.out, "%s: %s\n", c.Action, what)
	return err
}

type pauseCmd struct {
	pausable
	Stop bool `help:"Also cancel the activities that run; they run again when the instance is resumed."`
}

// Run pauses an instance, or an action.
func (c *pauseCmd) Run(ctx context.Context, s streams) error {
	if c.Action != "" && c.Stop {
		return settings.Usage(errors.New("--stop is for an instance: what was admitted of an action goes on"))
	}
	if c.Action != "" {
		return c.changePolicy(ctx, s, "paused", func(cl *client.Client) error { return cl.PauseAction(ctx, c.Action, client.Reason(c.Reason)) })
	}
	opts := c.options()
	if c.Stop {
		opts = append(opts, client.Stop())
	}
	return c.about(ctx, s, c.ID, "paused", func(ctx context.Context, cl *client.Client) (client.Operated, error) {
		return cl.Pause(ctx, c.ID, opts...)
	})
}

type resumeCmd struct{ pausable }

// Run resumes an instance, or an action.
func (c *resumeCmd) Run(ctx context.Context, s streams) error {
	if c.Action != "" {
		return c.changePolicy(ctx, s, "resumed", func(cl *client.Client) error { return cl.ResumeAction(ctx, c.Action, client.Reason(c.Reason)) })
	}
	return c.about(ctx, s, c.ID, "resumed", func(ctx context.Context, cl *client.Client) (client.Operated, error) {
		return cl.Resume(ctx, c.ID, c.options()...)
	})
}

type terminateCmd struct{ operateFlags }

// Run terminates an instance.
func (c *terminateCmd) Run(ctx context.Context, s streams) error {
	return c.do(ctx, s, "terminated", func(ctx context.Context, cl *client.Client) (client.Operated, error) {
		return cl.Terminate(ctx, c.ID, c.options()...)
	})
}

type rewindCmd struct {
	operateFlags
	To     uint64 `required:"" placeholder:"EVENT" help:"Event id of the history: it and the rest of its step are kept."`
	DryRun bool   `help:"Show what would run again, and do nothing."`
}

// Run rewinds an instance.
func (c *rewindCmd) Run(ctx context.Context, s streams) error {
	if c.To == 0 {
		return settings.Usage(errors.New("--to must be an event id of the history, from 1"))
	}
	if c.DryRun {
		return c.plan(ctx, s, c.To, nil)
	}
	return c.do(ctx, s, "rewound", func(ctx context.Context, cl *client.Client) (client.Operated, error) {
		return cl.Rewind(ctx, c.ID, c.To, c.options()...)
	})
}

type retryCmd struct {
	operateFlags
	FromStart bool `help:"Start again with the input, and with the newest version of the orchestration."`
	DryRun    bool `help:"Show what would run again, and do nothing."`
}

// Run retries a failed instance.
func (c *retryCmd) Run(ctx context.Context, s streams) error {
	opts := c.options()
	if c.FromStart {
		opts = append(opts, client.FromStart())
	}
	if c.DryRun {
		return c.plan(ctx, s, 0, opts)
	}
	return c.do(ctx, s, "retried", func(ctx context.Context, cl *client.Client) (client.Operated, error) {
		return cl.Retry(ctx, c.ID, opts...)
	})
}

// plan writes what a rewind, or a retry, would do.
func (c *operateFlags) plan(ctx context.Context, s streams, to uint64, opts []client.OperateOption) error {
	cl, done, err := c.toInstance(ctx, s, c.ID)
	if err != nil {
		return err
	}
	defer done()
	p, err := cl.PlanRewind(ctx, c.ID, to, opts...)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, api.RewindPlanOf(p))
	}
	for _, line := range show.RewindPlan(c.ID, p) {
		if _, err := fmt.Fprintln(s.out, line); err != nil {
			return err
		}
	}
	return nil
}
