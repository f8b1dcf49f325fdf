package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/client"
)

type healthCmd struct {
	JSON       bool `name:"json" help:"Write a JSON object."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *healthCmd) Help() string {
	return "The report is made by an orchestrator, which requests both servers. The command fails if one of them does not answer it."
}

// Run describes Redis and NATS.
func (c *healthCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	h, err := cl.Health(ctx)
	if err != nil {
		return err
	}
	return showHealth(s.out, h, c.JSON)
}

// showHealth describes the servers, and returns the errors that they report.
func showHealth(w io.Writer, h client.Health, asJSON bool) error {
	var errs []error
	for _, n := range h.Redis {
		if n.Error != "" {
			errs = append(errs, errors.New(n.Error))
		}
	}
	for _, text := range []string{h.RedisError, h.NATSError} {
		if text != "" {
			errs = append(errs, errors.New(text))
		}
	}
	failed := errors.Join(errs...)
	if asJSON {
		return errors.Join(writeJSON(w, api.HealthOf(h)), failed)
	}
	f := &term.Fields{}
	for _, n := range h.Redis {
		f.Add("redis "+n.Address, diagnose.Redis(n))
	}
	f.Add("nats "+h.NATS.Server, h.NATS.Version+", answers in "+diagnose.Latency(h.NATS.Latency))
	for _, x := range h.NATS.Streams {
		f.Add("stream", diagnose.Stream(x))
	}
	for _, queue := range slices.Sorted(maps.Keys(h.NATS.Backlog)) {
		f.Add("queue "+queue, diagnose.Counted(int(h.NATS.Backlog[queue]), "task")+" that no worker has claimed") //nolint:gosec // a length
	}
	return errors.Join(f.Write(w), failed)
}

type drainCmd struct {
	Worker     string `arg:"" help:"Name of the worker, as in pawl workers."`
	JSON       bool   `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *drainCmd) Help() string {
	return "Running activities may finish. From then on, the worker is not ready. Only a restart of its process makes it take tasks again."
}

// Run drains a worker.
func (c *drainCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if err := cl.DrainWorker(ctx, c.Worker); err != nil {
		return err
	}
	return s.answer(c.JSON, map[string]any{"worker": c.Worker, "draining": true}, "%s: takes no more tasks", c.Worker)
}

type requeueCmd struct {
	instanceArg
	JSON       bool `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Run schedules a stalled instance for another attempt.
func (c *requeueCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if err := cl.Requeue(ctx, c.ID); err != nil {
		return err
	}
	return accepted(s, c.JSON, c.ID, "will be retried", "")
}
