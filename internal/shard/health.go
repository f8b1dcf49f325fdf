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

// healthKept is how long a state of the stores is the answer: clients choose how often they ask.
const healthKept = time.Second

// healthTimeout is how long the stores may take.
const healthTimeout = 3 * time.Second

// storeHealth is the latest state of the stores, of a process. It is safe for concurrent use: requests that come while the stores are
// asked wait for that answer.
type storeHealth struct {
	mu   sync.Mutex
	at   time.Time
	last *request.StoreHealth // nil: they have not been asked
}

// health is the state of Redis and NATS of the last second.
func (qs *queries) health(ctx context.Context) request.Reply {
	return qs.process.stores.get(ctx, qs.askStores)
}

// get is the latest state, or a new one. The stores are asked for all who wait: neither the time nor the end of the first counts.
func (c *storeHealth) get(ctx context.Context, ask func(context.Context) *request.StoreHealth) *request.StoreHealth {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || time.Since(c.at) > healthKept {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
		defer stop()
		c.last, c.at = ask(ctx), time.Now()
	}
	return c.last
}

// askStores asks Redis and NATS for their state, beside one another. What does not answer is reported by its error.
func (qs *queries) askStores(ctx context.Context) *request.StoreHealth {
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
