package client

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/request"
)

// Health is the state of Redis and NATS, as an orchestrator of the namespace observes it.
type Health struct {
	Redis      []RedisHealth // nodes that accept writes
	RedisError string        // reason why Redis is empty; empty: no error
	NATS       NATSHealth
	NATSError  string // reason why parts of NATS are missing; empty: no error
}

// RedisHealth is the state of a Redis node.
type RedisHealth struct {
	Address   string // of a node of a cluster; empty: Redis is not a cluster
	Version   string
	Role      string // master, or slave while a replica is being elected
	Uptime    time.Duration
	Latency   time.Duration // of a PING
	Memory    int64         // used memory, bytes
	MaxMemory int64         // bytes; 0: unlimited
	Clients   int64         // number of connected clients
	PerSecond int64         // commands per second
	Replicas  int64         // number of connected replicas
	AOF       string        // ok, off, loading, or the operation that failed
	LastSave  time.Duration // age of the latest snapshot
	Error     string        // reason why other fields are missing; empty: no error
}

// NATSHealth is the state of NATS.
type NATSHealth struct {
	Server  string // name of the server that the orchestrator is connected to
	Version string
	Latency time.Duration // of a PING
	Streams []StreamHealth
	Backlog map[string]uint64 // unclaimed tasks by task queue; queues without tasks are omitted
}

// StreamHealth is the state of a stream.
type StreamHealth struct {
	Name      string
	Messages  uint64
	Bytes     uint64
	Consumers int
	Leader    string // name of the leader; empty: NATS is not a cluster
	Replicas  int
	Behind    int    // number of replicas that are offline or not current
	Error     string // reason why other fields are missing; empty: no error
}

// Health returns the state of Redis and NATS. A store that does not answer is reported in the result. Errors: ErrNoOwner,
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

// Requeue makes the owner retry a stalled instance at once, instead of after its backoff of up to a minute. Errors: ErrRefused if the
// instance is not stalled, or has not been started; ErrNoOwner, queue.ErrTimeout; queue.ErrPermission if the user does not have the role operator.
func (c fleet) Requeue(ctx context.Context, id string) error {
	return c.client.requestInstance(ctx, id, &request.Requeue{Instance: id}, new(request.Done))
}
