package shard

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
)

const (
	healthTTL     = time.Second     // how long a state is reused: clients choose how often they request it
	healthTimeout = 3 * time.Second // of one reading
)

// storeHealth caches the state of Redis and NATS. It is safe for concurrent use: requests that arrive during a reading wait for its result.
type storeHealth struct {
	mu   sync.Mutex
	at   time.Time
	last *request.StoreHealth // nil: not read yet
}

// get returns the latest state, or reads a new one if that is older than healthTTL. The reading serves all requests that wait, so neither
// the deadline nor the cancellation of the first one applies to it.
func (c *storeHealth) get(ctx context.Context, read func(context.Context) *request.StoreHealth) *request.StoreHealth {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || time.Since(c.at) > healthTTL {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
		defer stop()
		c.last, c.at = read(ctx), time.Now()
	}
	return c.last
}

// readHealth reads the state of Redis and NATS concurrently. A failure is part of the result.
func (qs *queries) readHealth(ctx context.Context) *request.StoreHealth {
	r := new(request.StoreHealth)
	var wg sync.WaitGroup
	wg.Go(func() {
		nodes, err := redisx.Health(ctx, qs.process.cfg.Redis)
		if err != nil {
			r.RedisError = err.Error()
		}
		for _, n := range nodes {
			r.Redis = append(r.Redis, redisNode(n))
		}
	})
	h, err := qs.process.conn.Health(ctx)
	r.NATS = request.NATSHealth{Server: h.Server, Version: h.Version, Latency: h.Latency.Microseconds(), Streams: h.Streams}
	if err == nil {
		var backlog map[string]uint64
		backlog, err = qs.process.conn.Backlog(ctx)
		for _, queue := range slices.Sorted(maps.Keys(backlog)) {
			r.NATS.Backlog = append(r.NATS.Backlog, request.QueueBacklog{Queue: queue, Tasks: backlog[queue]})
		}
	}
	if err != nil {
		r.NATSError = err.Error()
	}
	wg.Wait()
	return r
}

func redisNode(h redisx.NodeHealth) request.RedisNode {
	return request.RedisNode{
		Address: h.Address, Version: h.Version, Role: h.Role, AOF: h.AOF, Error: h.Error, Uptime: h.Uptime.Microseconds(), Latency: h.Latency.Microseconds(),
		Memory: h.Memory, MaxMemory: h.MaxMemory, Clients: h.Clients, PerSecond: h.PerSecond, Replicas: h.Replicas, LastSave: h.LastSave.Microseconds(),
	}
}
