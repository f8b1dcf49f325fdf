//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/tests/stack"
)

// The topologies.
const (
	single   = "single"   // one nats-server and one redis-server, which keep everything they acknowledge
	failover = "failover" // Redis with a lagging replica; a failover loses acknowledged writes
	cluster  = "cluster"  // Redis Cluster with 3 masters and 3 replicas: elections, and slots that move
	nats3    = "nats3"    // three nats-servers, streams with three replicas
	sentinel = "sentinel" // Redis with a replica, and three sentinels that report the master to the clients
	encrypt  = "tls"      // as single, with TLS between the members and both servers
	power    = "power"    // as single; the machine loses power, and Redis continues with a snapshot of its files: unsynced writes are lost
	disk     = "disk"     // as single; the disks of Redis and NATS fill up
	clocks   = "clocks"   // as single; the clocks of orchestrators and workers step
	upgrade  = "upgrade"  // as single; orchestrators change to another release of the code, all members to another commit of Pawl, and back
	resized  = "resize"   // as single; the number of partitions changes
)

var topologies = []string{single, failover, cluster, nats3, sentinel, encrypt, power, disk, clocks, upgrade, resized}

// servers are the NATS and Redis servers of a campaign.
type servers struct {
	t        *testing.T
	topology string
	nats     *stack.NATS
	natsAll  *stack.NATSCluster // replaces nats
	redis    *redistest.Server
	cluster  *redistest.ReplicatedCluster // replaces redis

	sentinels []*stack.Process
	redisTLS  string // address of redis for TLS clients
	full      *tmpfs // contains the AOF; nil: none
	fullNATS  *tmpfs // contains the streams; nil: none

	clock *clock // clock of every redis-server

	mu      sync.Mutex
	replica *redistest.Server // topologies failover and sentinel
	lag     *netfault.Proxy   // between the replica and its master
	front   *netfault.Proxy   // in front of the master, for the checker
}

var aof = []string{"--appendonly", "yes", "--appendfsync", "everysec", "--rdbcompression", "no", "--enable-debug-command", "local"}

func startServers(t *testing.T, bin stack.Binaries, topology string) *servers {
	t.Helper()
	s := &servers{t: t, topology: topology, clock: newRedisClock(t)}
	args := aof
	switch topology {
	case nats3:
		s.natsAll = stack.StartNATSCluster(t, bin)
	case encrypt:
		dir := certificate(t)
		s.redisTLS = net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Take(t)))
		_, port, _ := strings.Cut(s.redisTLS, ":")
		args = append(slices.Clone(aof), "--tls-port", port, "--tls-auth-clients", "no", "--tls-cert-file", filepath.Join(dir, "cert.pem"),
			"--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", filepath.Join(dir, "cert.pem"))
		s.nats = stack.StartNATS(t, bin, "NATSD_TLS="+dir)
		t.Setenv("PAWL_NATS_CA", filepath.Join(dir, "cert.pem"))
		t.Setenv("PAWL_REDIS_CA", filepath.Join(dir, "cert.pem"))
	case power:
		args = append(slices.Clone(aof), "--auto-aof-rewrite-percentage", "0") // otherwise a copy of the files would not be consistent
	case disk:
		if s.full = mount(t); s.full != nil {
			args = append(slices.Clone(aof), "--dir", s.full.dir)
			s.fullNATS = mount(t)
			s.nats = stack.StartNATS(t, bin, "NATSD_STORE="+s.fullNATS.dir)
		}
	}
	if s.natsAll == nil && s.nats == nil {
		s.nats = stack.StartNATS(t, bin)
	}
	if topology == cluster {
		s.cluster = redistest.StartReplicatedCluster(t, 3, aof...)
		return s
	}
	s.redis = redistest.Start(t, args...)
	switch topology {
	case failover:
		s.front = s.proxy(s.redis.Addr)
		s.replica = redistest.Start(t, aof...)
		s.follow()
	case sentinel:
		s.replica = redistest.Start(t, aof...)
		s.watch()
	}
	return s
}

func (s *servers) proxy(addr string) *netfault.Proxy {
	s.t.Helper()
	p, err := netfault.Listen(addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Close)
	return p
}

func (s *servers) natsURL() string {
	if s.natsAll != nil {
		return s.natsAll.URL()
	}
	return s.nats.URL()
}

// natsProxied returns the server that each member connects to through its own proxy. It is empty for a cluster, because
// clients learn the addresses of its servers and bypass the proxies.
func (s *servers) natsProxied() string {
	if s.natsAll != nil {
		return ""
	}
	return s.nats.Addr
}

func (s *servers) redisURL() string {
	switch {
	case s.cluster != nil:
		return "redis+cluster://" + strings.Join(s.cluster.Addrs(), ",")
	case s.sentinels != nil:
		var all []string
		for _, p := range s.sentinels {
			all = append(all, p.Name())
		}
		return "redis+sentinel://" + strings.Join(all, ",") + "?master_name=" + namespace
	case s.redisTLS != "":
		return "rediss://" + s.redisTLS
	case s.front != nil:
		return "redis://" + s.front.Addr()
	}
	return "redis://" + s.redis.Addr
}

func (s *servers) redisProxied() string {
	switch {
	case s.cluster != nil, s.sentinels != nil:
		return ""
	case s.redisTLS != "":
		return s.redisTLS
	}
	return s.redis.Addr
}

// redisDirs returns the directories in which Redis stores data.
func (s *servers) redisDirs() (all []string) {
	nodes := []*redistest.Server{s.redis, s.replica}
	if s.cluster != nil {
		nodes = append(slices.Clone(s.cluster.Masters), s.cluster.Replicas...)
	}
	for _, n := range nodes {
		if n != nil {
			all = append(all, n.Dir)
		}
	}
	if s.full != nil {
		all = append(all, s.full.dir)
	}
	return all
}

// natsDirs returns the directories in which NATS stores data.
func (s *servers) natsDirs() (all []string) {
	if s.natsAll != nil {
		for _, n := range s.natsAll.Nodes {
			all = append(all, n.Dir)
		}
		return all
	}
	all = append(all, s.nats.Dir)
	if s.fullNATS != nil {
		all = append(all, s.fullNATS.dir)
	}
	return all
}

func (s *servers) replicas() int {
	if s.natsAll != nil {
		return 3
	}
	return 1
}

// rollback reports whether Redis may lose acknowledged writes.
func (s *servers) rollback() bool {
	return slices.Contains([]string{failover, cluster, sentinel, power}, s.topology)
}

// follow makes the replica follow the master through a proxy that can delay it, and waits until it is in sync.
func (s *servers) follow() {
	s.t.Helper()
	if s.lag == nil {
		s.lag = s.proxy(s.redis.Addr)
	}
	s.lag.Retarget(s.redis.Addr)
	host, port, _ := strings.Cut(s.lag.Addr(), ":")
	rdb := s.replica.Client(s.t)
	poll.Until(s.t, settleIdle, "the replica is in sync", func() bool {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		_ = rdb.Do(ctx, "REPLICAOF", host, port).Err()
		info, err := rdb.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
}

// failOver delays the replica for a while, kills the master and promotes the replica: writes that the master acknowledged in
// the meantime are lost. The old master returns as the replica of the new one.
func (s *servers) failOver(lag time.Duration, down time.Duration, retarget func(addr string)) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag.BlackHole()
	wait(lag)
	s.redis.Kill()
	wait(down)
	s.lag.Cut()
	s.lag.Heal()
	rdb := s.replica.Client(s.t)
	poll.Until(s.t, settleIdle, "the replica is promoted", func() bool {
		return rdb.Do(context.Background(), "REPLICAOF", "NO", "ONE").Err() == nil
	})
	s.redis, s.replica = s.replica, s.redis
	retarget(s.redis.Addr)
	s.front.Retarget(s.redis.Addr)
	s.replica.Restart(s.t)
	s.follow()
}

// moveSlot moves the slot of a key from its master to another one, key by key, while the fleets use it.
func (s *servers) moveSlot(key string, keysPerStep int) error {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	all := s.cluster.Client(s.t, nil)
	slot, err := all.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return err
	}
	shards, err := all.ClusterShards(ctx).Result()
	if err != nil {
		return err
	}
	type node struct{ id, addr string }
	var masters []node
	var from, to node
	for _, shard := range shards {
		var master node
		for _, n := range shard.Nodes {
			if n.Role == "master" && n.Health == "online" {
				master = node{n.ID, fmt.Sprintf("%s:%d", n.IP, n.Port)}
			}
		}
		if master.id == "" {
			return fmt.Errorf("a shard has no master")
		}
		masters = append(masters, master)
		for _, r := range shard.Slots {
			if slot >= r.Start && slot <= r.End {
				from = master
			}
		}
	}
	for _, m := range masters {
		if m != from {
			to = m
		}
	}
	clients := map[string]*redis.Client{}
	for _, m := range masters {
		rdb := redis.NewClient(&redis.Options{Addr: m.addr, DisableIdentity: true})
		defer func() { _ = rdb.Close() }()
		clients[m.id] = rdb
	}
	host, port, _ := strings.Cut(to.addr, ":")
	if err := clients[to.id].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.id).Err(); err != nil {
		return err
	}
	if err := clients[from.id].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.id).Err(); err != nil {
		return err
	}
	for {
		keys, err := clients[from.id].ClusterGetKeysInSlot(ctx, int(slot), keysPerStep).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		if err := clients[from.id].Do(ctx, args...).Err(); err != nil {
			return err
		}
	}
	for _, id := range []string{to.id, from.id} {
		if err := clients[id].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", to.id).Err(); err != nil {
			return err
		}
	}
	for _, m := range masters {
		_ = clients[m.id].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", to.id).Err() // the other masters report this as well
	}
	return nil
}

// wait waits for d.
func wait(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	<-over.C
}
