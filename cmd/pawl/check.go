package main

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/history/store"
)

type checkCmd struct {
	settings.Namespace
	settings.Redis
	settings.Log
	JSON bool `name:"json" help:"Write JSON."`
}

// Run checks a namespace. Findings are exit code 1.
func (c *checkCmd) Run(ctx context.Context, s streams) error {
	rdb, err := c.OpenRedis(ctx, c.Open(s.err))
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }() // it was only read from
	runner := redisx.NewRunner(rdb)
	defer runner.Close()
	var p *term.Progress
	checked, err := store.New(runner, redisx.NewSpace(c.Namespace.Namespace)).Check(ctx, func(done, of int) {
		if p == nil {
			p = term.NewProgress(s.err, of, "instances")
		}
		p.Set(done)
	})
	if p != nil {
		p.End()
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(s.out, checked)
	} else {
		err = findings(s, checked)
	}
	if err == nil && len(checked.Findings) > 0 {
		return exit(1)
	}
	return err
}

func findings(s streams, c store.Checked) error {
	if len(c.Findings) > 0 {
		t := &term.Table{Header: []string{"INSTANCE", "FINDING"}}
		for _, f := range c.Findings {
			t.Add(f.Instance, f.Rule)
		}
		if err := t.Write(s.out); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.out, "%d instances (%d running, %d stuck), %d events, %d leases, %d unread inputs: %d findings\n",
		c.Instances, c.Running, c.Stuck, c.Events, c.Leases, c.Unread, len(c.Findings))
	return err
}
