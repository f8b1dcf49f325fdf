// Package limits tests limits with whole fleets of orchestrator and worker processes. It compares both sides: the limits in Redis, and the
// records that the activities write about their own presence.
package limits

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/tests/stack"
)

func TestMain(m *testing.M) {
	stack.SetParallel(20)
	stack.Main(m, fleet)
}

// within is the timeout of every wait.
const within = 60 * time.Second

// harness is a namespace with its servers, its processes and a client.
type harness struct {
	*testing.T
	ctx      context.Context
	nats     string
	redis    *redistest.Server
	client   *client.Client
	store    *store.Store
	limits   *limiter.Limiter
	recorder recorder
	fleets   []*stack.Process
}

const namespace = "limits"

// newHarness starts the servers, the requested number of orchestrators, two workers and a client.
func newHarness(t *testing.T, orchestrators int, s settings) *harness {
	t.Helper()
	a := &harness{T: t, ctx: t.Context(), nats: natstest.Start(t).ClientURL(), redis: redistest.Start(t)}
	rdb := a.redis.Client(t)
	a.recorder = recorder{rdb}
	for i := range orchestrators {
		s.Role, s.Name = "orchestrator", "orchestrator-"+string(rune('1'+i))
		a.fleets = append(a.fleets, a.member(s))
	}
	members := slices.Clone(a.fleets)
	for _, name := range []string{"worker-1", "worker-2"} {
		members = append(members, a.member(settings{Role: "worker", Name: name, TTL: within}))
	}
	runner := redisx.NewRunner(rdb)
	t.Cleanup(runner.Close)
	space := redisx.NewSpace(namespace)
	a.store = store.New(runner, space)
	a.limits = limiter.New(runner, space, func(name string) int { return transport.PartitionOf(name, partitions) })
	nc := natstest.Dial(t, a.nats)
	poll.Until(t, within, "the namespace exists", func() bool {
		c, err := client.New(a.ctx, nc, client.Options{Namespace: namespace, By: "ada", RepeatInterval: time.Second, OwnerTimeout: within})
		if err != nil {
			return false
		}
		a.client = c
		t.Cleanup(c.Close)
		return true
	})
	poll.Until(t, within, "every member has started", func() bool { // otherwise one worker could run everything
		return !slices.ContainsFunc(members, func(p *stack.Process) bool { return !p.Started() })
	})
	return a
}

// member starts a process of the fleet, from the test's own binary.
func (a *harness) member(s settings) *stack.Process {
	a.Helper()
	s.NATS, s.Redis, s.Namespace = a.nats, a.redis.Addr, namespace
	return stack.StartMember(a, s.Name, s)
}

// in returns the harness for a subtest.
func (a *harness) in(t *testing.T) *harness {
	b := *a
	b.T, b.ctx = t, t.Context()
	return &b
}

// scenario is one of several tests that share a harness.
type scenario struct {
	name string
	run  func(a *harness)
}

// runAll runs scenarios concurrently, and then checks what is left of all of them.
func (a *harness) runAll(scenarios []scenario) {
	a.Run("all", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(a.in(t))
			})
		}
	})
	a.check()
}

func (a *harness) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// visit starts an instance that calls an action several times in one turn.
func (a *harness) visit(id string, c Crowd) *client.Instance[[]string] {
	a.Helper()
	run, err := client.Start(a.ctx, a.client, crowds, id, c)
	a.must(err)
	return run
}

// one returns the input of an instance that calls an action once.
func one(action string, v Visit) Crowd { return Crowd{Action: action, Visits: []Visit{v}} }

// stay starts an instance of a limited orchestration.
func (a *harness) stay(hall, id string, s Stay) *client.Instance[string] {
	a.Helper()
	h, err := named(halls(), hall)
	a.must(err)
	run, err := client.Start(a.ctx, a.client, h, id, s)
	a.must(err)
	return run
}

// wantResults waits for the results of an instance's calls, and checks them.
func (a *harness) wantResults(run *client.Instance[[]string], want ...string) {
	a.Helper()
	got, err := result(a, run)
	if err != nil || !slices.Equal(got, want) {
		a.Errorf("the calls of %s returned %q (%v), want %q", run.ID(), got, err, want)
	}
}

// wantResult waits for the result of an instance, and checks it.
func (a *harness) wantResult(run *client.Instance[string], want string) {
	a.Helper()
	if got, err := result(a, run); err != nil || got != want {
		a.Errorf("%s returned %q (%v), want %q", run.ID(), got, err, want)
	}
}

func result[Out any](a *harness, run *client.Instance[Out]) (Out, error) {
	a.Helper()
	ctx, stop := context.WithTimeout(a.ctx, within)
	defer stop()
	return run.Result(ctx)
}

// stats returns the statistics of a limit; the zero value if it never had a caller.
func (a *harness) stats(name string) limiter.Stats {
	a.Helper()
	s, _, err := a.limits.Stats(a.ctx, name)
	a.must(err)
	return s
}

// awaitWaiters waits until exactly n callers wait at a limit.
func (a *harness) awaitWaiters(name string, n int) {
	a.Helper()
	a.awaitStats(name, "the number of waiters", func(s limiter.Stats) bool { return s.QueueLength == n })
}

// awaitStats waits until the statistics of a limit satisfy ok, and returns them.
func (a *harness) awaitStats(name, what string, ok func(limiter.Stats) bool) (s limiter.Stats) {
	a.Helper()
	defer func() {
		if a.Failed() {
			a.Logf("%s: %+v", name, s)
		}
	}()
	tries := 0
	poll.Until(a.T, within, name+": "+what, func() bool {
		if tries++; tries%4 != 1 { // many scenarios poll concurrently
			return false
		}
		s = a.stats(name)
		return ok(s)
	})
	return s
}

// order returns the n waiters at a limit, in order.
func (a *harness) order(name string, n int) []limiter.Waiter {
	a.Helper()
	all, err := a.limits.Waiters(a.ctx, name, 0, n+1)
	a.must(err)
	if len(all) != n {
		a.Fatalf("%d wait at %s, want %d", len(all), name, n)
	}
	return all
}

// awaitEmpty waits until no member is left at a limit, and checks its counters.
func (a *harness) awaitEmpty(name string, want limiter.Stats) {
	a.Helper()
	got := a.awaitStats(name, "no member is left", func(s limiter.Stats) bool { return s.QueueLength == 0 && s.Active == 0 })
	want.Action, want.Key, want.MaxConcurrent, want.Policy, want.LimitedUntil = limit.Action(name), limit.Key(name), got.MaxConcurrent, got.Policy, got.LimitedUntil
	if got != want {
		a.Errorf("the limit %s has\n%+v, want\n%+v", name, got, want)
	}
	for _, err := range a.limits.Check(a.ctx, name) {
		a.Errorf("invariant broken: %v", err)
	}
}

// describe waits until the description of an instance satisfies ok, and returns it.
func (a *harness) describe(id, what string, ok func(client.Description) bool) (d client.Description) {
	a.Helper()
	defer func() {
		if a.Failed() {
			a.Logf("%+v", d)
		}
	}()
	poll.Until(a.T, within, id+" "+what, func() bool {
		var err error
		d, err = a.client.Describe(a.ctx, id)
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			a.Fatal(err)
		}
		return err == nil && ok(d)
	})
	return d
}

func (a *harness) status(id string, s client.Status) client.Description {
	a.Helper()
	return a.describe(id, "is "+string(s), func(d client.Description) bool { return d.Status == s })
}

// events returns the events of type E in an execution's history.
func events[E history.Event](a *harness, id string, execution uint64) (all []E) {
	a.Helper()
	for e, err := range a.client.History(a.ctx, id, execution) {
		a.must(err)
		if ev, ok := e.Event.(E); ok {
			all = append(all, ev)
		}
	}
	return all
}

// refused waits for the end of an instance, and checks that it ended with this status and this sentinel error.
func refused[Out any](a *harness, run *client.Instance[Out], want *pawl.Error, status client.Status) {
	a.Helper()
	if _, err := result(a, run); !errors.Is(err, want) {
		a.Errorf("the client that waits for %s received %v, want %v", run.ID(), err, want)
	}
	d := a.status(run.ID(), status)
	if f := d.Failure; f == nil || f.Code != want.Code() && !slices.Contains(f.Also, want.Code()) {
		a.Errorf("%s has ended with %+v, want %v", run.ID(), f, want)
	}
}

// counts returns the sum of a metric over all orchestrators.
func (a *harness) counts(what string) (sum float64) {
	a.Helper()
	for i, p := range a.fleets {
		sum += a.count(p, "orchestrator-"+string(rune('1'+i)), what)
	}
	return sum
}

// count returns a metric of an orchestrator.
func (a *harness) count(p *stack.Process, name, what string) float64 {
	a.Helper()
	key := "counts:" + name
	before := a.recorder.rdb.LLen(a.ctx, key).Val()
	p.Signal(syscall.SIGUSR1)
	poll.Until(a.T, within, name+" reports its counts", func() bool { return a.recorder.rdb.LLen(a.ctx, key).Val() > before })
	var counts map[string]float64
	a.must(json.Unmarshal([]byte(a.recorder.rdb.LIndex(a.ctx, key, -1).Val()), &counts))
	return counts[what]
}

// check runs the invariant checkers of production on the whole namespace, and checks that nothing is left.
func (a *harness) check() {
	a.Helper()
	seen, err := a.store.Check(a.ctx, nil, nil)
	a.must(err)
	for _, f := range seen.Findings {
		a.Errorf("invariant broken: %s", f)
	}
	if seen.Leases != 0 || seen.Stalled != 0 {
		a.Errorf("%d leases and %d stalled instances are left although all instances have ended", seen.Leases, seen.Stalled)
	}
	for p := range partitions {
		names, err := a.limits.Scheduled(a.ctx, p)
		a.must(err)
		for _, name := range names {
			for _, err := range a.limits.Check(a.ctx, name) {
				a.Errorf("invariant broken: %v", err)
			}
			if s := a.stats(name); s.QueueLength+s.Active > 0 {
				a.Errorf("%s: a member is left although everything has ended: %+v", name, s)
			}
		}
	}
}
