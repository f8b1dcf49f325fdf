package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
)

// operateFlags are the arguments and flags of an operator's request to an instance.
type operateFlags struct {
	instanceArg
	requestFlags
}

// Validate checks the id and the flags.
func (c *operateFlags) Validate() error {
	return errors.Join(c.instanceArg.Validate(), c.requestFlags.Validate())
}

// requestFlags are the flags of all requests of operators.
type requestFlags struct {
	Reason     string        `placeholder:"TEXT" help:"Reason, shown in histories and to workers."`
	Timeout    time.Duration `default:"30s" help:"Maximum wait for the effect. After the timeout, the request still takes effect."`
	JSON       bool          `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Validate rejects a timeout that is not positive.
func (c *requestFlags) Validate() error {
	if c.Timeout <= 0 {
		return fmt.Errorf("--timeout must be positive (got %s)", c.Timeout)
	}
	return nil
}

func (c *requestFlags) options() []client.OperateOption {
	return []client.OperateOption{client.Reason(c.Reason)}
}

// about sends a request to an instance, waits for its effect, and writes the outcome.
func (c *requestFlags) about(ctx context.Context, s streams, cl *client.Client, id, what string, request func(context.Context) (client.Operated, error)) error {
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	got, err := request(limited)
	if errors.Is(err, client.ErrPending) && ctx.Err() == nil {
		return fmt.Errorf("%s was not %s within %s, and will be later%s", id, what, c.Timeout, because(ctx, cl, id))
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

// pausable selects the instance or the action to pause or resume.
type pausable struct {
	ID     string `arg:"" optional:"" help:"Id of the instance."`
	Action string `placeholder:"NAME" help:"Instead of an id: an activity or an orchestration. While it is paused, no call or start is admitted; they wait at its limit. Calls that were admitted continue."`
	requestFlags
}

// Validate rejects invalid combinations.
func (c *pausable) Validate() error {
	switch {
	case (c.ID == "") == (c.Action == ""):
		return errors.New("give the id of an instance, or --action")
	case c.Action != "":
		return errors.Join(pawl.ValidateName(c.Action), c.requestFlags.Validate())
	default:
		return errors.Join(pawl.ValidateID(c.ID), c.requestFlags.Validate())
	}
}

// changed reports that the action was paused or resumed.
func (c *pausable) changed(ctx context.Context, s streams, cl *client.Client, what string, err error) error {
	if err != nil {
		return err
	}
	if what == "paused" {
		warnUnknown(ctx, s, cl, c.Action, c.JSON)
	}
	return s.answer(c.JSON, map[string]any{"action": c.Action, "paused": what == "paused"}, "%s: %s", c.Action, what)
}

type pauseCmd struct {
	pausable
	Stop bool `help:"Also cancel running activities, which run again when the instance is resumed."`
}

// Validate rejects invalid combinations.
func (c *pauseCmd) Validate() error {
	if c.Action != "" && c.Stop {
		return errors.New("--stop is for an instance: admitted calls of an action continue")
	}
	return c.pausable.Validate()
}

// Run pauses an instance, or an action.
func (c *pauseCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if c.Action != "" {
		return c.changed(ctx, s, cl, "paused", cl.PauseAction(ctx, c.Action, client.Reason(c.Reason)))
	}
	opts := c.options()
	if c.Stop {
		opts = append(opts, client.Stop())
	}
	return c.about(ctx, s, cl, c.ID, "paused", func(ctx context.Context) (client.Operated, error) {
		return cl.Pause(ctx, c.ID, opts...)
	})
}

type resumeCmd struct{ pausable }

// Run resumes an instance, or an action.
func (c *resumeCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if c.Action != "" {
		return c.changed(ctx, s, cl, "resumed", cl.ResumeAction(ctx, c.Action, client.Reason(c.Reason)))
	}
	return c.about(ctx, s, cl, c.ID, "resumed", func(ctx context.Context) (client.Operated, error) {
		return cl.Resume(ctx, c.ID, c.options()...)
	})
}

type terminateCmd struct{ operateFlags }

// Run terminates an instance.
func (c *terminateCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	return c.about(ctx, s, cl, c.ID, "terminated", func(ctx context.Context) (client.Operated, error) {
		return cl.Terminate(ctx, c.ID, c.options()...)
	})
}

type rewindCmd struct {
	operateFlags
	To     uint64 `required:"" placeholder:"EVENT" help:"Id of the last event to keep; the rest of its turn is kept, too."`
	DryRun bool   `help:"Show which activities would run again, and do nothing."`
}

// Validate rejects the id 0, which no event has.
func (c *rewindCmd) Validate() error {
	if c.To == 0 {
		return errors.New("--to must be the id of an event, from 1")
	}
	return c.operateFlags.Validate()
}

// Run rewinds an instance.
func (c *rewindCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if c.DryRun {
		return c.plan(ctx, s, cl, c.To, nil)
	}
	return c.about(ctx, s, cl, c.ID, "rewound", func(ctx context.Context) (client.Operated, error) {
		return cl.Rewind(ctx, c.ID, c.To, c.options()...)
	})
}

type retryCmd struct {
	operateFlags
	FromStart bool `help:"Restart it with its input and the newest version of the orchestration."`
	DryRun    bool `help:"Show which activities would run again, and do nothing."`
}

// Run retries a failed instance.
func (c *retryCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	opts := c.options()
	if c.FromStart {
		opts = append(opts, client.FromStart())
	}
	if c.DryRun {
		return c.plan(ctx, s, cl, 0, opts)
	}
	return c.about(ctx, s, cl, c.ID, "retried", func(ctx context.Context) (client.Operated, error) {
		return cl.Retry(ctx, c.ID, opts...)
	})
}

// plan describes the effects of a rewind or a retry.
func (c *operateFlags) plan(ctx context.Context, s streams, cl *client.Client, to uint64, opts []client.OperateOption) error {
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
