package redisx

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// NodeHealth is the state of a Redis node that takes writes.
type NodeHealth struct {
	Address   string // of a cluster; empty: there is one node
	Version   string
	Role      string // master, or slave while a replica is elected
	Uptime    time.Duration
	Latency   time.Duration // of a PING
	Memory    int64         // bytes in use
	MaxMemory int64         // 0: no limit
	Clients   int64
	PerSecond int64         // commands
	Replicas  int64         // connected
	AOF       string        // off, ok, or what is wrong with it
	LastSave  time.Duration // age of the latest snapshot
	Error     string        // why there is no more
}

// Health asks every master for its state, and waits a second for each at most.
func Health(ctx context.Context, rdb redis.UniversalClient) ([]NodeHealth, error) {
	ctx, stop := context.WithTimeout(ctx, pingTimeout)
	defer stop()
	nodes, err := masters(ctx, rdb)
	if err != nil {
		return nil, err
	}
	type numbered struct {
		at int
		h  NodeHealth
	}
	answers := make(chan numbered, len(nodes))
	for i, node := range nodes {
		go func() { answers <- numbered{i, nodeHealth(ctx, node)} }()
	}
	out := make([]NodeHealth, len(nodes))
	for range nodes {
		a := <-answers
		out[a.at] = a.h
	}
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

// fill reads the answer to INFO.
func (h *NodeHealth) fill(info map[string]string) {
	number := func(name string) int64 { n, _ := strconv.ParseInt(info[name], 10, 64); return n } // 0: a server without it
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
