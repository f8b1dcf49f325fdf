// Command fleet is an orchestrator, a worker or a client of the fault campaign, as a process of its own. Settings come from
// PAWL_* variables as in Pawl's own binaries.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/chaos/work"
)

type config struct {
	settings.Fleet
	settings.Orchestrator
	settings.Worker

	Role        string        `arg:"" enum:"orchestrator,worker,client" help:"What to be."`
	Name        string        `env:"CHAOS_NAME" help:"Of a client."`
	Log         string        `env:"CHAOS_LOG" help:"File for a client's calls."`
	Seed        uint64        `env:"CHAOS_SEED" help:"Of a client's choices."`
	Rate        int           `env:"CHAOS_RATE" default:"60" help:"Instances a second that a client starts."`
	Outstanding int           `env:"CHAOS_OUTSTANDING" default:"200" help:"Instances of a client at a time."`
	Ledger      string        `env:"CHAOS_LEDGER" help:"File for side effects."`
	OwnerTTL    time.Duration `env:"CHAOS_OWNER_TTL" default:"5s" help:"How long a silent orchestrator keeps its partitions."`
}

func main() {
	var cfg config
	if code, ok := settings.Parse(&cfg, "fleet", "a fleet of the fault campaign", os.Args[1:], os.Stdout, os.Stderr); !ok {
		os.Exit(code)
	}
	if err := run(&cfg); err != nil && !errors.Is(err, context.Canceled) { // stopped while it waited
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(cfg *config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := cfg.Open(os.Stderr)
	nc, err := cfg.DialNATS(ctx, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	if cfg.Role == "client" {
		return cfg.client(ctx, nc, log)
	}
	return cfg.serve(ctx, nc, log)
}

func (cfg *config) client(ctx context.Context, nc *nats.Conn, log *slog.Logger) error {
	c, err := client.New(ctx, nc, client.Options{Namespace: cfg.Namespace.Namespace, By: cfg.Name, Logger: log})
	for err != nil { // until an orchestrator has made the namespace
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
		c, err = client.New(ctx, nc, client.Options{Namespace: cfg.Namespace.Namespace, By: cfg.Name, Logger: log})
	}
	defer c.Close()
	w := work.Client{Name: cfg.Name, Client: c, Log: cfg.Log, Outstanding: cfg.Outstanding, Rate: cfg.Rate, Seed: cfg.Seed}
	return w.Run(context.Background(), ctx.Done())
}

func (cfg *config) serve(ctx context.Context, nc *nats.Conn, log *slog.Logger) (err error) {
	rdb, err := cfg.DialRedis(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	var m interface {
		Start(ctx context.Context) error
		Stop(ctx context.Context) error
	}
	if cfg.Role == "worker" {
		m, err = worker.New(worker.Config{
			NATS: nc, Redis: rdb, Namespace: cfg.Namespace.Namespace, LeaseTTL: cfg.LeaseTTL, Drain: cfg.Drain,
			Concurrency: cfg.Concurrency, Logger: log,
		}, work.Ledger(cfg.Ledger).Activities()...)
	} else {
		m, err = orchestrator.New(orchestrator.Config{
			NATS: nc, Redis: rdb, Namespace: cfg.Namespace.Namespace, Partitions: cfg.Partitions, Replicas: cfg.Replicas, Look: cfg.Reconcile,
			OwnerTTL: cfg.OwnerTTL, Logger: log,
		}, work.Orchestrations()...)
	}
	if err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	drain, end := context.WithTimeout(context.Background(), cfg.Drain)
	defer end()
	return m.Stop(drain)
}
