package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
)

type statusCmd struct {
	ID         string `arg:"" help:"Id of the instance."`
	Follow     bool   `help:"Show every change, one per line, until the instance ends."`
	JSON       bool   `name:"json" help:"Write one JSON object per status."`
	connection `group:"Connection"`
}

// statusLine is a custom status as JSON. While an instance is followed, a line has either its custom status or, at its end, its
// status.
type statusLine struct {
	Instance string          `json:"instance"`
	Status   string          `json:"status,omitempty"`
	Version  uint64          `json:"version,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	Cleared  bool            `json:"cleared,omitempty"`
}

// Run shows the custom status.
func (c *statusCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.toInstance(ctx, s, c.ID)
	if err != nil {
		return err
	}
	defer done()
	if c.Follow {
		return c.follow(ctx, s, cl)
	}
	d, err := cl.Describe(ctx, c.ID)
	if err != nil {
		return err
	}
	l := statusLine{Instance: c.ID, Status: string(d.Status)}
	if d.CustomStatus != nil {
		l.Version, l.Value, l.Cleared = d.CustomStatus.Version, show.Payload(d.CustomStatus.Value), d.CustomStatus.Cleared
	}
	if l.Version == 0 && !c.JSON {
		_, err := fmt.Fprintf(s.err, "pawl: %s has no custom status\n", c.ID)
		return err
	}
	return c.show(s, l)
}

// follow shows every custom status that it receives. One that is set while the previous one is in transit replaces it.
func (c *statusCmd) follow(ctx context.Context, s streams, cl *client.Client) error {
	handle := pawl.NewStatus[json.RawMessage]()
	for after := uint64(0); ; {
		at, err := client.NextStatus(ctx, cl, handle, c.ID, after)
		ended, over := errors.AsType[*client.EndedError](err)
		switch {
		case over && c.JSON:
			return c.show(s, statusLine{Instance: c.ID, Status: string(ended.Status)})
		case over:
			_, err := fmt.Fprintf(s.err, "pawl: %s has ended: %s\n", c.ID, ended.Status)
			return err
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("interrupted; %s continues: %w", c.ID, context.Cause(ctx))
		case errors.Is(err, pawl.ErrUndecodable): // it has a version only
		case err != nil:
			return err
		}
		after = at.Version
		if err := c.show(s, statusLine{Instance: c.ID, Version: at.Version, Value: at.Value, Cleared: at.Cleared}); err != nil {
			return err
		}
	}
}

func (c *statusCmd) show(s streams, l statusLine) error {
	if c.JSON {
		return writeJSON(s.out, l)
	}
	text := string(l.Value)
	if l.Cleared {
		text = "(cleared)"
	}
	_, err := fmt.Fprintln(s.out, text)
	return err
}
