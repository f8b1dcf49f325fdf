// Package crash runs Pawl as it runs in earnest, orchestrators and workers as
// processes of their own on a real nats-server and redis-server, and kills, pauses
// and restarts them: at the crash points (package failpoint), at any moment, and the
// servers too. Whatever is done, at the end every instance has ended once with the
// right result, every side effect was had at least once, and the invariant checker
// finds nothing.
package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

var bin stack.Binaries //nolint:gochecknoglobals // made once in TestMain

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pawl-crash-")
	if err == nil {
		bin, err = stack.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
	stack.AtOnce(2 * runtime.GOMAXPROCS(0)) // they wait for leases and ownerships to expire
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// within is how long the instances of one arena may take for everything that is done to them.
const within = 40 * time.Second

// servers are what several arenas may share, each in a namespace of its own.
type servers struct {
	nats  *stack.NATS
	redis *redistest.Server
	other *redistest.Server // with redis it shares the slots of a cluster; nil: redis has all

	cluster *redistest.ReplicatedCluster // instead of redis and other
}

func startServers(t *testing.T) servers {
	t.Helper()
	return servers{nats: stack.StartNATS(t, bin), redis: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")}
}

// client is of all Redis servers together.
func (s servers) client(t *testing.T) redis.UniversalClient {
	t.Helper()
	switch {
	case s.cluster != nil:
		return s.cluster.Client(t, nil)
	case s.other == nil:
		return s.redis.Client(t)
	}
	rdb := work.Masters([]string{s.redis.Addr, s.other.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// url is how the fleets reach them.
func (s servers) url() string {
	if s.cluster != nil {
		return "redis+cluster://" + strings.Join(s.cluster.Addrs(), ",")
	}
	return "redis://" + s.redis.Addr
}

// arena is one namespace with its fleets and its instances.
type arena struct {
	servers
	t      *testing.T
	parts  int
	ns     string
	ledger string
	env    []string
	client *client.Client
	store  *store.Store
	rdb    redis.UniversalClient
	all    []*stack.Process // every member of its fleets
	tended bool             // those that die are started again
	deaths int              // of those
	mixed  []*outcome       // what whoever waits for instance n was told
	ctx    context.Context  //nolint:containedctx // ends with the test
}

// outcome is what a waiting client is told, once told is closed.
type outcome struct {
	told chan struct{}
	at   time.Time
	sum  int
	err  error
}

func newArena(t *testing.T, s servers, env ...string) *arena {
	t.Helper()
	return newArenaOf(t, s, 4, env...)
}

func newArenaOf(t *testing.T, s servers, partitions int, env ...string) *arena {
	t.Helper()
	ns := strings.NewReplacer("/", "-", ".", "-", ":", "-", ",", "", "'", "").Replace(t.Name())
	ns = ns[max(0, len(ns)-60):]
	a := &arena{servers: s, t: t, parts: partitions, ns: ns, ledger: filepath.Join(t.TempDir(), "ledger")}
	a.env = append([]string{
		"PAWL_NATS=" + s.nats.URL(), "PAWL_REDIS=" + s.url(), "PAWL_NAMESPACE=" + ns, "PAWL_PARTITIONS=" + strconv.Itoa(partitions),
		"PAWL_LOOK=1s", "PAWL_LEASE_TTL=1s", "PAWL_DRAIN=10s", "FLEET_OWNER_TTL=1500ms", "FLEET_LEDGER=" + a.ledger,
	}, env...)
	if s.other != nil {
		a.env = append(a.env, "FLEET_MASTERS="+s.redis.Addr+","+s.other.Addr)
	}
	ctx, stop := context.WithCancel(context.Background())
	a.ctx = ctx
	t.Cleanup(func() {
		stop()
		for _, o := range a.mixed {
			<-o.told
		}
	})
	a.rdb = s.client(t)
	run := redisx.NewRunner(a.rdb)
	t.Cleanup(run.Close)
	a.store = store.New(run, redisx.NewSpace(ns))
	return a
}

// process starts a member of a fleet.
func (a *arena) process(role, name string, env ...string) *stack.Process {
	a.t.Helper()
	p := stack.NewProcess(a.t, name, bin.Fleet, []string{role}, append(a.env, env...))
	p.Start()
	a.all = append(a.all, p)
	return p
}

func (a *arena) orchestrator(name string, env ...string) *stack.Process {
	a.t.Helper()
	return a.process("orchestrator", name, env...)
}

func (a *arena) worker(name string, env ...string) *stack.Process {
	a.t.Helper()
	return a.process("worker", name, env...)
}

// join waits until the namespace exists, and opens it.
func (a *arena) join() {
	a.t.Helper()
	if a.client == nil {
		a.joinAs(client.Options{Every: time.Second})
	}
}

func (a *arena) joinAs(o client.Options) {
	a.t.Helper()
	o.Namespace = a.ns
	nc := a.nats.Client()
	poll.Until(a.t, 30*time.Second, "the namespace exists", func() bool {
		ctx, stop := context.WithTimeout(a.ctx, 2*time.Second)
		defer stop()
		c, err := client.New(ctx, nc, o)
		if err != nil {
			return false
		}
		a.client = c
		a.t.Cleanup(c.Close)
		return true
	})
}

func id(n int) string { return fmt.Sprintf("mixed-%d", n) }

// begin starts n more instances, and clients that wait for them. Every other one gets its event
// before its start, and every third start is published twice, as by a client that saw no PubAck.
func (a *arena) begin(n int) {
	a.t.Helper()
	a.join()
	for range n {
		i := len(a.mixed)
		start := func() {
			run, err := client.Start(a.ctx, a.client, work.Mixed, id(i), i, client.MessageID("start"))
			a.must(err)
			if len(a.mixed) == i {
				a.wait(run)
			}
		}
		event := func() { a.must(client.Send(a.ctx, a.client, work.Go, id(i), 10*i, client.MessageID("go"))) }
		order := []func(){start, event}
		if i%2 == 0 {
			order = []func(){event, start}
		}
		if i%3 == 0 {
			order = append(order, start)
		}
		for _, publish := range order {
			publish()
		}
	}
}

func (a *arena) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// wait waits for a result, from now on and through all that happens. It is joined by end, or when the test ends.
func (a *arena) wait(run *client.Run[int]) {
	o := &outcome{told: make(chan struct{})}
	a.mixed = append(a.mixed, o)
	go func() {
		defer close(o.told)
		o.sum, o.err = run.Result(a.ctx)
		o.at = time.Now()
	}()
}

// record reads an instance's record; nil while there is none, or Redis is away.
func (a *arena) record(instance string) *store.Record {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	rec, err := a.store.Record(ctx, queue.PartitionOf(instance, a.parts), instance)
	if err != nil {
		return nil
	}
	return rec
}

// end waits until every instance has ended, and checks what came of it.
func (a *arena) end() {
	a.t.Helper()
	for i := range a.mixed {
		a.result(i)
	}
	a.check()
	a.effects()
}

// result compares what the store has and what the waiting client was told.
func (a *arena) result(i int) {
	a.t.Helper()
	event, err := a.ended(id(i)).EndEvent()
	a.must(err)
	if _, ok := event.(*history.Completed); !ok {
		a.t.Errorf("%s ended with %T %+v", id(i), event, event)
	}
	o := a.mixed[i]
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-o.told:
		if want := work.Result(i, 10*i); o.err != nil || o.sum != want {
			a.t.Errorf("%s: the client was told %d (%v), want %d", id(i), o.sum, o.err, want)
		}
	case <-timeout.C:
		a.t.Errorf("%s has ended, and the client that waits for it was not told", id(i))
	}
}

func (a *arena) ended(instance string) (rec *store.Record) {
	a.t.Helper()
	defer func() {
		if a.t.Failed() {
			a.t.Log(a.describe(instance))
		}
	}()
	poll.Until(a.t, within, instance+" has ended", func() bool {
		rec = a.record(instance)
		return rec != nil && rec.Status.Ended()
	})
	return rec
}

// describe shows all that the store has of an instance.
func (a *arena) describe(instance string) string {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	n := queue.PartitionOf(instance, a.parts)
	part := redisx.NewSpace(a.ns).Part(n)
	rdb := a.rdb
	var b strings.Builder
	fmt.Fprintf(&b, "%s, partition %d, %s; now %d\n", instance, n, a.ns, time.Now().UnixMilli())
	fmt.Fprintln(&b, "owner ", rdb.HGetAll(ctx, part.Owner()).Val())
	fmt.Fprintln(&b, "agenda", rdb.ZRangeWithScores(ctx, part.Wakeups(), 0, -1).Val(), "stuck", rdb.HGetAll(ctx, part.Stalled()).Val())
	l, err := a.store.Load(ctx, n, instance)
	if err != nil {
		return b.String() + err.Error()
	}
	for _, e := range l.Events {
		fmt.Fprintf(&b, "  %d %T %+v\n", e.Meta().ID, e, e)
	}
	for _, raw := range l.Unread {
		fmt.Fprintf(&b, "  unread %.80q\n", raw)
	}
	for _, key := range rdb.Keys(ctx, part.Prefix()+"l:"+instance+":*").Val() {
		fmt.Fprintln(&b, "  lease", key, rdb.HGetAll(ctx, key).Val())
	}
	return b.String()
}

// check runs the invariant checker of production.
func (a *arena) check() {
	a.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	seen, err := a.store.Check(ctx, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, f := range seen.Findings {
		a.t.Errorf("invariant broken: %s", f)
	}
	if seen.Stalled != 0 {
		a.t.Errorf("%d instances are stuck although everything has ended", seen.Stalled)
	}
	if seen.Leases != 0 {
		a.t.Errorf("%d leases are left although everything has ended", seen.Leases)
	}
}

// effects checks that every step of the surviving histories has been run, under its own
// key. (A turn that the store forgot may have run others: activities are at least once.)
func (a *arena) effects() {
	a.t.Helper()
	run := map[string]bool{}
	for _, f := range a.lines("step") {
		run[f[3]] = true
	}
	for i := range a.mixed {
		events, err := a.store.History(a.ctx, queue.PartitionOf(id(i), a.parts), id(i), 1)
		a.must(err)
		steps := 0
		for _, e := range events {
			if s, ok := e.(*history.ActivityScheduled); ok && s.Name == work.Step.Name() {
				steps++
				if !run[s.Effect] {
					a.t.Errorf("%s: step %d has completed, and nobody has run it", id(i), s.ID)
				}
			}
		}
		if steps != work.Steps {
			a.t.Errorf("%s: %d steps in history, want %d", id(i), steps, work.Steps)
		}
	}
}

// lines reads the ledger: what, instance, activity, key, process.
func (a *arena) lines(what ...string) (all [][]string) {
	a.t.Helper()
	b, err := os.ReadFile(a.ledger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 5 && slices.Contains(what, f[0]) {
			all = append(all, f)
		}
	}
	return all
}
