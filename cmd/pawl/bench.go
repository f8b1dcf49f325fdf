package main

import (
	"context"

	"github.com/pawlrun/pawl/internal/bench"
)

type benchCmd struct{ bench.Command }

// Run runs the scenario.
func (c *benchCmd) Run(ctx context.Context, s streams) error { return c.Measure(ctx, s.out, s.err) }
