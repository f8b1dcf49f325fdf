package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
)

type statusCmd struct {
	instanceArg
	Name       string `help:"Name of the status. Default: the status without a name."`
	Follow     bool   `help:"Show every change, one per line, until the instance ends."`
	JSON       bool   `name:"json" help:"Write one JSON object per status."`
	connection `group:"Connection"`
}

// statusLine is a custom status as JSON. With --follow, the last line contains only the status of the instance.
type statusLine struct {
	Instance string          `json:"instance"`
	Status   string          `json:"status,omitempty"`
	Version  uint64          `json:"version,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	Cleared  bool            `json:"cleared,omitempty"`
}

// Run shows the custom status.
func (c *statusCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if c.Follow {
		return c.follow(ctx, s, cl)
	}
	d, err := cl.Describe(ctx, c.ID)
	if err != nil {
		return err
	}
	l := statusLine{Instance: c.ID, Status: string(d.Status)}
	at := d.CustomStatus
	if named, ok := d.NamedStatuses[c.Name]; ok {
		at = &named
	} else if c.Name != "" {
		at = nil
	}
	if at != nil {
		l.Version, l.Value, l.Cleared = at.Version, show.Payload(at.Value), at.Cleared
	}
	if l.Version == 0 && !c.JSON {
		what := "custom status"
		if names := slices.Sorted(maps.Keys(d.NamedStatuses)); c.Name != "" {
			what = "status " + c.Name
		} else if len(names) > 0 {
			what += " without a name, but " + strings.Join(names, ", ")
		}
		return s.note("%s has no %s", c.ID, what)
	}
	return c.show(s, l)
}

// follow shows the changes of the custom status until the instance ends. It skips a status that is replaced before it was sent.
func (c *statusCmd) follow(ctx context.Context, s streams, cl *client.Client) error {
	handle := pawl.NewStatus[json.RawMessage]()
	if c.Name != "" {
		handle = pawl.NewNamedStatus[json.RawMessage](c.Name)
	}
	for after := uint64(0); ; {
		at, err := client.NextStatus(ctx, cl, handle, c.ID, after)
		ended, over := errors.AsType[*client.EndedError](err)
		switch {
		case over && c.JSON:
			return c.show(s, statusLine{Instance: c.ID, Status: string(ended.Status)})
		case over:
			return s.note("%s has ended: %s", c.ID, ended.Status)
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("interrupted; %s continues: %w", c.ID, context.Cause(ctx))
		case errors.Is(err, pawl.ErrUndecodable): // only the version is known
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
