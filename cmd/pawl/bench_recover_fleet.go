package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	recoverOrchestrators = 3
	recoverWorkers       = 4
)

// recoverFleet is a fleet whose members each have a network of their own. Servers and members are processes.
type recoverFleet struct {
	dir           string
	log           io.Writer
	nats          *natsServers
	redis         redisServers
	orchestrators []*faultyMember
	workers       []*faultyMember
}

// redisServers is one Redis server, or a cluster of them.
type redisServers interface {
	// url is what a member connects to; proxied says whether it may be the address of a proxy in front of addr.
	url(addr string) string
	addr() string
	proxied() bool
	stop() error
}

// faultyMember is an orchestrator or a worker behind proxies of its own.
type faultyMember struct {
	*process
	name  string
	args  []string
	log   io.Writer
	nats  *netfault.Proxy
	redis *netfault.Proxy // nil in front of a cluster: its nodes announce their own addresses
}

// startRecoverFleet starts servers and members and returns when they have been started, not when they are ready.
func startRecoverFleet(ctx context.Context, log *slog.Logger, childLog io.Writer, natsNodes int, redisCluster bool) (_ *recoverFleet, err error) {
	f := &recoverFleet{log: childLog}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop())
		}
	}()
	if f.dir, err = os.MkdirTemp("", "pawl-bench-"); err != nil {
		return nil, err
	}
	if f.redis, err = startRedisServers(ctx, filepath.Join(f.dir, "redis"), redisCluster, log); err != nil {
		return nil, err
	}
	if f.nats, err = startNATSServers(ctx, filepath.Join(f.dir, "nats"), natsNodes, childLog); err != nil {
		return nil, err
	}
	for i := range recoverOrchestrators {
		m, err := f.member("orchestrator-"+strconv.Itoa(i+1), "serve-orchestrator", "--examples", "--replicas", strconv.Itoa(natsNodes))
		if err != nil {
			return nil, err
		}
		f.orchestrators = append(f.orchestrators, m)
	}
	for i := range recoverWorkers {
		name := "worker-" + strconv.Itoa(i+1)
		m, err := f.member(name, "serve-worker", "--examples", "--name", name, "--concurrency", "64")
		if err != nil {
			return nil, err
		}
		f.workers = append(f.workers, m)
	}
	return f, nil
}

func (f *recoverFleet) member(name string, args ...string) (_ *faultyMember, err error) {
	m := &faultyMember{name: name, log: f.log}
	natsURL, redisURL := f.nats.url(), f.redis.url(f.redis.addr())
	if f.nats.single() {
		if m.nats, err = netfault.Listen(f.nats.nodes[0].addr); err != nil {
			return nil, err
		}
		natsURL = "nats://" + m.nats.Addr()
	}
	if f.redis.proxied() {
		if m.redis, err = netfault.Listen(f.redis.addr()); err != nil {
			return nil, err
		}
		redisURL = f.redis.url(m.redis.Addr())
	}
	m.args = slices.Concat(args, []string{"--nats", natsURL, "--redis", redisURL, "--drain", "5s", "--log-level", "warn"})
	return m, m.start()
}

func (m *faultyMember) start() (err error) {
	m.process, err = spawn(m.name, m.log, m.args...)
	return err
}

// heal ends the faults of the member's network and starts its process again if it has ended.
func (m *faultyMember) heal() error {
	for _, p := range []*netfault.Proxy{m.nats, m.redis} {
		if p != nil {
			p.Heal()
		}
	}
	if m.process != nil && !m.gone() {
		return nil
	}
	return m.start()
}

func (m *faultyMember) close() error {
	for _, p := range []*netfault.Proxy{m.nats, m.redis} {
		if p != nil {
			p.Heal()
		}
	}
	err := m.process.stop()
	for _, p := range []*netfault.Proxy{m.nats, m.redis} {
		if p != nil {
			p.Close()
		}
	}
	return err
}

func (f *recoverFleet) stop() error {
	errs := make(chan error)
	members := append(append([]*faultyMember(nil), f.workers...), f.orchestrators...)
	for _, m := range members {
		go func() { errs <- m.close() }()
	}
	var all []error
	for range members {
		all = append(all, <-errs)
	}
	if f.nats != nil {
		all = append(all, f.nats.stop())
	}
	if f.redis != nil {
		all = append(all, f.redis.stop())
	}
	return errors.Join(append(all, os.RemoveAll(f.dir))...)
}

// whole waits until the fleet is as it was started: every orchestrator owns its share, and every worker is subscribed.
func (f *recoverFleet) whole(ctx context.Context, b *bench) error {
	rdb, err := settings.Redis{RedisURL: settings.URL(f.redis.url(f.redis.addr()))}.DialRedis(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeout(ctx, recoverHealthy)
	defer cancel()
	err = until(ctx, func() bool {
		return f.spread(ctx, rdb, b.ns) && !slices.ContainsFunc(f.workers, func(m *faultyMember) bool { return !b.hears(m.name) })
	})
	if err != nil {
		return fmt.Errorf("the fleet is not whole again: %w", err)
	}
	return nil
}

// spread reports whether every orchestrator owns partitions: a quarter of an equal share at least, for chance assigns them.
func (f *recoverFleet) spread(ctx context.Context, rdb redis.UniversalClient, ns string) bool {
	space := redisx.NewSpace(ns)
	answers, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range queue.DefaultPartitions {
			p.HGet(ctx, space.Part(i).Owner(), "member")
		}
		return nil
	})
	if err != nil {
		return false
	}
	owned := make(map[string]int)
	for _, a := range answers {
		if member, ok := a.(*redis.StringCmd); ok {
			owned[member.Val()]++
		}
	}
	for _, n := range owned {
		if n < queue.DefaultPartitions/recoverOrchestrators/4 {
			return false
		}
	}
	return len(owned) == recoverOrchestrators
}

func startRedisServers(ctx context.Context, dir string, cluster bool, log *slog.Logger) (redisServers, error) {
	if cluster {
		c, err := startRedisCluster(ctx, dir)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	r := &oneRedis{dir: dir, log: log}
	if err := r.start(ctx, 0); err != nil {
		return nil, err
	}
	return r, nil
}

// oneRedis is a server on its own, which can be killed and started again at its address with its files.
type oneRedis struct {
	*embedded.Redis
	dir string
	log *slog.Logger
}

func (r *oneRedis) start(ctx context.Context, port int) (err error) {
	r.Redis, err = embedded.StartRedis(ctx, embedded.RedisOptions{Dir: r.dir, Port: port, Kind: embedded.RedisServer, Logger: r.log})
	return err
}

func (r *oneRedis) url(addr string) string { return "redis://" + addr }
func (r *oneRedis) addr() string           { return strings.TrimPrefix(r.URL(), "redis://") }
func (r *oneRedis) proxied() bool          { return true }
func (r *oneRedis) stop() error            { return r.Stop() }

// restart kills the server and starts it again. It returns when the server answers.
func (r *oneRedis) restart(ctx context.Context) error {
	u, err := url.Parse(r.URL())
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(u.Port())
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
	_ = r.Stop() // it was killed, and says so
	return r.start(ctx, port)
}

// waitListening waits until a server takes connections at an address.
func waitListening(ctx context.Context, addr string, p *process) error {
	var d net.Dialer
	err := until(ctx, func() bool {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return p.gone()
		}
		_ = conn.Close()
		return true
	})
	if p.gone() {
		return fmt.Errorf("%s ended while it was started: %s", p.name, p.cmd.ProcessState)
	}
	return err
}

// freeAddrs returns addresses of loopback where nothing listens at the moment.
func freeAddrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range n {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
