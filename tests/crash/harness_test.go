// Package crash runs orchestrators and workers as processes on a real nats-server and redis-server, and kills, pauses and
// restarts the processes and the servers: at crash points (package failpoint) and at random times. At the end of each test,
// every instance has ended once with the right result, every side effect has happened at least once, and the invariant
// checker finds no violation.
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

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/crash/work"
	"github.com/pawlrun/pawl/tests/stack"
)

var bin stack.Binaries //nolint:gochecknoglobals // built once in TestMain

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pawl-crash-")
	if err == nil {
		bin, err = stack.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
	stack.SetParallel(testsPerCore * runtime.GOMAXPROCS(0))
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// within is the timeout of each wait in a test.
const within = 90 * time.Second

// testsPerCore is the number of parallel tests for each core. Most of the time they wait for leases and ownerships to expire.
const testsPerCore = 4

// servers can be shared by several harnesses, each with its own namespace.
type servers struct {
	nats  *stack.NATS
	redis *redistest.Server
	other *redistest.Server // shares the slots of a cluster with redis; nil: redis has all slots

	cluster *redistest.ReplicatedCluster // replaces redis and other
}

// startServers starts servers that are never killed, and so need not sync to disk.
func startServers(t *testing.T) servers {
	t.Helper()
	return servers{nats: stack.StartNATS(t, bin, stack.SyncInterval), redis: redistest.Start(t)}
}

// startDurableServers starts servers that have on disk everything they have acknowledged.
func startDurableServers(t *testing.T) servers {
	t.Helper()
	return servers{nats: stack.StartNATS(t, bin), redis: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")}
}

// client returns a client of all Redis servers.
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

// url returns the Redis URL for the fleets.
func (s servers) url() string {
	if s.cluster != nil {
		return "redis+cluster://" + strings.Join(s.cluster.Addrs(), ",")
	}
	return "redis://" + s.redis.Addr
}

// harness is a namespace with its fleets and its instances.
type harness struct {
	servers
	*stack.Fleet
	t            *testing.T
	ledger       string
	rdb          redis.UniversalClient
	restartsDead bool            // restart processes that die
	deaths       int             // number of processes that have died and were restarted
	mixed        []*outcome      // results that the clients waiting for the instances have received
	ctx          context.Context //nolint:containedctx // ends with the test
}

// outcome is the result that a waiting client has received, once received is closed.
type outcome struct {
	received chan struct{}
	at       time.Time
	sum      int
	err      error
}

func newHarness(t *testing.T, s servers, env ...string) *harness {
	t.Helper()
	return newHarnessOf(t, s, 4, env...)
}

func newHarnessOf(t *testing.T, s servers, partitions int, env ...string) *harness {
	t.Helper()
	ns := strings.NewReplacer("/", "-", ".", "-", ":", "-", ",", "", "'", "").Replace(t.Name())
	ns = ns[max(0, len(ns)-60):]
	a := &harness{servers: s, t: t, ledger: filepath.Join(t.TempDir(), "ledger"), rdb: s.client(t)}
	a.Fleet = stack.NewFleet(t, ns, partitions, a.rdb, append([]string{
		"PAWL_NATS=" + s.nats.URL(), "PAWL_REDIS=" + s.url(), "PAWL_NAMESPACE=" + ns, "PAWL_PARTITIONS=" + strconv.Itoa(partitions),
		"PAWL_RECONCILE_INTERVAL=1s", "PAWL_LEASE_TTL=1s", "PAWL_DRAIN=10s", "FLEET_OWNER_TTL=1500ms", "FLEET_LEDGER=" + a.ledger, stack.OneThread,
	}, env...)...)
	if s.other != nil {
		a.Env = append(a.Env, "FLEET_MASTERS="+s.redis.Addr+","+s.other.Addr)
	}
	ctx, stop := context.WithCancel(context.Background())
	a.ctx = ctx
	t.Cleanup(func() {
		stop()
		for _, o := range a.mixed {
			<-o.received
		}
	})
	return a
}

// process starts a member of a fleet.
func (a *harness) process(role, name string, env ...string) *stack.Process {
	a.t.Helper()
	return a.Process(name, bin.Fleet, []string{role}, env...)
}

func (a *harness) orchestrator(name string, env ...string) *stack.Process {
	a.t.Helper()
	return a.process("orchestrator", name, env...)
}

func (a *harness) worker(name string, env ...string) *stack.Process {
	a.t.Helper()
	return a.process("worker", name, env...)
}

// join opens the namespace, once it exists.
func (a *harness) join() {
	a.t.Helper()
	if a.Client != nil { // already open; the first server of a cluster may be down
		return
	}
	a.Join(a.nats.Client(), client.Options{RepeatInterval: time.Second})
}

func id(n int) string { return fmt.Sprintf("mixed-%d", n) }

// begin starts n further instances, and clients that wait for them. Every second instance receives its event before its
// start, and every third start is published twice, as by a client that received no PubAck.
func (a *harness) begin(n int) {
	a.t.Helper()
	a.join()
	for range n {
		i := len(a.mixed)
		start := func() {
			run, err := client.Start(a.ctx, a.Client, work.Mixed, id(i), i, client.MessageID("start"))
			a.must(err)
			if len(a.mixed) == i {
				a.wait(run)
			}
		}
		event := func() { a.must(client.Send(a.ctx, a.Client, work.Go, id(i), 10*i, client.MessageID("go"))) }
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

func (a *harness) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// wait waits for a result in the background, until end or the end of the test.
func (a *harness) wait(run *client.Instance[int]) {
	o := &outcome{received: make(chan struct{})}
	a.mixed = append(a.mixed, o)
	go func() {
		defer close(o.received)
		o.sum, o.err = run.Result(a.ctx)
		o.at = time.Now()
	}()
}

// end waits until every instance has ended, and checks results, invariants and side effects.
func (a *harness) end() {
	a.t.Helper()
	for i := range a.mixed {
		a.result(i)
	}
	a.check()
	a.effects()
}

// result compares the stored result with the one that the waiting client has received.
func (a *harness) result(i int) {
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
	case <-o.received:
		if want := work.Result(i, 10*i); o.err != nil || o.sum != want {
			a.t.Errorf("%s: the client received %d (%v), want %d", id(i), o.sum, o.err, want)
		}
	case <-timeout.C:
		a.t.Errorf("%s has ended, and the client that waits for it has received nothing", id(i))
	}
}

// ended waits for the end of an instance.
func (a *harness) ended(instance string) *record.Record {
	a.t.Helper()
	defer func() {
		if a.t.Failed() {
			a.t.Log(a.describe(instance))
		}
	}()
	return a.Ended(within, instance)
}

// describe formats everything that the store has about an instance.
func (a *harness) describe(instance string) string {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	n := transport.PartitionOf(instance, a.Partitions)
	part := redisx.NewSpace(a.Namespace).Part(n)
	rdb := a.rdb
	var b strings.Builder
	fmt.Fprintf(&b, "%s, partition %d, %s; now %d\n", instance, n, a.Namespace, time.Now().UnixMilli())
	fmt.Fprintln(&b, "owner ", rdb.HGetAll(ctx, part.Owner()).Val())
	fmt.Fprintln(&b, "wakeups", rdb.ZRangeWithScores(ctx, part.Wakeups(), 0, -1).Val(), "stalled", rdb.HGetAll(ctx, part.Stalled()).Val())
	l, err := a.Store.Load(ctx, n, instance)
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

// check runs the invariant checker of production, and requires that no lease and no stalled instance remains.
func (a *harness) check() {
	a.t.Helper()
	if seen := a.Check(); seen.Stalled != 0 || seen.Leases != 0 {
		a.t.Errorf("%d stalled instances and %d leases are left although all instances have ended", seen.Stalled, seen.Leases)
	}
}

// effects checks that every step of the surviving histories was run under its own key. Turns that Redis has lost may have
// run further steps, because activities run at least once.
func (a *harness) effects() {
	a.t.Helper()
	run := map[string]bool{}
	for _, f := range a.lines("step") {
		run[f[3]] = true
	}
	for i := range a.mixed {
		events, err := a.Store.History(a.ctx, transport.PartitionOf(id(i), a.Partitions), id(i), 1)
		a.must(err)
		steps := 0
		for _, e := range events {
			if s, ok := e.(*history.ActivityScheduled); ok && s.Name == work.Step.Name() {
				steps++
				if !run[s.Effect] {
					a.t.Errorf("%s: step %d has completed without a run", id(i), s.ID)
				}
			}
		}
		if steps != work.Steps {
			a.t.Errorf("%s: %d steps in history, want %d", id(i), steps, work.Steps)
		}
	}
}

// lines reads the ledger lines with a first word: word, instance, activity, key, process.
func (a *harness) lines(what ...string) (all [][]string) {
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
