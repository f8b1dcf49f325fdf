package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters     = 3
	clusterNodeTimeout = 3 * time.Second
)

// serveNATSNode is one nats-server of a cluster with JetStream.
type serveNATSNode struct {
	serveNATSCmd

	Name    string   `required:"" help:"Name of the server."`
	Cluster int      `required:"" help:"TCP port for the other servers."`
	Routes  []string `required:"" help:"Addresses of all servers of the cluster."`
}

// Run runs it until standard input ends.
func (c *serveNATSNode) Run(ctx context.Context) error {
	return serveServer(ctx, &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, JetStream: true, StoreDir: filepath.Clean(c.Dir), NoSigs: true,
		Cluster: server.ClusterOpts{Name: "pawl-bench", Host: "127.0.0.1", Port: c.Cluster},
		Routes:  server.RoutesFromStr("nats://" + strings.Join(c.Routes, ",nats://")),
	})
}

// natsServers is one nats-server, or a cluster of them.
type natsServers struct{ nodes []*natsNode }

type natsNode struct {
	*process
	name string
	addr string
	args []string
	log  io.Writer
}

func startNATSServers(ctx context.Context, dir string, n int, log io.Writer) (*natsServers, error) {
	addrs, err := freeAddrs(ctx, 2*n)
	if err != nil {
		return nil, err
	}
	s := &natsServers{}
	for i, addr := range addrs[:n] {
		node := &natsNode{name: "nats-" + strconv.Itoa(i+1), addr: addr, log: log}
		node.args = []string{"--dir", filepath.Join(dir, node.name), "--port", portOf(addr)}
		if n == 1 {
			node.args = append([]string{"serve-nats"}, node.args...)
		} else {
			node.args = append([]string{"serve-nats-node", "--name", node.name, "--cluster", portOf(addrs[n+i]), "--routes", strings.Join(addrs[n:], ",")}, node.args...)
		}
		s.nodes = append(s.nodes, node)
		if err := node.start(ctx); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	if err := s.elected(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// elected waits until JetStream answers: a cluster elects a leader first.
func (s *natsServers) elected(ctx context.Context) error {
	nc, err := nats.Connect(s.url())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return until(ctx, func() bool {
		ask, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err := js.AccountInfo(ask)
		return err == nil
	})
}

func (n *natsNode) start(ctx context.Context) (err error) {
	if n.process, err = spawn(n.name, n.log, n.args...); err != nil {
		return err
	}
	return waitListening(ctx, n.addr, n.process)
}

func (s *natsServers) single() bool { return len(s.nodes) == 1 }

func (s *natsServers) url() string {
	var urls []string
	for _, n := range s.nodes {
		urls = append(urls, "nats://"+n.addr)
	}
	return strings.Join(urls, ",")
}

// node finds a server by the name that JetStream calls it.
func (s *natsServers) node(name string) *natsNode {
	for _, n := range s.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func (s *natsServers) stop() error {
	var ps []*process
	for _, n := range s.nodes {
		if n.process != nil {
			ps = append(ps, n.process)
		}
	}
	return stopAll(ps)
}

// redisCluster is a Redis Cluster of three masters with a replica each.
type redisCluster struct{ nodes []*redisNode }

// redisNode is a redis-server that is a node of a cluster. A node that was killed can be started again with its files.
type redisNode struct {
	listen string
	bus    string // port for the other nodes
	dir    string
	cmd    *exec.Cmd
	rdb    *redis.Client
}

func startRedisCluster(ctx context.Context, dir string) (_ *redisCluster, err error) {
	addrs, err := freeAddrs(ctx, 4*clusterMasters)
	if err != nil {
		return nil, err
	}
	c := &redisCluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	for i, addr := range addrs[:2*clusterMasters] {
		n := &redisNode{listen: addr, bus: portOf(addrs[2*clusterMasters+i]), dir: filepath.Join(dir, strconv.Itoa(i)), rdb: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})}
		c.nodes = append(c.nodes, n)
		if err := n.start(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.form(ctx); err != nil {
		return nil, fmt.Errorf("form a Redis Cluster: %w", err)
	}
	return c, nil
}

// form has the nodes meet, gives the masters their slots and each of them a replica.
func (c *redisCluster) form(ctx context.Context) error {
	first := c.nodes[0]
	for _, n := range c.nodes[1:] {
		if err := n.rdb.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", portOf(first.listen), first.bus).Err(); err != nil {
			return err
		}
	}
	const slots = 16384
	for i, n := range c.nodes[:clusterMasters] {
		if err := n.rdb.ClusterAddSlotsRange(ctx, i*slots/clusterMasters, (i+1)*slots/clusterMasters-1).Err(); err != nil {
			return err
		}
	}
	for i, n := range c.nodes[clusterMasters:] {
		id, err := c.nodes[i].rdb.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		// The replica learns of its master by gossip.
		if err := until(ctx, func() bool { return n.rdb.ClusterReplicate(ctx, id).Err() == nil }); err != nil {
			return err
		}
	}
	return c.healthy(ctx)
}

// healthy waits until every node sees the whole cluster and every replica is connected to its master.
func (c *redisCluster) healthy(ctx context.Context) error {
	return until(ctx, func() bool {
		for _, n := range c.nodes {
			info, err := n.rdb.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
			replication, err := n.rdb.Info(ctx, "replication").Result()
			if err != nil || !strings.Contains(replication, "role:master") && !strings.Contains(replication, "master_link_status:up") ||
				strings.Contains(replication, "role:master") && !strings.Contains(replication, "connected_slaves:1") {
				return false
			}
		}
		return true
	})
}

func (c *redisCluster) url(string) string {
	var hosts []string
	for _, n := range c.nodes {
		hosts = append(hosts, n.listen)
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

func (c *redisCluster) addr() string  { return c.nodes[0].listen }
func (c *redisCluster) proxied() bool { return false }

func (c *redisCluster) stop() error {
	var errs []error
	for _, n := range c.nodes {
		n.kill()
		errs = append(errs, n.rdb.Close())
	}
	return errors.Join(errs...)
}

// start starts a node, also again after kill, and waits until it answers.
func (n *redisNode) start(ctx context.Context) error {
	if err := os.MkdirAll(n.dir, 0o750); err != nil {
		return err
	}
	n.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", portOf(n.listen), "--dir", n.dir, "--logfile", "redis.log", //nolint:noctx // ended by kill
		"--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction", "--cluster-enabled", "yes", "--cluster-port", n.bus,
		"--cluster-node-timeout", strconv.FormatInt(clusterNodeTimeout.Milliseconds(), 10))
	if err := n.cmd.Start(); err != nil {
		n.cmd = nil
		return err
	}
	return until(ctx, func() bool { return n.rdb.Ping(ctx).Err() == nil })
}

func (n *redisNode) kill() {
	if n.cmd == nil || n.cmd.ProcessState != nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended
	_ = n.cmd.Wait()
}

func (n *redisNode) master(ctx context.Context) bool {
	role, err := n.rdb.Info(ctx, "replication").Result()
	return err == nil && strings.Contains(role, "role:master")
}
