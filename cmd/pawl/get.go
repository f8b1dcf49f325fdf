package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

type getCmd struct {
	instanceArg
	waiting
	connection `group:"Connection"`
}

// AfterApply checks the settings.
func (c *getCmd) AfterApply() error {
	return errors.Join(c.waiting.AfterApply(), c.connection.AfterApply())
}

// Run describes an instance.
func (c *getCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if c.Wait {
		return c.await(ctx, s, cl, cl.AttachRaw(c.ID))
	}
	d, err := cl.Describe(ctx, c.ID)
	if err != nil {
		return err
	}
	children := descendantsOf(ctx, cl, d)
	if c.JSON {
		return writeJSON(s.out, api.InstanceOf(d, children.lookup))
	}
	return describe(s.out, d, children)
}

type sendCmd struct {
	ID         string `arg:"" help:"Id of the instance."`
	Event      string `arg:"" help:"Name of the event."`
	Data       string `arg:"" optional:"" help:"Data of the event as JSON, @FILE, or - for standard input."`
	MsgID      string `name:"message-id" placeholder:"ID" help:"Id of the message. A message with an id that was used within the last hour has no effect."`
	JSON       bool   `name:"json" help:"Write JSON."`
	connection `group:"Connection"`

	payload history.Payload // of Data
}

// AfterApply reads the data and checks the settings.
func (c *sendCmd) AfterApply() (err error) {
	c.payload, err = input(c.Data)
	return errors.Join(err, pawl.ValidateID(c.ID), pawl.ValidateName(c.Event), c.connection.AfterApply())
}

// Run sends an event.
func (c *sendCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	note, err := receives(ctx, cl, c.ID, "the event is kept for its start, for 24 h")
	if err != nil {
		return err
	}
	var opts []client.Option
	if c.MsgID != "" {
		opts = append(opts, client.MessageID(c.MsgID))
	}
	if err := cl.SendRaw(ctx, c.Event, c.ID, c.payload, opts...); err != nil {
		return err
	}
	return accepted(s, c.JSON, c.ID, "event "+c.Event+" accepted", note)
}

type cancelCmd struct {
	instanceArg
	Reason     string `placeholder:"TEXT" help:"Reason, shown in histories and to workers."`
	JSON       bool   `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Run requests the cancellation of an instance.
func (c *cancelCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	note, err := receives(ctx, cl, c.ID, "the request takes effect only if its start is in transit")
	if err != nil {
		return err
	}
	if err := cl.Cancel(ctx, c.ID, c.Reason); err != nil {
		return err
	}
	return accepted(s, c.JSON, c.ID, "cancellation accepted", note)
}

// receives returns an error if the instance has ended, because it receives no more inputs, and a note if it does not exist.
func receives(ctx context.Context, cl *client.Client, id, unknown string) (note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	d, err := cl.Describe(ctx, id)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return "there is no instance " + id + ": " + unknown, nil
	case err == nil && d.Status.Ended():
		return "", fmt.Errorf("nothing was sent: %s has ended: %s at %s UTC", id, d.Status, formatSecond(d.Ended))
	default: // an input is accepted even while the partition has no owner
		return "", nil
	}
}

// accepted reports that an input was accepted. The note, if there is one, goes to standard error.
func accepted(s streams, asJSON bool, id, text, note string) error {
	if note != "" {
		if err := s.note("%s", note); err != nil {
			return err
		}
	}
	return s.answer(asJSON, api.Accepted{Instance: id, Accepted: true}, "%s: %s", id, text)
}
