package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// nodeTimeout is the time after which the nodes of a cluster declare a silent node dead.
const nodeTimeout = time.Second

// ReplicatedCluster is a Redis Cluster in which each master has one replica, which is elected when its master is silent.
type ReplicatedCluster struct {
	Masters  []*Server // the masters at the start
	Replicas []*Server // Replicas[i] is the replica of Masters[i]
}

// StartReplicatedCluster starts a cluster with a number of masters, each with a replica, and waits until it accepts writes and every
// replica is in sync. The nodes declare each other dead after a second; args are further options of each redis-server.
func StartReplicatedCluster(t testing.TB, masters int, args ...string) *ReplicatedCluster {
	t.Helper()
	c := &ReplicatedCluster{}
	nodes := make([]*Server, 2*masters)
	for i := range nodes {
		nodes[i] = start(t, true, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", freePort(t), "--cluster-announce-ip", "127.0.0.1",
			"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		}, args...))
	}
	for _, s := range nodes {
		s.await(t)
	}
	c.Masters, c.Replicas = nodes[:masters], nodes[masters:]
	c.meet(t, nodes)
	for i, s := range c.Masters {
		s.command(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1)
	}
	for i, s := range c.Replicas {
		id := c.Masters[i].command(t, "CLUSTER", "MYID")
		s.poll(t, func(ctx context.Context, rdb *redis.Client) error { // it fails until the node has met its master
			return rdb.Do(ctx, "CLUSTER", "REPLICATE", id).Err()
		})
	}
	for _, s := range nodes {
		s.awaitCluster(t)
		s.poll(t, func(ctx context.Context, rdb *redis.Client) error {
			nodes, err := rdb.ClusterNodes(ctx).Result()
			if n := strings.Count(nodes, "slave"); err == nil && n != masters {
				err = fmt.Errorf("%d of %d replicas are known:\n%s", n, masters, nodes)
			}
			return err
		})
	}
	for _, s := range c.Replicas {
		s.poll(t, func(ctx context.Context, rdb *redis.Client) error {
			info, err := rdb.Info(ctx, "replication").Result()
			if err == nil && !strings.Contains(info, "master_link_status:up") {
				err = fmt.Errorf("the replica is not in sync:\n%s", info)
			}
			return err
		})
	}
	return c
}

// slots is the number of hash slots of every cluster.
const slots = 16384

func (c *ReplicatedCluster) meet(t testing.TB, nodes []*Server) {
	t.Helper()
	for i, s := range nodes {
		s.command(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range nodes[1:] {
		host, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		nodes[0].command(t, "CLUSTER", "MEET", host, port, s.busPort())
	}
}

// busPort returns the port on which the other nodes of a cluster connect to this one.
func (s *Server) busPort() string {
	for i, a := range s.args {
		if a == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return ""
}

func (s *Server) command(t testing.TB, args ...any) any {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true})
	defer func() { _ = rdb.Close() }()
	v, err := rdb.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("redis-server at %s: %v: %v", s.Addr, args, err)
	}
	return v
}

// Addrs returns the addresses of all nodes.
func (c *ReplicatedCluster) Addrs() []string {
	var out []string
	for i := range c.Masters {
		out = append(out, c.Masters[i].Addr, c.Replicas[i].Addr)
	}
	return out
}

// Client returns a new client of the cluster, whose options with may change. It is closed when the test ends.
func (c *ReplicatedCluster) Client(t testing.TB, with func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	o := &redis.ClusterOptions{Addrs: c.Addrs(), DisableIdentity: true}
	if with != nil {
		with(o)
	}
	rdb := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Shard returns the index of the shard that had the slot of the key at the start.
func (c *ReplicatedCluster) Shard(t testing.TB, key string) int {
	t.Helper()
	slot, ok := c.Replicas[0].command(t, "CLUSTER", "KEYSLOT", key).(int64)
	if !ok {
		t.Fatal("CLUSTER KEYSLOT did not return a number")
	}
	n := int64(len(c.Masters))
	for i := n - 1; ; i-- {
		if slot >= i*slots/n {
			return int(i)
		}
	}
}

// AwaitElection waits until the replica of a shard has become its master, and returns the time at which this was observed.
func (c *ReplicatedCluster) AwaitElection(t testing.TB, shard int) time.Time {
	t.Helper()
	c.Replicas[shard].poll(t, func(ctx context.Context, rdb *redis.Client) error {
		role, err := rdb.Do(ctx, "ROLE").Slice()
		if err == nil && (len(role) == 0 || role[0] != "master") {
			err = fmt.Errorf("not elected: %v", role)
		}
		return err
	})
	return time.Now()
}
