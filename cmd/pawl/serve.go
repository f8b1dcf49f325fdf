package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/fleet"
)

type serveNATSCmd struct {
	Dir  string `required:"" help:"Directory of the store."`
	Port int    `required:"" help:"TCP port on 127.0.0.1."`
}

// Run runs NATS alone, so that a benchmark can have it in a process of its own.
func (c *serveNATSCmd) Run(ctx context.Context) error {
	ctx, cancel := untilLeashed(ctx)
	defer cancel()
	n, err := embedded.StartNATS(ctx, embedded.NATSOptions{Dir: c.Dir, Port: c.Port})
	if err != nil {
		return err
	}
	<-ctx.Done()
	n.Stop()
	return nil
}

type serveOrchestrator struct{ fleet.Orchestrator }

// Run runs an orchestrator.
func (c *serveOrchestrator) Run(s streams) error {
	return asExit(c.Orchestrator.Run(s.err, fx.Invoke(leashed)))
}

type serveWorker struct{ fleet.Worker }

// Run runs a worker.
func (c *serveWorker) Run(s streams) error { return asExit(c.Worker.Run(s.err, fx.Invoke(leashed))) }

func asExit(code int) error {
	if code == 0 {
		return nil
	}
	return exit(code)
}

// leashed stops the program when its standard input ends. The goroutine ends with the
// process: a read can not be taken back.
func leashed(program fx.Shutdowner) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = program.Shutdown() // it may be stopping
	}()
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
		return misuse{err}
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
