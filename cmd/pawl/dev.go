package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/embedded"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// devDrain is short: whoever develops does not wait for an activity that they wrote wrongly.
const devDrain = 2 * time.Second

type devCmd struct {
	settings.Namespace
	settings.Data
	settings.Orchestrator
	settings.Worker
	settings.Log
	NATSPort  int    `name:"nats-port" env:"PAWL_NATS_PORT" default:"4222" help:"TCP port of NATS on 127.0.0.1; 0 is a free one."`
	RedisPort int    `name:"redis-port" env:"PAWL_REDIS_PORT" default:"7296" help:"TCP port of Redis on 127.0.0.1; 0 is a free one."`
	RedisKind string `name:"redis-kind" env:"PAWL_REDIS_KIND" enum:"auto,server,memory" default:"auto" help:"Redis as a server from PATH, in memory, or what there is: ${enum}."`
	HTTP      string `name:"http" env:"PAWL_HTTP" default:"127.0.0.1:7295" placeholder:"ADDR" help:"Serve /healthz, /readyz and /metrics there."`
}

// Run runs everything in this process until a signal.
func (c *devCmd) Run(ctx context.Context, s streams) (err error) {
	log := c.Log.Open(s.err)
	stack, err := embedded.Start(ctx, embedded.Options{
		Dir: c.Data.Data, Logger: log, NATSPort: c.NATSPort, RedisPort: c.RedisPort, Redis: embedded.RedisKind(c.RedisKind),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Stop()) }()
	natsAt, redisAt := settings.NATS{NATSURL: stack.NATSURL()}, settings.Redis{RedisURL: stack.RedisURL()}
	_, _ = fmt.Fprintf(s.out, "NATS   %s\nRedis  %s\ndata   %s\n", stack.NATSURL(), stack.RedisURL(), c.Data.Data)
	return asExit(pawlfx.Run(log,
		pawlfx.Connections(
			natsAt.OpenNATS,
			func(log *slog.Logger) (redis.UniversalClient, error) { return redisAt.OpenRedis(ctx, log) },
		),
		pawlfx.Orchestrations(examples.Orchestrations),
		pawlfx.Activities(examples.Activities),
		pawlfx.Orchestrator(orchestrator.Config{
			Namespace: c.Namespace.Namespace, Partitions: c.Partitions, Replicas: c.Replicas, Look: c.Look,
		}),
		pawlfx.Worker(worker.Config{Namespace: c.Namespace.Namespace, LeaseTTL: c.LeaseTTL, Concurrency: c.Concurrency, Drain: devDrain}),
		pawlfx.HTTP(c.HTTP),
		fx.Invoke(func(lc fx.Lifecycle, program fx.Shutdowner) { endWith(lc, program, stack, log) }),
	))
}

// endWith stops the program when Redis ends by itself.
func endWith(lc fx.Lifecycle, program fx.Shutdowner, stack *embedded.Stack, log *slog.Logger) {
	stopping, joined := make(chan struct{}), make(chan struct{})
	lc.Append(fx.StartStopHook(
		func() {
			go func() {
				defer close(joined)
				select {
				case <-stack.Done():
					log.Error("Redis has ended", "error", stack.Err())
					_ = program.Shutdown(fx.ExitCode(settings.ExitFailed)) // it may be stopping
				case <-stopping:
				}
			}()
		},
		func() { close(stopping); <-joined },
	))
}
