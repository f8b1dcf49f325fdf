// Command fleet is an orchestrator or a worker of the crash tests: fleet orchestrator,
// fleet worker. It is what a user's own fleet is, with another registry; settings come
// from PAWL_* variables as in Pawl's own binaries.
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
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/crash/work"
)

type config struct {
	settings.Fleet
	settings.Orchestrator
	settings.Worker

	Role     string        `arg:"" enum:"orchestrator,worker" help:"What to be."`
	Ledger   string        `env:"FLEET_LEDGER" help:"File for side effects."`
	OwnerTTL time.Duration `env:"FLEET_OWNER_TTL" default:"5s" help:"How long a silent orchestrator keeps its partitions."`
	Masters  []string      `env:"FLEET_MASTERS" help:"Several Redis servers that share the slots, instead of PAWL_REDIS."`
}

// member is either of the two.
type member interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Ready() error
}

func main() {
	var cfg config
	if code, ok := settings.Parse(&cfg, "fleet", "a fleet of the crash tests", os.Args[1:], os.Stdout, os.Stderr); !ok {
		os.Exit(code)
	}
	if err := run(&cfg); err != nil && !errors.Is(err, context.Canceled) { // stopped while it waited
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(cfg *config) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := cfg.Open(os.Stderr)
	nc, err := cfg.DialNATS(ctx, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	rdb, err := cfg.redis(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	m, err := cfg.member(nc, rdb, log)
	if err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	log.Info("started", "role", cfg.Role)
	<-ctx.Done()
	begun := time.Now()
	drain, end := context.WithTimeout(context.Background(), cfg.Drain)
	defer end()
	err = m.Stop(drain)
	log.Info("stopped", "after", time.Since(begun), "error", err)
	return err
}

func (cfg *config) redis(log *slog.Logger) (redis.UniversalClient, error) {
	if len(cfg.Masters) > 0 {
		return work.Masters(cfg.Masters), nil
	}
	return cfg.DialRedis(log)
}

func (cfg *config) member(nc *nats.Conn, rdb redis.UniversalClient, log *slog.Logger) (member, error) {
	if cfg.Role == "worker" {
		return worker.New(worker.Config{
			NATS: nc, Redis: rdb, Namespace: cfg.Namespace.Namespace, LeaseTTL: cfg.LeaseTTL, Drain: cfg.Drain,
			Concurrency: cfg.Concurrency, Logger: log,
		}, work.Ledger(cfg.Ledger).Activities()...)
	}
	return orchestrator.New(orchestrator.Config{
		NATS: nc, Redis: rdb, Namespace: cfg.Namespace.Namespace, Partitions: cfg.Partitions, Replicas: cfg.Replicas, Look: cfg.Reconcile,
		OwnerTTL: cfg.OwnerTTL, Logger: log,
	}, work.Orchestrations()...)
}
