// Package gates lets whole fleets, orchestrators and workers in processes of their own, wait at the limits of
// actions, and reads both sides: the limits in Redis, and the entries that the activities have written themselves
// of their presence.
package gates

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
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/tests/stack"
)

func TestMain(m *testing.M) {
	stack.AtOnce(20)
	stack.Main(m, fleet)
}

// within is how long anything may take.
const within = 60 * time.Second

// arena is one namespace with its servers, its fleets and a client.
type arena struct {
	*testing.T
	ctx    context.Context
	nats   string
	redis  *redistest.Server
	client *client.Client
	store  *store.Store
	gates  *limiter.Limiter
	book   book
	fleets []*stack.Process
}

const namespace = "gates"

// newArena starts servers, the requested orchestrators, two workers and a client.
func newArena(t *testing.T, orchestrators int, s settings) *arena {
	t.Helper()
	a := &arena{T: t, ctx: t.Context(), nats: natstest.Start(t).ClientURL(), redis: redistest.Start(t)}
	rdb := a.redis.Client(t)
	a.book = book{rdb}
	for i := range orchestrators {
		s.Role, s.Name = "orchestrator", "orchestrator-"+string(rune('1'+i))
		a.fleets = append(a.fleets, a.member(s))
	}
	for _, name := range []string{"worker-1", "worker-2"} {
		a.member(settings{Role: "worker", Name: name, TTL: 10 * time.Second})
	}
	runner := redisx.NewRunner(rdb)
	t.Cleanup(runner.Close)
	space := redisx.NewSpace(namespace)
	a.store = store.New(runner, space)
	a.gates = limiter.New(runner, space, func(name string) int { return queue.PartitionOf(name, partitions) })
	nc := natstest.Dial(t, a.nats)
	poll.Until(t, within, "the namespace exists", func() bool {
		c, err := client.New(a.ctx, nc, client.Options{Namespace: namespace, By: "ada", RepeatInterval: time.Second, OwnerTimeout: 10 * time.Second})
		if err != nil {
			return false
		}
		a.client = c
		t.Cleanup(c.Close)
		return true
	})
	return a
}

// member starts a process of a fleet: this test's own binary. What is not set is the arena's.
func (a *arena) member(s settings) *stack.Process {
	a.Helper()
	s.NATS, s.Redis, s.Namespace = a.nats, a.redis.Addr, namespace
	return stack.StartMember(a, s.Name, s)
}

// in is the arena of a subtest.
func (a *arena) in(t *testing.T) *arena {
	b := *a
	b.T, b.ctx = t, t.Context()
	return &b
}

// promise is a test among others in one arena.
type promise struct {
	name string
	keep func(a *arena)
}

// all keeps promises side by side, and checks what is left of all of them.
func (a *arena) all(promises []promise) {
	a.Run("all", func(t *testing.T) {
		for _, p := range promises {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				p.keep(a.in(t))
			})
		}
	})
	a.check()
}

func (a *arena) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// visit starts an instance that makes visits, in one turn.
func (a *arena) visit(id string, c Crowd) *client.Instance[[]string] {
	a.Helper()
	run, err := client.Start(a.ctx, a.client, crowds, id, c)
	a.must(err)
	return run
}

// one is a visit to an action, which its instance waits for.
func one(action string, v Visit) Crowd { return Crowd{Action: action, Visits: []Visit{v}} }

// stay starts an instance of a limited orchestration.
func (a *arena) stay(hall, id string, s Stay) *client.Instance[string] {
	a.Helper()
	h, err := named(halls(), hall)
	a.must(err)
	run, err := client.Start(a.ctx, a.client, h, id, s)
	a.must(err)
	return run
}

// results waits for the results of the visits of an instance.
func (a *arena) results(run *client.Instance[[]string], want ...string) {
	a.Helper()
	got, err := result(a, run)
	if err != nil || !slices.Equal(got, want) {
		a.Errorf("the calls of %s gave %q (%v), want %q", run.ID(), got, err, want)
	}
}

// went waits for what an orchestration returns.
func (a *arena) went(run *client.Instance[string], want string) {
	a.Helper()
	if got, err := result(a, run); err != nil || got != want {
		a.Errorf("%s gave %q (%v), want %q", run.ID(), got, err, want)
	}
}

func result[Out any](a *arena, run *client.Instance[Out]) (Out, error) {
	a.Helper()
	ctx, stop := context.WithTimeout(a.ctx, within)
	defer stop()
	return run.Result(ctx)
}

// stats reads the numbers of a limit; the zero value if it never had a caller.
func (a *arena) stats(name string) limiter.Stats {
	a.Helper()
	s, _, err := a.gates.Stats(a.ctx, name)
	a.must(err)
	return s
}

// queued waits until so many wait at a limit, and no more.
func (a *arena) queued(name string, n int) {
	a.Helper()
	a.stand(name, "as many wait as should", func(s limiter.Stats) bool { return s.QueueLength == n })
}

func (a *arena) stand(name, what string, yes func(limiter.Stats) bool) (s limiter.Stats) {
	a.Helper()
	defer func() {
		if a.Failed() {
			a.Logf("%s: %+v", name, s)
		}
	}()
	tries := 0
	poll.Until(a.T, within, name+": "+what, func() bool {
		if tries++; tries%4 != 1 { // there are many of us
			return false
		}
		s = a.stats(name)
		return yes(s)
	})
	return s
}

// order returns the waiters at a limit, in order.
func (a *arena) order(name string, n int) []limiter.Waiter {
	a.Helper()
	all, err := a.gates.Waiters(a.ctx, name, 0, n+1)
	a.must(err)
	if len(all) != n {
		a.Fatalf("%d wait at %s, want %d", len(all), name, n)
	}
	return all
}

// over requires that no member is left at a limit soon, and its counts.
func (a *arena) over(name string, want limiter.Stats) {
	a.Helper()
	got := a.stand(name, "no member is left", func(s limiter.Stats) bool { return s.QueueLength == 0 && s.Active == 0 })
	want.Action, want.Key, want.MaxConcurrent, want.Policy, want.LimitedUntil = limit.Action(name), limit.Key(name), got.MaxConcurrent, got.Policy, got.LimitedUntil
	if got != want {
		a.Errorf("the limit %s has\n%+v, want\n%+v", name, got, want)
	}
	for _, err := range a.gates.Check(a.ctx, name) {
		a.Errorf("invariant broken: %v", err)
	}
}

// describe requests a description of an instance until it is as it should be.
func (a *arena) describe(id, what string, yes func(client.Description) bool) (d client.Description) {
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
		return err == nil && yes(d)
	})
	return d
}

func (a *arena) status(id string, s client.Status) client.Description {
	a.Helper()
	return a.describe(id, "is "+string(s), func(d client.Description) bool { return d.Status == s })
}

// events gives those of a kind in an execution's history.
func events[E history.Event](a *arena, id string, execution uint64) (all []E) {
	a.Helper()
	for e, err := range a.client.History(a.ctx, id, execution) {
		a.must(err)
		if ev, ok := e.Event.(E); ok {
			all = append(all, ev)
		}
	}
	return all
}

// refused waits for the end of an instance that must end with this status, and with this sentinel, for its waiting client.
func refused[Out any](a *arena, run *client.Instance[Out], want *pawl.Error, status client.Status) {
	a.Helper()
	if _, err := result(a, run); !errors.Is(err, want) {
		a.Errorf("the client that waits for %s got %v, want %v", run.ID(), err, want)
	}
	d := a.status(run.ID(), status)
	if f := d.Failure; f == nil || f.Code != want.Code() && !slices.Contains(f.Also, want.Code()) {
		a.Errorf("%s has ended with %+v, want %v", run.ID(), f, want)
	}
}

// counts adds up what all orchestrators have counted under a name.
func (a *arena) counts(what string) (sum float64) {
	a.Helper()
	for i, p := range a.fleets {
		sum += a.count(p, "orchestrator-"+string(rune('1'+i)), what)
	}
	return sum
}

// count requests from an orchestrator what it has counted under a name.
func (a *arena) count(p *stack.Process, name, what string) float64 {
	a.Helper()
	key := "counts:" + name
	before := a.book.rdb.LLen(a.ctx, key).Val()
	p.Signal(syscall.SIGUSR1)
	poll.Until(a.T, within, name+" reports its counts", func() bool { return a.book.rdb.LLen(a.ctx, key).Val() > before })
	var counts map[string]float64
	a.must(json.Unmarshal([]byte(a.book.rdb.LIndex(a.ctx, key, -1).Val()), &counts))
	return counts[what]
}

// check runs the invariant checkers of production over the whole namespace, and demands that nothing is left.
func (a *arena) check() {
	a.Helper()
	seen, err := a.store.Check(a.ctx, nil, nil)
	a.must(err)
	for _, f := range seen.Findings {
		a.Errorf("invariant broken: %s", f)
	}
	if seen.Leases != 0 || seen.Stalled != 0 {
		a.Errorf("%d leases and %d stalled instances are left although everything has ended", seen.Leases, seen.Stalled)
	}
	for p := range partitions {
		names, err := a.gates.Scheduled(a.ctx, p)
		a.must(err)
		for _, name := range names {
			for _, err := range a.gates.Check(a.ctx, name) {
				a.Errorf("invariant broken: %v", err)
			}
			if s := a.stats(name); s.QueueLength+s.Active > 0 {
				a.Errorf("%s: a member is left although everything has ended: %+v", name, s)
			}
		}
	}
}
