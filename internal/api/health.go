package api

import (
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

// Health is the state of Redis and NATS, as an orchestrator observes it.
type Health struct {
	Redis RedisHealth `json:"redis"`
	NATS  NATSHealth  `json:"nats"`
}

// RedisHealth is the state of Redis.
type RedisHealth struct {
	Nodes []RedisNode `json:"nodes"`           // nodes that accept writes
	Error string      `json:"error,omitempty"` // why Redis could not be read
}

// RedisNode is the state of a Redis node.
type RedisNode struct {
	Address       string  `json:"address,omitempty"` // only in a cluster
	Version       string  `json:"version,omitempty"`
	Role          string  `json:"role,omitempty"` // normally master
	UptimeSeconds int64   `json:"uptime_seconds"`
	LatencyMS     float64 `json:"latency_ms"` // round trip of a PING
	MemoryBytes   int64   `json:"memory_bytes"`
	MaxBytes      int64   `json:"max_memory_bytes"` // 0: unlimited
	Clients       int64   `json:"clients"`
	PerSecond     int64   `json:"commands_per_second"`
	Replicas      int64   `json:"replicas"` // connected replicas
	AOF           string  `json:"aof,omitempty"`
	SaveAge       int64   `json:"last_save_age_seconds"`
	Error         string  `json:"error,omitempty"` // why the other fields are missing
}

// NATSHealth is the state of NATS.
type NATSHealth struct {
	Server    string            `json:"server,omitempty"`
	Version   string            `json:"version,omitempty"`
	LatencyMS float64           `json:"latency_ms"` // round trip of a PING
	Streams   []Stream          `json:"streams"`
	Backlog   map[string]uint64 `json:"backlog"`         // tasks that no worker has claimed, by task queue
	Error     string            `json:"error,omitempty"` // why parts are missing
}

// Stream is the state of a stream.
type Stream struct {
	Name      string `json:"name"`
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
	Consumers int    `json:"consumers"`
	Leader    string `json:"leader,omitempty"` // only in a cluster
	Replicas  int    `json:"replicas"`
	Behind    int    `json:"behind"` // replicas that are offline or not current
	Error     string `json:"error,omitempty"`
}

// HealthOf converts the state of Redis and NATS.
func HealthOf(h client.Health) Health {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	out := Health{
		Redis: RedisHealth{Nodes: []RedisNode{}, Error: h.RedisError},
		NATS:  NATSHealth{Server: h.NATS.Server, Version: h.NATS.Version, LatencyMS: ms(h.NATS.Latency), Streams: []Stream{}, Backlog: h.NATS.Backlog, Error: h.NATSError},
	}
	for _, n := range h.Redis {
		out.Redis.Nodes = append(out.Redis.Nodes, RedisNode{
			Address: n.Address, Version: n.Version, Role: n.Role, UptimeSeconds: int64(n.Uptime.Seconds()), LatencyMS: ms(n.Latency), MemoryBytes: n.Memory, MaxBytes: n.MaxMemory,
			Clients: n.Clients, PerSecond: n.PerSecond, Replicas: n.Replicas, AOF: n.AOF, SaveAge: int64(n.LastSave.Seconds()), Error: n.Error,
		})
	}
	for _, s := range h.NATS.Streams {
		out.NATS.Streams = append(out.NATS.Streams, Stream(s))
	}
	return out
}
