package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
)

type updateCmd struct {
	ID         string        `arg:"" help:"Id of the instance."`
	Update     string        `arg:"" help:"Name of the update."`
	Data       string        `arg:"" optional:"" help:"Input as JSON, @FILE, or - for standard input."`
	UpdateID   string        `name:"update-id" placeholder:"ID" help:"Id of the update: a repetition gets the same answer and is not executed again."`
	Deadline   time.Duration `placeholder:"DURATION" help:"The update expires if the instance has not received it by then."`
	JSON       bool          `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Run sends an update and shows its answer. A rejection is an error.
func (c *updateCmd) Run(ctx context.Context, s streams) error {
	p, err := input(c.Data)
	if err != nil {
		return err
	}
	if err := errors.Join(pawl.ValidateID(c.ID), pawl.ValidateName(c.Update)); err != nil {
		return settings.Usage(err)
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	var opts []client.UpdateOption
	if c.UpdateID != "" {
		opts = append(opts, client.UpdateID(c.UpdateID))
	}
	if c.Deadline > 0 {
		opts = append(opts, client.Deadline(c.Deadline))
	}
	sent, err := cl.SendUpdateRaw(ctx, c.Update, c.ID, p, opts...)
	if err != nil {
		return err
	}
	answer, rejection := sent.Answer(ctx)
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
	return errors.Join(rejection, json.NewEncoder(s.out).Encode(a))
}

type queryCmd struct {
	ID         string `arg:"" help:"Id of the instance."`
	Query      string `arg:"" help:"Name of the query."`
	Data       string `arg:"" optional:"" help:"Input as JSON, @FILE, or - for standard input."`
	JSON       bool   `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Run asks an instance for its state.
func (c *queryCmd) Run(ctx context.Context, s streams) error {
	p, err := input(c.Data)
	if err != nil {
		return err
	}
	if err := errors.Join(pawl.ValidateID(c.ID), pawl.ValidateName(c.Query)); err != nil {
		return settings.Usage(err)
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	got, err := cl.QueryRaw(ctx, c.Query, c.ID, p)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(api.QueryAnswerOf(c.ID, c.Query, got))
	}
	_, err = fmt.Fprintln(s.out, string(show.Payload(got.Value)))
	return err
}
