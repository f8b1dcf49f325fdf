package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/external"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
)

type policyApplyCmd struct {
	File       string `arg:"" type:"existingfile" help:"YAML file of activities, as of worker --activities."`
	Reason     string `placeholder:"TEXT" help:"Reason, which the orchestrator logs with the requester."`
	JSON       bool   `name:"json" help:"Write one JSON object per policy."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *policyApplyCmd) Help() string {
	return "Sets the policy of each activity in the file that has a limit, as \"pawl policy set\" does. All other policies remain, including those of activities whose limit was removed from the file."
}

// Run sets the policies.
func (c *policyApplyCmd) Run(ctx context.Context, s streams) error {
	config, err := external.Read(c.File)
	if err == nil {
		_, err = config.Bindings(slog.New(slog.DiscardHandler)) // validates the whole file
	}
	if err != nil {
		return settings.Usage(err)
	}
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	set := 0
	for _, name := range slices.Sorted(maps.Keys(config.Activities)) {
		l := config.Activities[name].Limit
		if l == nil {
			continue
		}
		set++
		p := client.PolicyOf(*l)
		if err := cl.SetPolicy(ctx, limit.ActionLevel+name, p, client.Reason(c.Reason)); err != nil {
			return err
		}
		if err := s.answer(c.JSON, api.LevelPolicy{Level: limit.ActionLevel + name, Policy: api.PolicyOf(p)}, "%s: %s", limit.ActionLevel+name, diagnose.Policy(p)); err != nil {
			return err
		}
	}
	if set == 0 {
		return fmt.Errorf("no activity in %s has a limit", c.File)
	}
	return nil
}
