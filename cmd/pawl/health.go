package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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
	return "An orchestrator asks both, so that this is what the fleet sees. It fails if one of them does not answer it."
}

// Run describes Redis and NATS.
func (c *healthCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	h, err := cl.Health(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, api.HealthOf(h))
	}
	f := &term.Fields{}
	var errs []error
	for _, n := range h.Redis {
		f.Add("redis "+n.Address, diagnose.Redis(n))
		if n.Error != "" {
			errs = append(errs, errors.New(n.Error))
		}
	}
	f.Add("nats "+h.NATS.Server, fmt.Sprintf("%s, answers in %s", h.NATS.Version, h.NATS.Latency.Round(10*time.Microsecond)))
	for _, x := range h.NATS.Streams {
		f.Add("stream", diagnose.Stream(x))
	}
	for _, queue := range slices.Sorted(maps.Keys(h.NATS.Backlog)) {
		f.Add("queue "+queue, diagnose.Counted(int(h.NATS.Backlog[queue]), "task")+" that no worker has claimed") //nolint:gosec // a length
	}
	for _, text := range []string{h.RedisError, h.NATSError} {
		if text != "" {
			errs = append(errs, errors.New(text))
		}
	}
	return errors.Join(f.Write(s.out), errors.Join(errs...))
}

type drainCmd struct {
	Worker     string `arg:"" help:"Name of the worker, as in pawl workers."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *drainCmd) Help() string {
	return "Running activities may finish. The worker is not ready from then on: stop its process, or start it again; nothing else lets it " +
		"take tasks again."
}

// Run drains a worker.
func (c *drainCmd) Run(ctx context.Context, s streams) error {
	return c.changed(ctx, s, c.Worker+": takes no more tasks", func(cl *client.Client) error { return cl.DrainWorker(ctx, c.Worker) })
}

type requeueCmd struct {
	ID         string `arg:"" help:"Id of the stalled instance."`
	connection `group:"Connection"`
}

// Run has a stalled instance tried again.
func (c *requeueCmd) Run(ctx context.Context, s streams) error {
	return c.changed(ctx, s, c.ID+": is tried again", func(cl *client.Client) error { return cl.Requeue(ctx, c.ID) })
}

// changed makes a change, and writes a line when it is done.
func (r *connection) changed(ctx context.Context, s streams, line string, change func(*client.Client) error) error {
	cl, done, err := r.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	if err := change(cl); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, line)
	return err
}
