package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// fleets configures the orchestrator and the worker of a test.
type fleets struct {
	orchestrations []pawl.OrchestrationBinding
	activities     []pawl.ActivityBinding // none: there is no worker
	grace          time.Duration
	maxAbandoned   int
	codec          *pawlcodec.Codec
}

// harness runs NATS, Redis, an orchestrator and a worker in this process.
func harness(t *testing.T, f fleets) (nats string) {
	t.Helper()
	nats, _ = harnessAt(t, f)
	return nats
}

// harnessAt is harness for a test that also needs the address of Redis.
func harnessAt(t *testing.T, f fleets) (nats, redis string) {
	t.Helper()
	stack := harnessStack(t, f)
	return stack.NATSURL(), stack.RedisURL()
}

func harnessStack(t *testing.T, f fleets) *embedded.Stack {
	t.Helper()
	stack, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, stack.Stop)
	log := slog.New(slog.DiscardHandler)
	nc, err := settings.NATS{NATSURL: settings.URL(stack.NATSURL())}.OpenNATS(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	rdb, err := settings.Redis{RedisURL: settings.URL(stack.RedisURL())}.OpenRedis(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, rdb.Close)
	o, err := orchestrator.New(orchestrator.Config{NATS: nc, Redis: rdb, Partitions: 4, Codec: f.codec}, f.orchestrations...)
	if err != nil {
		t.Fatal(err)
	}
	begun(t, o.Start, o.Stop)
	if len(f.activities) == 0 {
		return stack
	}
	w, err := worker.New(worker.Config{
		NATS: nc, Redis: rdb, Name: "w-1", Drain: time.Millisecond, Grace: f.grace, MaxAbandoned: f.maxAbandoned, Codec: f.codec,
	}, f.activities...)
	if err != nil {
		t.Fatal(err)
	}
	begun(t, w.Start, w.Stop)
	return stack
}

func begun(t *testing.T, start, stop func(context.Context) error) {
	t.Helper()
	if err := start(t.Context()); err != nil {
		t.Fatal(err)
	}
	atEnd(t, func() error { return stop(context.WithoutCancel(t.Context())) })
}

func atEnd(t *testing.T, f func() error) {
	t.Cleanup(func() {
		if err := f(); err != nil {
			t.Error(err)
		}
	})
}
