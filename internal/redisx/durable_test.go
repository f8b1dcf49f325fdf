package redisx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

func TestDurableWaitsForEveryReplica(t *testing.T) {
	t.Parallel()
	c := redistest.StartReplicatedCluster(t, 3)
	rdb := c.Client(t, nil)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := redisx.Durable(ctx, rdb); err != nil {
		t.Fatal(err)
	}
	c.Replicas[0].Pause()
	defer c.Replicas[0].Resume()
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} { // on every master
		if err := rdb.Set(ctx, key, "value", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	waiting, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if err := redisx.Durable(waiting, rdb); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a replica has not received the writes: %v", err)
	}
}

func TestDurableWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	everySecond := redistest.Start(t, "--appendonly", "yes").Client(t)
	begun := time.Now()
	if err := redisx.Durable(ctx, everySecond); err != nil || time.Since(begun) < time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	for _, s := range []*redistest.Server{redistest.Start(t), redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")} {
		if err := redisx.Durable(ctx, s.Client(t)); err != nil {
			t.Error(err)
		}
	}
}
