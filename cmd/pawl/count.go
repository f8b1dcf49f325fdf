package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type countCmd struct {
	Where  string `placeholder:"FILTER" help:"Only instances that pass a filter, as in pawl list."`
	By     string `placeholder:"FIELD" help:"Count by status, orchestration, version, parent, code, or the name of an attribute; without it only the number."`
	JSON   bool   `name:"json" help:"Write a JSON object."`
	reader `group:"Connection"`
}

// reader is connection without --by, which is the field here.
type reader struct {
	settings.Namespace
	settings.NATS
	settings.Log
}

// AfterApply checks the settings.
func (r reader) AfterApply() error { return r.connection().AfterApply() }

// ProvideClient connects.
func (r reader) ProvideClient(ctx context.Context, s streams, opened *closers) (*client.Client, error) {
	return r.connection().ProvideClient(ctx, s, opened)
}

func (r reader) connection() connection {
	return connection{Namespace: r.Namespace, NATS: r.NATS, Log: r.Log}
}

// Validate rejects what the orchestrators would.
func (c *countCmd) Validate() error {
	if _, err := filter.Grouping(c.By); err != nil {
		return fmt.Errorf("--by: %w", err)
	}
	return checkWhere(c.Where)
}

// Run counts instances, also if some partitions did not answer.
func (c *countCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	o := client.CountOptions{Where: c.Where, By: c.By}
	n, failed := cl.Count(ctx, o)
	if c.JSON {
		return cmp.Or(writeJSON(s.out, api.CountsOf(n, o)), failed)
	}
	t := &term.Table{Right: []int{1}, Header: []string{"VALUE", "INSTANCES"}}
	for _, g := range n.Groups {
		t.Add(cmp.Or(g.Value, "(none)"), g.Count)
	}
	if n.Other > 0 {
		t.Add("(others)", n.Other)
	}
	if c.By != "" {
		if err := t.Write(s.out); err != nil {
			return err
		}
	}
	var err error
	total := strconv.FormatUint(n.Count, 10)
	if n.AtLeast {
		total = "at least " + total
	}
	if c.By == "" {
		_, err = fmt.Fprintln(s.out, total)
	} else if n.AtLeast {
		_, err = fmt.Fprintln(s.err, "There are "+total+" instances: a count reads a bounded number of them. A filter of fewer terms, or = and in instead of other comparisons, may count them all.")
	}
	return cmp.Or(failed, err)
}
