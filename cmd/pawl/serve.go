package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/internal/settings"
)

type serveWorkerCmd struct{ fleet.Worker }

// Run runs a worker until a signal or the end of standard input.
func (c *serveWorkerCmd) Run(s streams) error {
	return settings.Exit(c.Worker.Run(s.err, fx.Invoke(func(program fx.Shutdowner) {
		process.OnStdinClosed(func() { _ = program.Shutdown() }) // it may be stopping
	})))
}

type probeCmd struct {
	URL string `arg:"" help:"What to GET."`
}

// Run asks once.
func (c *probeCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return settings.Usage(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // only for the message
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", c.URL, resp.Status, body)
	}
	return nil
}
