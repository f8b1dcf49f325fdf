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
	"github.com/pawlrun/pawl/pkg/history"
)

type updateCmd struct {
	ID       string        `arg:"" help:"Id of the instance."`
	Update   string        `arg:"" help:"Name of the update."`
	Data     string        `arg:"" optional:"" help:"Input as JSON, @FILE, or - for standard input."`
	UpdateID string        `name:"update-id" placeholder:"ID" help:"Id of the update. A repeat with the same id returns the same answer and is not executed again."`
	Deadline time.Duration `placeholder:"DURATION" help:"Time after which the update expires if the instance has not received it."`
	Timeout  time.Duration `placeholder:"DURATION" help:"Maximum wait for the answer, such as 30s. Default: forever."`
	Start    string        `placeholder:"ORCHESTRATION" help:"Start the instance in the same message, if it does not exist."`
	Input    string        `placeholder:"JSON" help:"With --start: input as JSON, @FILE, or - for standard input."`
	JSON     bool          `name:"json" help:"Write JSON."`
	newInstance
	connection `group:"Connection"`

	payload, start history.Payload // of Data and Input
}

// AfterApply reads the inputs and checks the settings.
func (c *updateCmd) AfterApply() error {
	switch {
	case c.Start == "" && (c.Input != "" || len(c.Attribute) > 0 || c.Version != "" || c.RunTimeout != 0):
		return errors.New("--input, --attribute, --version and --run-timeout need --start")
	case c.Timeout < 0 || c.Deadline < 0:
		return errors.New("--timeout and --deadline must not be negative")
	case c.Input == "-" && c.Data == "-":
		return errors.New("the input of the update and --input cannot both be read from standard input")
	}
	var of, with error
	c.payload, of = input(c.Data)
	c.start, with = input(c.Input)
	bad := []error{of, with, pawl.ValidateID(c.ID), pawl.ValidateName(c.Update)}
	if c.Start != "" {
		bad = append(bad, pawl.ValidateName(c.Start))
	}
	return errors.Join(append(bad, c.connection.AfterApply())...)
}

// send sends the update, and the start if there is one.
func (c *updateCmd) send(ctx context.Context, cl *client.Client) (*client.RawUpdate, error) {
	options, err := c.options()
	if err != nil {
		return nil, settings.Usage(err)
	}
	var opts []client.UpdateOption
	for _, o := range options {
		opts = append(opts, o)
	}
	if c.UpdateID != "" {
		opts = append(opts, client.UpdateID(c.UpdateID))
	}
	if c.Deadline > 0 {
		opts = append(opts, client.Deadline(c.Deadline))
	}
	if c.Start == "" {
		return cl.SendUpdateRaw(ctx, c.Update, c.ID, c.payload, opts...)
	}
	return cl.UpdateWithStartRaw(ctx, c.Start, c.ID, c.start, c.Update, c.payload, opts...)
}

// Run sends an update and shows its answer. A rejection is an error.
func (c *updateCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	sent, err := c.send(ctx, cl)
	if err != nil {
		return err
	}
	answer, rejection := c.answer(ctx, s, cl, sent)
	a, err := api.UpdateAnswerOf(c.ID, c.Update, sent.ID(), answer, rejection)
	if err != nil {
		return err
	}
	if rejection != nil {
		rejection = fmt.Errorf("%s: %w", c.ID, rejection)
	}
	if !c.JSON {
		if rejection == nil {
			_, err = fmt.Fprintln(s.out, string(a.Result))
		}
		return errors.Join(rejection, err)
	}
	return errors.Join(rejection, writeJSON(s.out, a))
}

// answer waits for the answer, and reports obstacles meanwhile. An update that is not answered in time stays open.
func (c *updateCmd) answer(ctx context.Context, s streams, cl *client.Client, sent *client.RawUpdate) (history.Payload, error) {
	limited, cancel := withTimeout(ctx, c.Timeout)
	defer cancel()
	stop := reportObstacles(limited, s, cl, c.ID)
	answer, err := sent.Answer(limited)
	stop()
	again := fmt.Sprintf("the update stays open; \"pawl update %s %s --update-id %s\" waits for its answer", c.ID, c.Update, sent.ID())
	switch {
	case err == nil || client.Rejected(err):
	case ctx.Err() != nil:
		err = fmt.Errorf("interrupted; %s: %w", again, context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%s has not answered within %s%s; %s", c.ID, c.Timeout, because(ctx, cl, c.ID), again)
	}
	return answer, err
}

type queryCmd struct {
	ID         string `arg:"" help:"Id of the instance."`
	Query      string `arg:"" help:"Name of the query."`
	Data       string `arg:"" optional:"" help:"Input as JSON, @FILE, or - for standard input."`
	JSON       bool   `name:"json" help:"Write JSON."`
	connection `group:"Connection"`

	payload history.Payload // of Data
}

// AfterApply reads the input and checks the settings.
func (c *queryCmd) AfterApply() (err error) {
	c.payload, err = input(c.Data)
	return errors.Join(err, pawl.ValidateID(c.ID), pawl.ValidateName(c.Query), c.connection.AfterApply())
}

// Run sends a query and shows its answer.
func (c *queryCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	got, err := cl.QueryRaw(ctx, c.Query, c.ID, c.payload)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, api.QueryAnswerOf(c.ID, c.Query, got))
	}
	_, err = fmt.Fprintf(s.out, "%s\n", show.Payload(got.Value)) // not wrapped: JSON
	return err
}
