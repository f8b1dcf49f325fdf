package examples

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// soon is the timeout of a test for operations that normally take milliseconds.
const soon = time.Minute

// servers starts what pawl dev starts, without the fleets.
func servers(t *testing.T) (*nats.Conn, redis.UniversalClient) {
	t.Helper()
	stack, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Stop() })
	nc := natstest.Dial(t, stack.NATSURL())
	opts, err := redis.ParseURL(stack.RedisURL())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return nc, rdb
}

// orchestrate runs an orchestrator until the test ends, or stop is called.
func orchestrate(t *testing.T, nc *nats.Conn, rdb redis.UniversalClient, bindings ...pawl.OrchestrationBinding) (stop func()) {
	t.Helper()
	o, err := orchestrator.New(orchestrator.Config{NATS: nc, Redis: rdb}, bindings...)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := true
	stop = func() {
		if running {
			running = false
			if err := o.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

// connect opens a client as soon as there is a namespace.
func connect(t *testing.T, nc *nats.Conn) *client.Client {
	t.Helper()
	var c *client.Client
	poll.Until(t, soon, "the orchestrator makes the namespace", func() bool {
		var err error
		c, err = client.New(t.Context(), nc, client.Options{OwnerTimeout: soon})
		return err == nil
	})
	t.Cleanup(c.Close)
	return c
}

// fleets runs all examples on real servers, as pawl dev does, together with the given bindings.
func fleets(t *testing.T, more ...pawl.OrchestrationBinding) *client.Client {
	t.Helper()
	nc, rdb := servers(t)
	orchestrate(t, nc, rdb, append(Orchestrations(), more...)...)
	work(t, nc, rdb)
	return connect(t, nc)
}

// work runs a worker with the examples' activities until the test ends.
func work(t *testing.T, nc *nats.Conn, rdb redis.UniversalClient) {
	t.Helper()
	w, err := worker.New(worker.Config{NATS: nc, Redis: rdb}, Activities()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
