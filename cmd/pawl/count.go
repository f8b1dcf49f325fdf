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
	Where string `placeholder:"FILTER" help:"Only instances that pass a filter, as in pawl list."`
	By    string `placeholder:"FIELD" help:"Count by status, orchestration, version, parent, code, or the name of an attribute. Default: only the total."`
	JSON  bool   `name:"json" help:"Write a JSON object."`

	// The flags of connection except for its --by, which has another meaning here.
	settings.Namespace `group:"Connection"`
	settings.NATS      `group:"Connection"`
	settings.Log       `group:"Connection"`
}

// Validate rejects fields and filters that the orchestrators would reject.
func (c *countCmd) Validate() error {
	if _, err := filter.Grouping(c.By); err != nil {
		return fmt.Errorf("--by: %w", err)
	}
	return checkWhere(c.Where)
}

// Run counts instances. If some partitions did not answer, it shows the others and returns an error.
func (c *countCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := connection{Namespace: c.Namespace, NATS: c.NATS, Log: c.Log}.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
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
	total := strconv.FormatUint(n.Count, 10)
	if n.AtLeast {
		total = "at least " + total
	}
	if c.By == "" {
		_, err = fmt.Fprintln(s.out, total)
	} else if n.AtLeast {
		err = term.Line(s.err, "There are "+total+" instances: a count reads a bounded number of them. A filter with fewer terms, or with = and in instead of other comparisons, may count all.")
	}
	return cmp.Or(failed, err)
}
