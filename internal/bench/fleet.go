package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/netfault"
	"github.com/pawlrun/pawl/internal/process"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/transport"
)

// layout describes the servers and members of a fleet.
type layout struct {
	natsServers            int // more than one: a cluster
	redisCluster           bool
	orchestrators, workers int
	lacking                int    // orchestrators without code, every second one
	concurrency            int    // of each worker; 0: workerConcurrency
	single                 bool   // the only member has both roles
	noHints                bool   // workers receive no hints
	proxies                bool   // every member connects through proxies of its own
	tracesTo               string // URL of a collector, to which members export a tenth of their traces; empty: none
}

// fleet is NATS, Redis, orchestrators and workers, each a process of its own.
type fleet struct {
	layout        layout
	dir           string
	log           io.Writer
	nats          *natsServers
	redis         redisServers
	rdb           redis.UniversalClient // connected to redis
	orchestrators []*member
	workers       []*member
	procs         int // GOMAXPROCS of this process before the fleet was started
}

// member is an orchestrator or a worker.
type member struct {
	*process.Process
	name    string
	args    []string
	log     io.Writer
	proxies []*netfault.Proxy // to NATS and to Redis; none to a cluster, whose servers announce their own addresses
}

// startFleet starts servers and members, and returns before they are ready.
// This process is the client, and limits itself to its share of the cores, as the other processes do.
func startFleet(ctx context.Context, log *slog.Logger, childLog io.Writer, l layout) (_ *fleet, err error) {
	l.concurrency = cmp.Or(l.concurrency, workerConcurrency)
	f := &fleet{layout: l, log: childLog, procs: runtime.GOMAXPROCS(0)}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(process.CPUShare())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop())
		}
	}()
	if f.dir, err = os.MkdirTemp("", "pawl-bench-"); err != nil {
		return nil, err
	}
	if f.redis, err = startRedis(ctx, filepath.Join(f.dir, "redis"), l.redisCluster, log); err != nil {
		return nil, err
	}
	if f.rdb, err = (settings.Redis{RedisURL: settings.URL(f.redis.url())}).DialRedis(slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	if f.nats, err = startNATS(ctx, filepath.Join(f.dir, "nats"), max(l.natsServers, 1), childLog); err != nil {
		return nil, err
	}
	if l.single {
		return f, f.add(&f.orchestrators, "both", 0, l.concurrency)
	}
	for i := range l.orchestrators {
		role := "orchestrator"
		if i%2 == 0 && i/2 < l.lacking {
			role = codeless
		}
		if err := f.add(&f.orchestrators, role, i, l.concurrency); err != nil {
			return nil, err
		}
	}
	for i := range l.workers {
		if err := f.add(&f.workers, "worker", i, l.concurrency); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// add starts the member i of a role, and adds it to a list of members. The concurrency is that of a worker.
func (f *fleet) add(to *[]*member, role string, i, concurrency int) (err error) {
	number := strconv.Itoa(i + 1)
	m := &member{name: role + "-" + number, log: f.log}
	natsURL, redisURL := f.nats.url(), f.redis.url()
	if f.layout.proxies && len(f.nats.servers) == 1 {
		if natsURL, err = m.proxy("nats://", f.nats.servers[0].addr); err != nil {
			return err
		}
	}
	if one, ok := f.redis.(*singleRedis); f.layout.proxies && ok {
		if redisURL, err = m.proxy("redis://", one.addr()); err != nil {
			return err
		}
	}
	if f.layout.noHints && role == "worker" {
		natsURL = strings.Replace(natsURL, "://", "://"+unhintedUser+":"+unhintedUser+"@", 1)
	}
	m.args = []string{
		"serve-bench", role, "--nats", natsURL, "--redis", redisURL, "--replicas", strconv.Itoa(max(f.layout.natsServers, 1)),
		"--concurrency", strconv.Itoa(concurrency), "--name", "worker-" + number, "--drain", "10s", "--log-level", "warn", "--traces-to", f.layout.tracesTo,
	}
	if err = m.start(); err == nil {
		*to = append(*to, m)
	}
	return err
}

func (m *member) proxy(scheme, addr string) (url string, err error) {
	p, err := netfault.Listen(addr)
	if err != nil {
		return "", err
	}
	m.proxies = append(m.proxies, p)
	return scheme + p.Addr(), nil
}

func (m *member) start() (err error) {
	m.Process, err = process.Start(m.name, m.log, m.args...)
	return err
}

// toNATS and toRedis return the proxies of a member that has both.
func (m *member) toNATS() *netfault.Proxy  { return m.proxies[0] }
func (m *member) toRedis() *netfault.Proxy { return m.proxies[1] }

// heal ends the faults of the member's network, and restarts its process if it has ended.
func (m *member) heal() error {
	for _, p := range m.proxies {
		p.Heal()
	}
	if m.Process != nil && !m.Exited() {
		return nil
	}
	return m.start()
}

func (m *member) close() error {
	for _, p := range m.proxies {
		p.Heal()
	}
	var err error
	if m.Process != nil {
		err = m.Stop()
	}
	for _, p := range m.proxies {
		p.Close()
	}
	return err
}

// members returns the orchestrators and the workers.
func (f *fleet) members() []*member { return slices.Concat(f.orchestrators, f.workers) }

// stop stops the members before the servers, and removes the files.
func (f *fleet) stop() error {
	runtime.GOMAXPROCS(f.procs)
	all := f.members()
	closed := make([]error, len(all))
	_ = each(context.Background(), len(all), len(all), func(_ context.Context, i int) error { closed[i] = all[i].close(); return nil })
	errs := []error{errors.Join(closed...)}
	if f.nats != nil {
		errs = append(errs, f.nats.stop())
	}
	if f.rdb != nil {
		errs = append(errs, f.rdb.Close())
	}
	if f.redis != nil {
		errs = append(errs, f.redis.stop())
	}
	if f.dir != "" {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	return errors.Join(errs...)
}

const fsyncAlways = "always"

// fsync has Redis write its append-only file to the disk before each answer.
func (f *fleet) fsync(ctx context.Context) error {
	return f.rdb.ConfigSet(ctx, "appendfsync", fsyncAlways).Err()
}

// cpu returns the processor time of the processes of a fleet, by role, for a fleet with one process per role.
// It is empty without a fleet, and where the operating system does not report processor time.
func (f *fleet) cpu() map[string]time.Duration {
	if f == nil {
		return nil
	}
	pids := map[string]int{"client": os.Getpid(), "nats": f.nats.servers[0].PID()}
	if len(f.orchestrators) > 0 {
		pids["orchestrator"] = f.orchestrators[0].PID()
	}
	if f.layout.lacking > 0 {
		pids["member"] = f.orchestrators[1].PID() // the one with the code
	}
	if len(f.workers) > 0 {
		pids["worker"] = f.workers[0].PID()
	}
	if one, ok := f.redis.(*singleRedis); ok {
		pids["redis"] = one.PID()
	}
	used := make(map[string]time.Duration, len(pids))
	for name, pid := range pids {
		if t, ok := cpuTime(pid); ok {
			used[name] = t
		}
	}
	return used
}

// cpuTime reads the user and system time of a process from /proc of Linux, in ticks of 10 ms.
func cpuTime(pid int) (time.Duration, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name of the process, in parentheses, can contain any character. The fields after it are numbers.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}
	user, errU := strconv.ParseInt(fields[11], 10, 64)
	system, errS := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errU == nil && errS == nil
}

// awaitComplete waits until every orchestrator owns its share of the partitions, and every worker is subscribed.
func (f *fleet) awaitComplete(ctx context.Context, d *driver) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	err := until(ctx, func() bool {
		return f.balanced(ctx, d.ns) && !slices.ContainsFunc(f.workers, func(m *member) bool { return !d.subscribed(m.name) })
	})
	if err != nil {
		return fmt.Errorf("the fleet is not complete: %w", err)
	}
	return nil
}

// balanced reports whether every orchestrator owns at least a quarter of an equal share of the partitions. They are assigned at random.
func (f *fleet) balanced(ctx context.Context, ns string) bool {
	space := redisx.NewSpace(ns)
	answers, err := f.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range transport.DefaultPartitions {
			p.HGet(ctx, space.Part(i).Owner(), "member")
		}
		return nil
	})
	if err != nil {
		return false
	}
	owned := make(map[string]int)
	for _, a := range answers {
		if owner, ok := a.(*redis.StringCmd); ok {
			owned[owner.Val()]++
		}
	}
	for _, n := range owned {
		if n < transport.DefaultPartitions/len(f.orchestrators)/4 {
			return false
		}
	}
	return len(owned) == len(f.orchestrators)
}
