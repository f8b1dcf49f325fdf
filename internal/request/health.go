package request

import (
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/wire"
)

// Health requests the state of Redis and NATS as an orchestrator observes it. Any owner can answer it. Reply: StoreHealth.
type Health struct{}

func (*Health) operation() operation { return opHealth }
func (*Health) fields(*wire.Codec)   {}

// StoreHealth is the reply to Health. Times are in microseconds.
type StoreHealth struct {
	Redis      []RedisNode
	RedisError string // why Redis could not be read
	NATS       NATSHealth
	NATSError  string // why parts of NATS could not be read
}

// RedisNode describes a Redis node that accepts writes.
type RedisNode struct {
	Address, Version, Role, AOF, Error                                         string
	Uptime, Latency, Memory, MaxMemory, Clients, PerSecond, Replicas, LastSave int64
}

// NATSHealth describes the NATS server of the orchestrator and its streams; see transport.Health.
type NATSHealth struct {
	Server, Version string
	Latency         int64
	Streams         []transport.StreamHealth
	Backlog         []QueueBacklog
}

// QueueBacklog is the number of tasks of a task queue that no worker has claimed.
type QueueBacklog struct {
	Queue string
	Tasks uint64
}

func (r *StoreHealth) fields(c *wire.Codec) {
	wire.List(c, &r.Redis, func(c *wire.Codec, n *RedisNode) {
		c.Record(func(c *wire.Codec) {
			for _, s := range []*string{&n.Address, &n.Version, &n.Role, &n.AOF, &n.Error} {
				c.String(s)
			}
			for _, i := range []*int64{&n.Uptime, &n.Latency, &n.Memory, &n.MaxMemory, &n.Clients, &n.PerSecond, &n.Replicas, &n.LastSave} {
				c.Int(i)
			}
		})
	})
	c.String(&r.RedisError)
	c.String(&r.NATS.Server)
	c.String(&r.NATS.Version)
	c.Int(&r.NATS.Latency)
	wire.List(c, &r.NATS.Streams, func(c *wire.Codec, s *transport.StreamHealth) {
		c.Record(func(c *wire.Codec) {
			c.String(&s.Name)
			c.Uint(&s.Messages)
			c.Uint(&s.Bytes)
			c.Count(&s.Consumers)
			c.String(&s.Leader)
			c.Count(&s.Replicas)
			c.Count(&s.Behind)
			c.String(&s.Error)
		})
	})
	wire.List(c, &r.NATS.Backlog, func(c *wire.Codec, q *QueueBacklog) {
		c.Record(func(c *wire.Codec) {
			c.String(&q.Queue)
			c.Uint(&q.Tasks)
		})
	})
	c.String(&r.NATSError)
}
