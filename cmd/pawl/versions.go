package main

import (
	"context"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type versionsCmd struct {
	JSON       bool `name:"json" help:"Write a JSON object."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *versionsCmd) Help() string {
	return "A version without instances can be removed from the code. Instances of a version that no orchestrator has are stalled. " +
		"Orchestrators without partitions are not listed."
}

// Run counts the versions.
func (c *versionsCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	v, err := cl.Versions(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, api.VersionsOf(v))
	}
	t := &term.Table{Header: []string{"ORCHESTRATION", "VERSION", "INSTANCES", "ORCHESTRATORS"}, Right: []int{2}, Fold: 4}
	for _, x := range v.Versions {
		have := "all"
		if n := len(x.Orchestrators); n == 0 {
			have = "none"
		} else if n < len(v.Orchestrators) {
			have = abbreviated(x.Orchestrators)
		}
		t.Add(x.Orchestration, x.Version, x.Instances, have)
	}
	if err := t.WriteOr(s.out, "No orchestration is registered."); err != nil || !v.Partial {
		return err
	}
	return term.Line(s.err, "A partition has more than 20,000 instances, of which only 20,000 are counted.")
}
