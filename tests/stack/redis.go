package stack

import (
	"context"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server.
type Redis struct {
	*Process
	Addr string
	t    testing.TB
}

const readyWithin = 20 * time.Second

// StartRedis starts a redis-server; args are further settings of its command line.
// Without any it writes nothing to disk.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not on PATH: install it (apt-get install redis-server)")
	}
	port := freePort(t)
	all := append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--daemonize", "no",
	}, args...)
	r := &Redis{Process: NewProcess(t, "redis-"+strconv.Itoa(port), path, all, nil), Addr: local(port), t: t}
	r.Start()
	return r
}

// Durable are the settings that make a redis-server write everything down before it answers.
func Durable() []string { return []string{"--appendonly", "yes", "--appendfsync", "always"} }

// Start starts the server, also again after Kill, and waits until it answers.
func (r *Redis) Start() {
	r.t.Helper()
	r.Process.Start()
	c := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1})
	defer func() { _ = c.Close() }()
	Until(r.t, readyWithin, "redis-server answers", func() bool { return c.Ping(context.Background()).Err() == nil })
}

// URL is how the fleets are told of it.
func (r *Redis) URL() string { return "redis://" + r.Addr }

// Client connects; the test closes the connection at its end.
func (r *Redis) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: r.Addr})
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// StartRedisCluster starts a cluster of one node, which refuses what a cluster refuses: scripts
// over several slots, and keys that were not declared.
func StartRedisCluster(t testing.TB) *redis.ClusterClient {
	t.Helper()
	r := StartRedis(t, "--cluster-enabled", "yes")
	one := r.Client()
	ctx := context.Background()
	if err := one.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	Until(t, readyWithin, "the cluster is whole", func() bool {
		info, err := one.ClusterInfo(ctx).Result()
		return err == nil && len(info) > 16 && info[:16] == "cluster_state:ok"
	})
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{r.Addr}})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
