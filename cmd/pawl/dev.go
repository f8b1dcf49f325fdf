package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/fleet"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// devDrain is short, so that developers need not wait for a faulty activity.
const devDrain = 2 * time.Second

const (
	defaultNamespace = "default"
	defaultNATSPort  = 4222
	devRedisPort     = 7296 // not the default of Redis, which another server may use
)

type devCmd struct {
	settings.Data
	HTTP      string `name:"http" env:"PAWL_HTTP" default:"127.0.0.1:7295" help:"Address of the console, /healthz, /readyz, /metrics and the API under /api/v1. Empty: off."`
	NATSPort  int    `name:"nats-port" env:"PAWL_NATS_PORT" default:"4222" help:"TCP port of NATS on 127.0.0.1. 0: a free one."`
	RedisPort int    `name:"redis-port" env:"PAWL_REDIS_PORT" default:"${redisport}" help:"TCP port of Redis on 127.0.0.1. 0: a free one."`
	RedisKind string `name:"redis-kind" env:"PAWL_REDIS_KIND" enum:"auto,server,memory" default:"auto" help:"Run Redis as a server from PATH (server), in this process (memory), or as a server if there is one (auto)."`

	settings.HTTPAccess
	settings.Namespace    `group:"Fleets"`
	settings.Orchestrator `group:"Fleets"`
	settings.Worker       `group:"Fleets"`
	fleet.External        `group:"Fleets"`
	settings.Payloads     `group:"Fleets"`
	settings.Log          `group:"Fleets"`
}

// AfterApply rejects invalid ports.
func (c *devCmd) AfterApply() error {
	for flag, port := range map[string]int{"nats": c.NATSPort, "redis": c.RedisPort} {
		if port < 0 || port > 65535 {
			return fmt.Errorf("--%s-port must be 0 to 65535 (got %d)", flag, port)
		}
	}
	return nil
}

// Run runs everything in this process until a signal.
func (c *devCmd) Run(ctx context.Context, s streams) (err error) {
	settings.RelaxGC()
	log := c.Log.Open(s.err)
	activities, err := c.External.Read()
	if err != nil {
		return settings.Usage(err)
	}
	codec, err := c.Codec(log)
	if err != nil {
		return settings.Usage(err)
	}
	stack, err := embedded.Start(ctx, embedded.Options{
		Dir: c.Data.Data, Logger: log, NATSPort: c.NATSPort, RedisPort: c.RedisPort, Redis: embedded.RedisKind(c.RedisKind),
	})
	if err != nil {
		return c.advise(err)
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()
	natsAt, redisAt := settings.NATS{NATSURL: settings.URL(stack.NATSURL())}, settings.Redis{RedisURL: settings.URL(stack.RedisURL())}
	return settings.Exit(pawlfx.Run(log,
		pawlfx.Connections(natsAt.DialNATS, redisAt.DialRedis),
		pawlfx.Payloads(codec),
		pawlfx.Orchestrations(examples.Orchestrations),
		pawlfx.Activities(examples.Activities),
		pawlfx.Activities(activities.Bindings),
		pawlfx.Orchestrator(orchestrator.Config{
			Namespace: c.Namespace.Namespace, Partitions: c.Partitions, Replicas: c.Replicas, InputsMaxBytes: int64(c.InputsMax), ObjectsMaxBytes: int64(c.ObjectsMax), ReconcileInterval: c.Reconcile,
			Retention: orchestrator.Retention(c.Retention), FailDiverged: c.FailDiverged, Limits: orchestrator.Limits{Depth: c.MaxDepth},
		}),
		pawlfx.Worker(worker.Config{
			Namespace: c.Namespace.Namespace, LeaseTTL: c.LeaseTTL, Concurrency: c.Concurrency, Drain: devDrain,
			Grace: c.Grace, MaxAbandoned: c.MaxAbandoned, QueueConcurrency: activities.Concurrency(),
		}),
		fx.Supply((&faults{stack: stack, leaseTTL: c.LeaseTTL, partitions: c.Partitions, namespace: c.Namespace.Namespace}).buttons()),
		fleet.HTTP(c.HTTP, c.HTTPAccess),
		fx.Invoke(func(lc fx.Lifecycle, program fx.Shutdowner) { endWith(lc, program, stack, log) }),
		fx.Invoke(func(lc fx.Lifecycle) { lc.Append(fx.StartHook(func() error { return c.welcome(s.out, stack) })) }), // last, when everything runs
	))
}

// advise adds advice to the error of a port in use.
func (c *devCmd) advise(err error) error {
	if p, ok := errors.AsType[*embedded.PortError](err); ok {
		return fmt.Errorf("%w: is another pawl dev running? --%s-port (PAWL_%s_PORT) chooses another port", err, strings.ToLower(p.Server), strings.ToUpper(p.Server))
	}
	return err
}

// welcome writes the addresses and some example commands.
func (c *devCmd) welcome(w io.Writer, stack *embedded.Stack) error {
	f := &term.Fields{}
	if c.HTTP != "" {
		f.Add("Console", "http://"+reachable(c.HTTP)+"/")
		f.Add("HTTP", "http://"+c.HTTP+"  /healthz /readyz /metrics /api/v1")
	}
	f.Add("NATS", stack.NATSURL())
	f.Add("Redis", stack.RedisURL())
	if stack.Persistent() {
		f.Add("Data", c.Data.Data)
	} else {
		f.Add("Data", "in memory: all state is lost when this process ends")
	}
	if err := f.Write(w); err != nil {
		return err
	}
	nats, redis := "", ""
	if c.NATSPort != defaultNATSPort {
		nats = " --nats " + stack.NATSURL()
	}
	if c.RedisPort != devRedisPort {
		redis = " --redis " + stack.RedisURL()
	}
	if ns := c.Namespace.Namespace; ns != defaultNamespace {
		nats, redis = nats+" --namespace "+ns, redis+" --namespace "+ns
	}
	_, err := fmt.Fprintf(w, "\nFrom another terminal, for example:\n\n  pawl start hello --input '\"Ada\"' --wait%s\n  pawl list%s\n  pawl check%s\n\nCtrl-C stops everything.\n", nats, nats, redis)
	return err
}

// reachable returns the address to connect to for an address to listen at, in which the host may be missing.
func reachable(addr string) string {
	if strings.HasPrefix(addr, ":") {
		return "127.0.0.1" + addr
	}
	return addr
}

// endWith stops the program when Redis ends unexpectedly.
func endWith(lc fx.Lifecycle, program fx.Shutdowner, stack *embedded.Stack, log *slog.Logger) {
	stopping, joined := make(chan struct{}), make(chan struct{})
	lc.Append(fx.StartStopHook(
		func() {
			go func() {
				defer close(joined)
				select {
				case <-stack.Done():
					log.Error("redis ended", "error", stack.Err())
					_ = program.Shutdown(fx.ExitCode(settings.ExitFailed)) // fails only if the program is stopping already
				case <-stopping:
				}
			}()
		},
		func() { close(stopping); <-joined },
	))
}
