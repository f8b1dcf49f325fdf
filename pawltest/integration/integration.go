// Package integration runs orchestrations and activities in a test on real servers: one call starts NATS in the test's process, Redis in
// a child process, an orchestrator, a worker and a client.
//
//	func TestOrderIsCharged(t *testing.T) {
//		fleet := integration.Start(t, Fulfil.Do(fulfil), Charge.Do(charge))
//		run, err := client.Start(t.Context(), fleet.Client, Fulfil, "order-1", Order{})
//		…
//	}
//
// Use package pawltest for tests of orchestration code: it needs no servers, runs in virtual time, and simulates a crash after every
// turn. Use this package for everything else: clients, several processes, real time, permissions.
package integration

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// startTimeout bounds the start of servers, orchestrator and worker.
const startTimeout = time.Minute

// Fleet contains the servers, an orchestrator, a worker and a client of one test. They are stopped at the end of the test.
type Fleet struct {
	Client *client.Client // client of the namespace "default"

	// NATS and Redis are connections to the servers, and NATSURL and RedisURL are their addresses, for further orchestrators, workers and
	// clients of the test.
	NATS              *nats.Conn
	Redis             redis.UniversalClient
	NATSURL, RedisURL string
}

// Start starts separate servers for the test, an orchestrator with the orchestrations among the bindings, a worker with the activities,
// and a client, and returns when all of them are ready. If one does not start, the test fails at once. Warnings and errors are written to
// the output of the test. Tests that each call Start may run in parallel.
//
// Redis is redis-server or valkey-server if one is on PATH, and an in-memory implementation otherwise.
func Start(tb testing.TB, bindings ...pawl.Binding) *Fleet {
	tb.Helper()
	ctx, stop := context.WithTimeout(tb.Context(), startTimeout)
	defer stop()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	f := &Fleet{}
	f.connect(ctx, tb)

	orchestrations, activities, err := splitBindings(bindings)
	must(tb, "sort the bindings", err)
	o, err := orchestrator.New(orchestrator.Config{NATS: f.NATS, Redis: f.Redis, Logger: log}, orchestrations...)
	must(tb, "make the orchestrator", err)
	must(tb, "start the orchestrator", o.Start(ctx))
	stopAtEnd(tb, "orchestrator", o.Stop)
	if len(activities) > 0 {
		w, err := worker.New(worker.Config{NATS: f.NATS, Redis: f.Redis, Logger: log}, activities...)
		must(tb, "make the worker", err)
		must(tb, "start the worker", w.Start(ctx))
		stopAtEnd(tb, "worker", w.Stop)
	}
	f.Client, err = client.New(ctx, f.NATS, client.Options{By: tb.Name(), Logger: log})
	must(tb, "open the client", err)
	tb.Cleanup(f.Client.Close)
	return f
}

// connect starts the servers.
func (f *Fleet) connect(ctx context.Context, tb testing.TB) {
	tb.Helper()
	stack, err := embedded.Start(ctx, embedded.Options{Dir: tb.TempDir()})
	must(tb, "start the servers", err)
	tb.Cleanup(func() {
		if err := stack.Stop(); err != nil {
			tb.Errorf("integration: stop the servers: %v", err)
		}
	})
	f.NATSURL, f.RedisURL = stack.NATSURL(), stack.RedisURL()
	f.NATS, err = transport.Dial(f.NATSURL)
	must(tb, "connect to NATS", err)
	tb.Cleanup(f.NATS.Close)
	opts, err := redis.ParseURL(f.RedisURL)
	must(tb, "read the address of Redis", err)
	rdb := redis.NewClient(opts)
	tb.Cleanup(func() { _ = rdb.Close() })
	f.Redis = rdb
}

// splitBindings returns the bindings for the orchestrator and those for the worker.
func splitBindings(bindings []pawl.Binding) (orchestrations []pawl.OrchestrationBinding, activities []pawl.ActivityBinding, err error) {
	for _, b := range bindings {
		switch b := b.(type) {
		case pawl.OrchestrationBinding:
			orchestrations = append(orchestrations, b)
		case pawl.ActivityBinding:
			activities = append(activities, b)
		default:
			return nil, nil, fmt.Errorf("integration: a binding of type %T belongs to no process", b)
		}
	}
	return orchestrations, activities, nil
}

func must(tb testing.TB, operation string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("integration: %s: %v", operation, err)
	}
}

func stopAtEnd(tb testing.TB, name string, stop func(context.Context) error) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := stop(context.Background()); err != nil {
			tb.Errorf("integration: stop the %s: %v", name, err)
		}
	})
}
