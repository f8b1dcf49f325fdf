package main

import (
	"context"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/internal/settings"
)

type serveWorkerCmd struct{ fleet.Worker }

// Run runs a worker until a signal or the end of standard input.
func (c *serveWorkerCmd) Run(s streams) error {
	return settings.Exit(c.Worker.Run(s.err, stopWithStdin()))
}

// stopWithStdin stops a program when its standard input ends.
func stopWithStdin() fx.Option {
	return fx.Invoke(func(program fx.Shutdowner) {
		process.OnStdinClosed(func() { _ = program.Shutdown() }) // fails only if the program is stopping already
	})
}

type probeCmd struct {
	URL string `arg:"" help:"URL to GET."`
}

// Run sends one request.
func (c *probeCmd) Run(ctx context.Context) error { return probe(ctx, c.URL) }
