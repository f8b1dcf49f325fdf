package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type refusedCmd struct {
	Drop    []string `placeholder:"ID" help:"Remove the notes on refused inputs of an id. An instance with that id is not affected."`
	DropAll bool     `help:"Remove all notes."`
	confirmation
	JSON       bool `name:"json" help:"Write one JSON object per input; with --drop and --drop-all, per removed note."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *refusedCmd) Help() string {
	return "An input that its orchestrator cannot use is dropped; a note with the reason is kept for a day. Correct the sender, and send the input again."
}

// Validate rejects invalid combinations.
func (c *refusedCmd) Validate() error {
	if len(c.Drop) > 0 && c.DropAll {
		return errors.New("--drop-all excludes --drop")
	}
	return nil
}

// Run lists the notes on refused inputs, or removes them.
func (c *refusedCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	var rows []client.Refused
	var failed error // the notes of the partitions that answered are shown nevertheless
	for r, err := range cl.Refused(ctx) {
		if err != nil {
			failed = err
			break
		}
		if len(c.Drop) == 0 || slices.Contains(c.Drop, r.Instance) {
			rows = append(rows, r)
		}
	}
	ids := c.Drop
	if c.DropAll {
		for _, r := range rows {
			ids = append(ids, r.Instance)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		if len(ids) > 0 {
			if err := c.ask(ctx, s, fmt.Sprintf("Remove %s?", diagnose.Counted(len(rows), "note"))); err != nil {
				return err
			}
		}
	}
	for _, id := range ids {
		if err := cl.DropRefused(ctx, id); err != nil && (!c.DropAll || !errors.Is(err, client.ErrNotFound)) {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(c.write(s, rows), failed)
}

// write shows the notes, or the number of removed ones.
func (c *refusedCmd) write(s streams, rows []client.Refused) error {
	switch {
	case c.JSON:
		return writeLines(s.out, rows, api.RefusedOf)
	case len(c.Drop) > 0 || c.DropAll:
		_, err := fmt.Fprintf(s.out, "%s removed\n", diagnose.Counted(len(rows), "note"))
		return err
	}
	t := &term.Table{Header: []string{"INSTANCE", "REFUSED (UTC)", "REASON"}, Fold: 3}
	for _, r := range rows {
		t.Add(r.Instance, formatSecond(r.At), diagnose.OneLine(r.Reason))
	}
	return t.WriteOr(s.out, "There are no refused inputs.")
}
