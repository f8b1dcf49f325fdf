package limiter_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const parts = 4

func partition(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32() % parts)
}

// bench is a limit in a namespace of its own, on one of the kinds of Redis.
type bench struct {
	*testing.T
	rdb   redis.UniversalClient
	run   *redisx.Runner
	space redisx.Space
	gates *limiter.Limiter
	gate  string
	force limiter.InForce
	mini  *miniredis.Miniredis // nil on the others
}

// each runs every case on miniredis and on a redis-server. Those of the cluster are together in one test, for it takes long to start.
func each(t *testing.T, cases map[string]func(b *bench)) {
	t.Helper()
	_, mini := redistest.MiniClient(t)
	for name, rdb := range map[string]redis.UniversalClient{"miniredis": mini, "server": redistest.Start(t).Client(t)} {
		t.Run(name, func(t *testing.T) {
			run := redisx.NewRunner(rdb)
			defer run.Close()
			suite(t, rdb, run, cases)
		})
	}
}

// suite runs every case in a namespace of its own. After each the limit must keep its invariants.
func suite(t *testing.T, rdb redis.UniversalClient, run *redisx.Runner, cases map[string]func(b *bench)) {
	t.Helper()
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, rdb, run)
			f(b)
			b.check()
		})
	}
}

func newBench(t *testing.T, rdb redis.UniversalClient, run *redisx.Runner) *bench {
	t.Helper()
	space := redisx.NewSpace(redistest.Namespace())
	return &bench{T: t, rdb: rdb, run: run, space: space, gates: limiter.New(run, space, partition), gate: "charge-card"}
}

// clock is a bench on a miniredis, whose time the test sets.
func clock(t *testing.T) *bench {
	t.Helper()
	mini, rdb := redistest.MiniClient(t)
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	b := newBench(t, rdb, run)
	b.mini = mini
	b.at(0)
	t.Cleanup(b.check)
	return b
}

const epoch = 1_790_000_000_000

// at sets the time, in ms from the epoch of the tests.
func (b *bench) at(ms int64) { b.mini.SetTime(time.UnixMilli(epoch + ms)) }

func (b *bench) check() {
	b.Helper()
	for _, err := range b.gates.Check(context.Background(), b.gate) {
		b.Error(err)
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// policy puts a policy into the next calls.
func (b *bench) policy(p history.Policy) {
	b.force = limiter.InForce{Policy: p, Level: "action", Version: b.force.Version}
}

// concurrency, and waiters that wait forever.
func concurrency(n uint32) history.Policy { return history.Policy{Concurrency: n, QueueTimeout: -1} }

func who(name string) limiter.Member {
	return limiter.Member{Ticket: "t-" + name, Instance: "i-" + name, Place: limit.ActivityPlace(1, 2)}
}

func under(name, ancestor string) limiter.Member {
	m := who(name)
	m.HeldByAncestor = "t-" + ancestor
	return m
}

// short is the name that who was given.
func short(m limiter.Member) string { return strings.TrimPrefix(m.Ticket, "t-") }

func shorts(ms []limiter.Member) string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = short(m)
	}
	return strings.Join(out, " ")
}

func (b *bench) admit(leave []limiter.Member, enter ...limiter.Entry) limiter.AdmitReply {
	b.Helper()
	got, err := redistest.Answer(func(done func(limiter.AdmitReply, error)) {
		b.gates.Admit(limiter.AdmitRequest{Limit: b.gate, InForce: b.force, Leave: leave, Enter: enter}, done)
	})
	b.must(err)
	return got
}

// enter has members enter, in one call.
func (b *bench) enter(names ...string) limiter.AdmitReply {
	b.Helper()
	var es []limiter.Entry
	for _, n := range names {
		es = append(es, limiter.Entry{Member: who(n)})
	}
	return b.admit(nil, es...)
}

func (b *bench) leave(names ...string) limiter.AdmitReply {
	b.Helper()
	var ms []limiter.Member
	for _, n := range names {
		ms = append(ms, who(n))
	}
	return b.admit(ms)
}

func (b *bench) sweep(f *limiter.InForce) limiter.SweepReply {
	b.Helper()
	got, err := redistest.Answer(func(done func(limiter.SweepReply, error)) { b.gates.Sweep(b.gate, f, done) })
	b.must(err)
	return got
}

// formatVerdicts formats verdicts: "admitted", a place as its number, and so on.
func formatVerdicts(a limiter.AdmitReply) string {
	out := make([]string, len(a.Verdicts))
	for i, v := range a.Verdicts {
		out[i] = v.Kind.String()
		if v.Kind == limiter.Waiting {
			out[i] = fmt.Sprint(v.Position)
		}
	}
	return strings.Join(out, ", ")
}

func (b *bench) want(what, got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (b *bench) stats() limiter.Stats {
	b.Helper()
	s, _, err := b.gates.Stats(context.Background(), b.gate)
	b.must(err)
	return s
}

// counters are entered, completed, refused, timed out, withdrawn, cleared.
func (b *bench) counters() string {
	b.Helper()
	s := b.stats()
	return fmt.Sprint(s.TotalEnqueued, s.TotalCompleted, s.Rejected, s.TimedOut, s.Withdrawn, s.Cleared)
}

func (b *bench) waiters() string {
	b.Helper()
	ws, err := b.gates.Waiters(context.Background(), b.gate, 0, 100_000)
	b.must(err)
	out := make([]string, len(ws))
	for i, w := range ws {
		out[i] = short(w.Member)
		if w.Position != i+1 {
			b.Errorf("%s is listed as %d, and stands at %d", out[i], w.Position, i+1)
		}
	}
	return strings.Join(out, " ")
}

func (b *bench) holders() int {
	b.Helper()
	ms, err := b.gates.Holders(context.Background(), b.gate, 100_000)
	b.must(err)
	return len(ms)
}
