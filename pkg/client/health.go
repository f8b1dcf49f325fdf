package client

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// Health is the state of the stores of a namespace, as an orchestrator sees it.
type Health struct {
	Redis      []RedisHealth // the nodes that take writes
	RedisError string        // why there are none
	NATS       NATSHealth
	NATSError  string // why parts of it are missing
}

// RedisHealth is the state of a Redis node.
type RedisHealth struct {
	Address   string // of a node of a cluster; empty: there is one
	Version   string
	Role      string // master; while a replica is elected also slave
	Uptime    time.Duration
	Latency   time.Duration // of a PING
	Memory    int64         // bytes in use
	MaxMemory int64         // 0: unlimited
	Clients   int64
	PerSecond int64         // commands
	Replicas  int64         // connected
	AOF       string        // ok, off, loading, or what failed
	LastSave  time.Duration // age of the latest snapshot
	Error     string        // why the rest is missing
}

// NATSHealth is the state of NATS.
type NATSHealth struct {
	Server  string // name of the server that the orchestrator is connected to
	Version string
	Latency time.Duration // of a PING
	Streams []StreamHealth
	Backlog map[string]uint64 // tasks that no worker has claimed, by task queue; queues without tasks are left out
}

// StreamHealth is the state of a stream.
type StreamHealth struct {
	Name      string
	Messages  uint64
	Bytes     uint64
	Consumers int
	Leader    string // empty: the server is no cluster
	Replicas  int
	Behind    int    // replicas that are offline or not current
	Error     string // why the rest is missing
}

// Health requests the state of Redis and NATS. A store that does not answer is reported in the result. Errors: ErrNoOwner,
// queue.ErrTimeout.
func (c fleet) Health(ctx context.Context) (Health, error) {
	var r request.StoreHealth
	if err := c.client.request(ctx, policyPartition, new(request.Health), &r); err != nil {
		return Health{}, err
	}
	micros := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	out := Health{
		RedisError: r.RedisError, NATSError: r.NATSError,
		Redis: convert(r.Redis, func(n request.RedisNode) RedisHealth {
			return RedisHealth{
				Address: n.Address, Version: n.Version, Role: n.Role, Uptime: micros(n.Uptime), Latency: micros(n.Latency), Memory: n.Memory, MaxMemory: n.MaxMemory,
				Clients: n.Clients, PerSecond: n.PerSecond, Replicas: n.Replicas, AOF: n.AOF, LastSave: micros(n.LastSave), Error: n.Error,
			}
		}),
		NATS: NATSHealth{Server: r.NATS.Server, Version: r.NATS.Version, Latency: micros(r.NATS.Latency), Backlog: make(map[string]uint64)},
	}
	for _, s := range r.NATS.Streams {
		out.NATS.Streams = append(out.NATS.Streams, StreamHealth(s))
	}
	for _, q := range r.NATS.Backlog {
		out.NATS.Backlog[q.Queue] = q.Tasks
	}
	return out, nil
}

// Requeue has a stalled instance tried again now, instead of after its pause of up to a minute. Errors: ErrRefused if it is not stalled;
// ErrNoOwner, queue.ErrTimeout, queue.ErrPermission for a user that is no operator.
func (c fleet) Requeue(ctx context.Context, id string) error {
	return c.client.requestInstance(ctx, id, &request.Requeue{Instance: id}, new(request.Done))
}
