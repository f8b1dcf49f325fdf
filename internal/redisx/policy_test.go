package redisx_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

// The requests for the slot map, and those to the masters, have timeouts of their own.
func TestCheckPolicyEndsWithHangingNode(t *testing.T) {
	c := redistest.StartReplicatedCluster(t, 3)
	for name, node := range map[string]*redistest.Server{"a master": c.Masters[0], "a replica": c.Replicas[1]} {
		t.Run(name, func(t *testing.T) {
			rdb := c.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = time.Minute })
			node.Pause()
			defer node.Resume()
			begin := time.Now()
			err := redisx.CheckPolicy(within(t), rdb, slog.New(slog.DiscardHandler))
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("the check took %v", took)
			}
			if name == "a replica" && err != nil {
				t.Errorf("a replica is not needed: %v", err)
			}
		})
	}
}

func TestRingIsRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer func() { _ = ring.Close() }()
	if err := redisx.CheckPolicy(within(t), ring, nil); !errors.Is(err, redisx.ErrRing) {
		t.Error(err)
	}
}
