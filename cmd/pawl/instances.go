package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

type getCmd struct {
	ID string `arg:"" help:"Id of the instance."`
	waiting
	reach `group:"Connection"`
}

// AfterApply checks the settings.
func (c *getCmd) AfterApply() error { return errors.Join(c.waiting.AfterApply(), c.reach.AfterApply()) }

// Run tells about an instance.
func (c *getCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.about(ctx, s, c.ID)
	if err != nil {
		return err
	}
	defer done()
	if c.Wait {
		return c.await(ctx, s, cl, cl.AttachRaw(c.ID))
	}
	d, err := cl.Describe(ctx, c.ID)
	if err != nil {
		return err
	}
	kin := childrenOf(ctx, cl, d)
	if c.JSON {
		return writeJSON(s.out, api.InstanceOf(d, kin.lookup))
	}
	return describe(s.out, d, kin)
}

type sendCmd struct {
	ID    string `arg:"" help:"Id of the instance."`
	Event string `arg:"" help:"Name of the event."`
	Data  string `arg:"" optional:"" help:"What it carries, as JSON, @FILE, or - for standard input."`
	MsgID string `name:"message-id" placeholder:"ID" help:"Id of the message: a repeat of it within an hour has no effect."`
	JSON  bool   `name:"json" help:"Write JSON."`
	reach `group:"Connection"`
}

// Run sends an event.
func (c *sendCmd) Run(ctx context.Context, s streams) error {
	p, err := input(c.Data)
	if err != nil {
		return err
	}
	if err := errors.Join(pawl.ValidateID(c.ID), pawl.ValidateName(c.Event)); err != nil {
		return settings.Usage(err)
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	var opts []client.Option
	if c.MsgID != "" {
		opts = append(opts, client.MessageID(c.MsgID))
	}
	if err := cl.SendRaw(ctx, c.Event, c.ID, p, opts...); err != nil {
		return err
	}
	return accepted(s.out, c.JSON, c.ID, "event "+c.Event+" accepted")
}

type cancelCmd struct {
	ID     string `arg:"" help:"Id of the instance."`
	Reason string `placeholder:"TEXT" help:"Why; histories and workers show it."`
	JSON   bool   `name:"json" help:"Write JSON."`
	reach  `group:"Connection"`
}

// Run asks an instance to end.
func (c *cancelCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.about(ctx, s, c.ID)
	if err != nil {
		return err
	}
	defer done()
	if err := cl.Cancel(ctx, c.ID, c.Reason); err != nil {
		return err
	}
	return accepted(s.out, c.JSON, c.ID, "cancellation accepted")
}

func accepted(w io.Writer, asJSON bool, id, text string) error {
	if asJSON {
		return writeJSON(w, api.Accepted{Instance: id, Accepted: true})
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", id, text)
	return err
}
