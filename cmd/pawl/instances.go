package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// outcome is how a command that waits tells the end of an instance.
type outcome struct {
	ID     string          `json:"id"`
	Status client.Status   `json:"status,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Code   string          `json:"code,omitempty"`
}

type startCmd struct {
	reach
	Orchestration string        `arg:"" help:"Name of the orchestration."`
	ID            string        `arg:"" optional:"" help:"Id of the instance; made up if not given."`
	Input         string        `help:"Input as JSON, @FILE, or - for standard input."`
	Wait          bool          `help:"Wait for the end; a failed instance is exit code 1."`
	Timeout       time.Duration `help:"With --wait: how long; 0 is for ever."`
	JSON          bool          `name:"json" help:"Write JSON."`
}

// Run starts an instance.
func (c *startCmd) Run(ctx context.Context, s streams) error {
	in, err := input(c.Input)
	if err != nil {
		return err
	}
	if c.ID == "" {
		c.ID = c.Orchestration + "-" + nuid.Next()
	}
	if err := errors.Join(pawl.ValidateName(c.Orchestration), pawl.ValidateID(c.ID)); err != nil {
		return misuse{err}
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	run, err := client.StartRaw(ctx, cl, c.Orchestration, c.ID, in)
	if err != nil {
		return err
	}
	if c.Wait {
		return await(ctx, s, run, c.Timeout, c.JSON)
	}
	if c.JSON {
		return writeJSON(s.out, outcome{ID: c.ID})
	}
	_, err = fmt.Fprintln(s.out, c.ID)
	return err
}

// await waits for the end, shows it, and makes a failed instance an exit code.
func await(ctx context.Context, s streams, run *client.RawRun, timeout time.Duration, asJSON bool) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	result, err := run.Result(ctx)
	o := outcome{ID: run.ID(), Status: client.Completed, Result: readable(result)}
	if err != nil {
		failure, ended := errors.AsType[*pawl.Failure](err)
		if !ended {
			return err
		}
		o.Status, o.Error, o.Code = client.Failed, failure.Message, failure.Code
		if errors.Is(err, context.Canceled) {
			o.Status = client.Cancelled
		}
	}
	switch {
	case asJSON:
		err = writeJSON(s.out, o)
	case o.Status == client.Completed:
		_, err = fmt.Fprintln(s.out, string(o.Result))
	default:
		_, err = fmt.Fprintf(s.err, "pawl: %s %s: %s\n", o.ID, o.Status, o.Error)
	}
	if err == nil && o.Status != client.Completed {
		return exit(1)
	}
	return err
}

type getCmd struct {
	reach
	ID      string        `arg:"" help:"Id of the instance."`
	Wait    bool          `help:"Wait for the end and show the result; a failed instance is exit code 1."`
	Timeout time.Duration `help:"With --wait: how long; 0 is for ever."`
	JSON    bool          `name:"json" help:"Write JSON."`
}

// Run tells about an instance.
func (c *getCmd) Run(ctx context.Context, s streams) error {
	if err := pawl.ValidateID(c.ID); err != nil {
		return misuse{err}
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	if c.Wait {
		return await(ctx, s, client.AttachRaw(cl, c.ID), c.Timeout, c.JSON)
	}
	d, err := client.Describe(ctx, cl, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, describedJSON(d))
	}
	return describe(s.out, d)
}

type sendCmd struct {
	reach
	ID    string `arg:"" help:"Id of the instance."`
	Event string `arg:"" help:"Name of the event."`
	Data  string `arg:"" optional:"" help:"What it carries, as JSON, @FILE, or - for standard input."`
	MsgID string `name:"message-id" help:"Id of the message: a repeat of it within an hour has no effect."`
	JSON  bool   `name:"json" help:"Write JSON."`
}

// Run sends an event.
func (c *sendCmd) Run(ctx context.Context, s streams) error {
	p, err := input(c.Data)
	if err != nil {
		return err
	}
	if err := errors.Join(pawl.ValidateID(c.ID), pawl.ValidateName(c.Event)); err != nil {
		return misuse{err}
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
	if err := client.SendRaw(ctx, cl, c.Event, c.ID, p, opts...); err != nil {
		return err
	}
	return accepted(s.out, c.JSON, c.ID, "event "+c.Event+" accepted")
}

type cancelCmd struct {
	reach
	ID     string `arg:"" help:"Id of the instance."`
	Reason string `help:"Why; histories and workers show it."`
	JSON   bool   `name:"json" help:"Write JSON."`
}

// Run asks an instance to end.
func (c *cancelCmd) Run(ctx context.Context, s streams) error {
	if err := pawl.ValidateID(c.ID); err != nil {
		return misuse{err}
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	if err := client.Cancel(ctx, cl, c.ID, c.Reason); err != nil {
		return err
	}
	return accepted(s.out, c.JSON, c.ID, "cancellation accepted")
}

func accepted(w io.Writer, asJSON bool, id, text string) error {
	if asJSON {
		return writeJSON(w, map[string]any{"id": id, "accepted": true})
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", id, text)
	return err
}

type historyCmd struct {
	reach
	ID        string `arg:"" help:"Id of the instance."`
	Execution uint64 `help:"Which generation; 0 is the latest."`
	JSON      bool   `name:"json" help:"Write JSON, an event a line."`
}

// Run shows a history.
func (c *historyCmd) Run(ctx context.Context, s streams) error {
	if err := pawl.ValidateID(c.ID); err != nil {
		return misuse{err}
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	var events []history.Event
	for e, err := range client.History(ctx, cl, c.ID, c.Execution) {
		if err != nil {
			return err
		}
		if c.JSON {
			if err := writeJSON(s.out, eventJSON(e.Event)); err != nil {
				return err
			}
			continue
		}
		events = append(events, e.Event)
	}
	if c.JSON {
		return nil
	}
	return eventTable(s.out, events)
}
