package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/process"
)

const (
	clusterMasters     = 3
	clusterNodeTimeout = 3 * time.Second
)

// natsServers are one NATS server, or a cluster of several.
type natsServers struct{ servers []*natsServer }

type natsServer struct {
	*process.Process
	name string
	addr string
	args []string
	log  io.Writer
}

func startNATS(ctx context.Context, dir string, n int, log io.Writer) (*natsServers, error) {
	addrs, err := freeAddrs(ctx, 2*n)
	if err != nil {
		return nil, err
	}
	all := &natsServers{}
	for i, addr := range addrs[:n] {
		s := &natsServer{name: "nats-" + strconv.Itoa(i+1), addr: addr, log: log}
		s.args = []string{"serve-bench-nats", "--dir", filepath.Join(dir, s.name), "--port", portOf(addr), "--name", s.name}
		if n > 1 {
			s.args = append(s.args, "--cluster", portOf(addrs[n+i]), "--routes", strings.Join(addrs[n:], ","))
		}
		all.servers = append(all.servers, s)
		if err := s.start(ctx); err != nil {
			return nil, errors.Join(err, all.stop())
		}
	}
	if err := all.awaitJetStream(ctx); err != nil {
		return nil, errors.Join(err, all.stop())
	}
	return all, nil
}

// awaitJetStream waits until JetStream answers. A cluster elects a leader first.
func (all *natsServers) awaitJetStream(ctx context.Context) error {
	nc, err := nats.Connect(all.url(), nats.Timeout(connectTimeout))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return until(ctx, func() bool {
		request, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		_, err := js.AccountInfo(request)
		return err == nil
	})
}

// start starts a server, also after a kill, and waits until it accepts connections.
func (s *natsServer) start(ctx context.Context) (err error) {
	if s.Process, err = process.Start(s.name, s.log, s.args...); err != nil {
		return err
	}
	var d net.Dialer
	err = until(ctx, func() bool {
		conn, err := d.DialContext(ctx, "tcp", s.addr)
		if err != nil {
			return s.Exited()
		}
		_ = conn.Close()
		return true
	})
	if s.Exited() {
		return fmt.Errorf("%s ended during its start: %s", s.name, s.State())
	}
	return err
}

func (all *natsServers) url() string {
	var urls []string
	for _, s := range all.servers {
		urls = append(urls, "nats://"+s.addr)
	}
	return strings.Join(urls, ",")
}

func (all *natsServers) stop() error {
	var ps []*process.Process
	for _, s := range all.servers {
		if s.Process != nil {
			ps = append(ps, s.Process)
		}
	}
	return process.StopAll(ps)
}

// redisServers is one Redis server, or a cluster.
type redisServers interface {
	url() string
	stop() error
}

func startRedis(ctx context.Context, dir string, cluster bool, log *slog.Logger) (redisServers, error) {
	if cluster {
		c, err := startRedisCluster(ctx, dir)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	r := &singleRedis{dir: dir, log: log}
	if err := r.start(ctx, 0); err != nil {
		return nil, err
	}
	return r, nil
}

// singleRedis is a Redis server that can be killed, and restarted at the same address with its files.
type singleRedis struct {
	*embedded.Redis
	dir string
	log *slog.Logger
}

func (r *singleRedis) start(ctx context.Context, port int) (err error) {
	r.Redis, err = embedded.StartRedis(ctx, embedded.RedisOptions{Dir: r.dir, Port: port, Kind: embedded.RedisServer, Logger: r.log})
	return err
}

func (r *singleRedis) url() string  { return r.URL() }
func (r *singleRedis) addr() string { return strings.TrimPrefix(r.URL(), "redis://") }
func (r *singleRedis) stop() error  { return r.Stop() }

// restart kills the server, calls stopped, starts the server again, and waits until it answers.
func (r *singleRedis) restart(ctx context.Context, stopped func() error) error {
	port, err := strconv.Atoi(portOf(r.addr()))
	if err != nil {
		return err
	}
	p, err := os.FindProcess(r.PID())
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	<-r.Done()
	_ = r.Stop() // reports the kill
	if err := stopped(); err != nil {
		return err
	}
	return r.start(ctx, port)
}

// redisCluster is a Redis Cluster of three masters with a replica each.
type redisCluster struct{ nodes []*redisNode }

// redisNode is a node of a cluster. A node that was killed can be restarted with its files.
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

// form joins the nodes into a cluster, assigns the slots to the masters, and a replica to each of them.
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
		// The replica discovers its master by gossip.
		if err := until(ctx, func() bool { return n.rdb.ClusterReplicate(ctx, id).Err() == nil }); err != nil {
			return err
		}
	}
	return c.awaitHealthy(ctx)
}

// awaitHealthy waits until every node reports a healthy cluster, and every replica is connected to its master.
func (c *redisCluster) awaitHealthy(ctx context.Context) error {
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

func (c *redisCluster) url() string {
	var hosts []string
	for _, n := range c.nodes {
		hosts = append(hosts, n.listen)
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

func (c *redisCluster) stop() error {
	var errs []error
	for _, n := range c.nodes {
		n.kill()
		errs = append(errs, n.rdb.Close())
	}
	return errors.Join(errs...)
}

// start starts a node, also after a kill, and waits until it answers.
func (n *redisNode) start(ctx context.Context) error {
	if err := os.MkdirAll(n.dir, 0o750); err != nil {
		return err
	}
	n.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", portOf(n.listen), "--dir", n.dir, "--logfile", "redis.log", //nolint:noctx // ended by kill
		"--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction", "--hash-max-ziplist-value", "256", "--cluster-enabled", "yes", "--cluster-port", n.bus,
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
	_ = n.cmd.Process.Kill() // fails only if the process has ended
	_ = n.cmd.Wait()
}

func (n *redisNode) master(ctx context.Context) bool {
	role, err := n.rdb.Info(ctx, "replication").Result()
	return err == nil && strings.Contains(role, "role:master")
}

// freeAddrs returns loopback addresses at which nothing listens.
func freeAddrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range n {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all are closed at the end, so that the addresses differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
