package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

// jobFlags describe a job.
type jobFlags struct {
	Input          string        `placeholder:"JSON" help:"Input as JSON, @FILE, or - for standard input."`
	Queue          string        `placeholder:"NAME" help:"Task queue of the activity. Default: the name of the activity."`
	Attempts       int           `default:"1" help:"Maximum number of attempts, with a backoff that doubles from one second up to a minute."`
	AttemptTimeout time.Duration `placeholder:"DURATION" help:"Timeout of each attempt, such as 30s. Default: none."`
	Within         time.Duration `placeholder:"DURATION" help:"Timeout of the job: all attempts, backoffs and waits. Default: none."`
}

// job reads and checks the flags.
func (f jobFlags) job(activity string) (client.Job, error) {
	switch {
	case f.Attempts < 1:
		return client.Job{}, settings.Usage(fmt.Errorf("--attempts must be positive (got %d)", f.Attempts))
	case f.AttemptTimeout < 0:
		return client.Job{}, settings.Usage(fmt.Errorf("--attempt-timeout must not be negative (got %s)", f.AttemptTimeout))
	case f.Within < 0:
		return client.Job{}, settings.Usage(fmt.Errorf("--within must not be negative (got %s)", f.Within))
	}
	in, err := input(f.Input)
	if err != nil {
		return client.Job{}, err
	}
	j := client.Job{
		Activity: activity, Queue: f.Queue, Input: in.Data, AttemptTimeout: client.Duration(f.AttemptTimeout), Within: client.Duration(f.Within),
	}
	if f.Attempts > 1 {
		j.Retry = &client.JobRetry{Attempts: f.Attempts}
	}
	return j, nil
}

type runCmd struct {
	Activity string        `arg:"" help:"Name of the activity."`
	ID       *string       `arg:"" optional:"" help:"Id of the job. Default: a generated one."`
	After    time.Duration `placeholder:"DURATION" help:"Delay, such as 1h. Default: none."`
	jobFlags
	waiting
	connection `group:"Connection"`
}

// AfterApply checks the settings.
func (c *runCmd) AfterApply() error {
	if c.After < 0 {
		return fmt.Errorf("--after must not be negative (got %s)", c.After)
	}
	return errors.Join(c.waiting.AfterApply(), c.connection.AfterApply())
}

// Run runs an activity as a job.
func (c *runCmd) Run(ctx context.Context, s streams) error {
	j, err := c.job(c.Activity)
	if err != nil {
		return err
	}
	j.After = client.Duration(c.After)
	o := order{orchestration: builtin.JobName, id: idOr(c.ID, c.Activity)}
	if o.input, err = j.Payload(); err == nil {
		err = pawl.ValidateID(o.id)
	}
	if err != nil {
		return settings.Usage(err)
	}
	return o.start(ctx, s, c.connection, c.waiting)
}
