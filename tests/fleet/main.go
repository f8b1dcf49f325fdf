// Command fleet is a member of the fleets in the crash tests and the fault campaign, as a process of its own: an
// orchestrator, a worker, a client of the campaign, or a command that changes the number of partitions. It is built like the
// fleet of a user, with another registry. Its settings are PAWL_* variables, as for Pawl's own binaries.
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

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/resize"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/telemetry"
	"github.com/pawlrun/pawl/pawlotel"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/chaos/work"
	crash "github.com/pawlrun/pawl/tests/crash/work"
)

type config struct {
	settings.Fleet
	settings.Orchestrator
	settings.Worker

	Role     string        `arg:"" enum:"orchestrator,worker,both,client,resize" help:"What to be."`
	Campaign bool          `env:"FLEET_CAMPAIGN" help:"Run the workload of the fault campaign, instead of that of the crash tests."`
	Ledger   string        `env:"FLEET_LEDGER" help:"File for side effects."`
	OwnerTTL time.Duration `env:"FLEET_OWNER_TTL" default:"5s" help:"How long a silent orchestrator keeps its partitions."`
	Masters  []string      `env:"FLEET_MASTERS" help:"Several Redis servers that share the slots, instead of PAWL_REDIS."`
	Release  int           `env:"FLEET_RELEASE" default:"2" help:"Of the code of the campaign's orchestrations."`

	Name        string `env:"FLEET_NAME" help:"Of a client."`
	Calls       string `env:"FLEET_CALLS" help:"File for a client's calls."`
	Quit        string `env:"FLEET_QUIT" help:"File whose existence has a client start nothing more."`
	Seed        uint64 `env:"FLEET_SEED" help:"Of a client's choices."`
	Rate        int    `env:"FLEET_RATE" default:"60" help:"Instances a second that a client starts."`
	Outstanding int    `env:"FLEET_OUTSTANDING" default:"200" help:"Instances of a client at a time."`
}

// member is an orchestrator or a worker.
type member interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
}

func main() {
	var cfg config
	if code, ok := settings.Parse(&cfg, "fleet", "a member of a fleet of the tests", os.Args[1:], os.Stdout, os.Stderr); !ok {
		os.Exit(code)
	}
	if err := run(&cfg); err != nil && !errors.Is(err, context.Canceled) { // stopped while it was waiting
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(cfg *config) (err error) {
	if err := followSteps(); err != nil {
		return err
	}
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
	rdb, err := cfg.redis(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	if cfg.Role == "resize" {
		_, err := resize.Run(ctx, resize.Config{NATS: nc, Redis: rdb, Namespace: cfg.Namespace.Namespace, Partitions: cfg.Partitions, Logger: log})
		return err
	}
	traces, err := telemetry.Open(ctx, "fleet-"+cfg.Role, log)
	if err != nil {
		return err
	}
	defer traces.Close()
	m, err := cfg.member(nc, rdb, traces, log)
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
		return crash.Masters(cfg.Masters), nil
	}
	return cfg.DialRedis(log)
}

func (cfg *config) registry() ([]pawl.OrchestrationBinding, []pawl.ActivityBinding) {
	if cfg.Campaign {
		return work.Orchestrations(cfg.Release), work.Ledger(cfg.Ledger).Activities()
	}
	return crash.Orchestrations(), crash.Ledger(cfg.Ledger).Activities()
}

func (cfg *config) member(nc *nats.Conn, rdb redis.UniversalClient, traces *telemetry.Provider, log *slog.Logger) (member, error) {
	codec, err := cfg.Codec(log)
	if err != nil {
		return nil, err
	}
	tracer, err := pawlotel.NewTracer(traces)
	if err != nil {
		return nil, err
	}
	var interceptors []worker.Interceptor
	if traces.Enabled() {
		interceptors = append(interceptors, pawlotel.WorkerInterceptor(traces))
	}
	orchestrations, activities := cfg.registry()
	local := queue.NewLocal()
	w := func() (member, error) {
		return worker.New(worker.Config{
			NATS: nc, Redis: rdb, Namespace: cfg.Namespace.Namespace, LeaseTTL: cfg.LeaseTTL, Drain: cfg.Drain,
			Concurrency: cfg.Concurrency, Local: local, Codec: codec, Interceptors: interceptors, Logger: log,
		}, activities...)
	}
	o := func() (member, error) {
		return orchestrator.New(orchestrator.Config{
			NATS: nc, Redis: rdb, Namespace: cfg.Namespace.Namespace, Partitions: cfg.Partitions, Replicas: cfg.Replicas, ReconcileInterval: cfg.Reconcile,
			OwnerTTL: cfg.OwnerTTL, Local: local, Codec: codec, Tracer: tracer, Logger: log,
		}, orchestrations...)
	}
	switch cfg.Role {
	case "worker":
		return w()
	case "orchestrator":
		return o()
	default:
		first, err := o()
		if err != nil {
			return nil, err
		}
		second, err := w()
		return both{first, second}, err
	}
}

// both is an orchestrator and a worker in one process.
type both struct{ orchestrator, worker member }

// Start starts the orchestrator first, because it creates the namespace.
func (b both) Start(ctx context.Context) error {
	if err := b.orchestrator.Start(ctx); err != nil {
		return err
	}
	return b.worker.Start(ctx)
}

// Stop stops the worker first.
func (b both) Stop(ctx context.Context) error {
	return errors.Join(b.worker.Stop(ctx), b.orchestrator.Stop(ctx))
}

func (cfg *config) client(ctx context.Context, nc *nats.Conn, log *slog.Logger) error {
	codec, err := cfg.Codec(log)
	if err != nil {
		return err
	}
	o := client.Options{Namespace: cfg.Namespace.Namespace, By: cfg.Name, Codec: codec, Logger: log}
	c, err := client.New(ctx, nc, o)
	for err != nil { // an orchestrator has not created the namespace yet
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
		c, err = client.New(ctx, nc, o)
	}
	defer c.Close()
	w := work.Client{Name: cfg.Name, Client: c, Log: cfg.Calls, Quit: cfg.Quit, Outstanding: cfg.Outstanding, Rate: cfg.Rate, Seed: cfg.Seed}
	return w.Run(ctx)
}
