package redisx

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// NodeHealth describes a Redis node that accepts writes.
type NodeHealth struct {
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
	AOF       string        // off, ok, loading, or the operation that failed
	LastSave  time.Duration // age of the latest snapshot
	Error     string        // reason why other fields are missing
}

// Health returns the state of every master. It waits at most a second.
func Health(ctx context.Context, rdb redis.UniversalClient) ([]NodeHealth, error) {
	ctx, stop := context.WithTimeout(ctx, pingTimeout)
	defer stop()
	nodes, err := masters(ctx, rdb)
	if err != nil {
		return nil, err
	}
	out := make([]NodeHealth, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { out[i] = nodeHealth(ctx, node) })
	}
	wg.Wait()
	return out, nil
}

func nodeHealth(ctx context.Context, node redis.Cmdable) (h NodeHealth) {
	if c, ok := node.(*redis.Client); ok {
		h.Address = c.Options().Addr
	}
	node = bounded(node, pingTimeout)
	begin := time.Now()
	if err := node.Ping(ctx).Err(); err != nil {
		h.Error = err.Error()
		return h
	}
	h.Latency = time.Since(begin)
	text, err := node.Info(ctx).Result()
	if err != nil {
		h.Error = "INFO: " + err.Error()
		return h
	}
	h.fill(infoOf(text))
	return h
}

// fill sets the fields from the reply to INFO.
func (h *NodeHealth) fill(info map[string]string) {
	number := func(name string) int64 { n, _ := strconv.ParseInt(info[name], 10, 64); return n } // 0 if the server does not report it
	h.Version, h.Role = info["redis_version"], info["role"]
	h.Uptime = time.Duration(number("uptime_in_seconds")) * time.Second
	h.Memory, h.MaxMemory = number("used_memory"), number("maxmemory")
	h.Clients, h.PerSecond, h.Replicas = number("connected_clients"), number("instantaneous_ops_per_sec"), number("connected_slaves")
	if at := number("rdb_last_save_time"); at > 0 {
		h.LastSave = time.Since(time.Unix(at, 0)).Truncate(time.Second)
	}
	switch {
	case info["loading"] == "1":
		h.AOF = "loading"
	case info["aof_enabled"] != "1":
		h.AOF = "off"
	case info["aof_last_write_status"] != "ok":
		h.AOF = "last write: " + info["aof_last_write_status"]
	case info["aof_last_bgrewrite_status"] != "ok":
		h.AOF = "last rewrite: " + info["aof_last_bgrewrite_status"]
	default:
		h.AOF = "ok"
	}
}
