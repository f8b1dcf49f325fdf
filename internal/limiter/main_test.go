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

// harness is a limit in a namespace of its own, on one of the kinds of Redis.
type harness struct {
	*testing.T
	rdb    redis.UniversalClient
	run    *redisx.Runner
	space  redisx.Space
	limits *limiter.Limiter
	limit  string
	force  limit.InForce
	mini   *miniredis.Miniredis // nil on other kinds
}

// each runs every case on miniredis and on a redis-server. TestLimiterKeepsItsRulesOnACluster runs all cases on one cluster, because a
// cluster takes long to start.
func each(t *testing.T, cases map[string]func(b *harness)) {
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

// suite runs every case in a namespace of its own, and checks the invariants of the limit after each.
func suite(t *testing.T, rdb redis.UniversalClient, run *redisx.Runner, cases map[string]func(b *harness)) {
	t.Helper()
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t, rdb, run)
			f(b)
			b.check()
		})
	}
}

func newHarness(t *testing.T, rdb redis.UniversalClient, run *redisx.Runner) *harness {
	t.Helper()
	space := redisx.NewSpace(redistest.Namespace())
	return &harness{T: t, rdb: rdb, run: run, space: space, limits: limiter.New(run, space, partition), limit: "charge-card"}
}

// clock returns a harness on a miniredis, whose clock the test sets.
func clock(t *testing.T) *harness {
	t.Helper()
	mini, rdb := redistest.MiniClient(t)
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	b := newHarness(t, rdb, run)
	b.mini = mini
	b.at(0)
	t.Cleanup(b.check)
	return b
}

const epoch = 1_790_000_000_000

// at sets the time, in ms from the epoch of the tests.
func (b *harness) at(ms int64) { b.mini.SetTime(time.UnixMilli(epoch + ms)) }

func (b *harness) check() {
	b.Helper()
	for _, err := range b.limits.Check(context.Background(), b.limit) {
		b.Error(err)
	}
}

func (b *harness) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// policy sets the policy that later calls pass.
func (b *harness) policy(p history.Policy) {
	b.force = limit.InForce{Policy: p, Level: "action", Version: b.force.Version}
}

// concurrency returns a policy with a concurrency limit and no maximum wait.
func concurrency(n uint32) history.Policy { return history.Policy{Concurrency: n, QueueTimeout: -1} }

func testMember(name string) limit.Member {
	return limit.Member{Ticket: "t-" + name, Instance: "i-" + name, Place: limit.ActivityPlace(1, 2)}
}

func nestedMember(name, ancestor string) limit.Member {
	m := testMember(name)
	m.HeldByAncestor = "t-" + ancestor
	return m
}

// memberName returns the name with which testMember made a member.
func memberName(m limit.Member) string { return strings.TrimPrefix(m.Ticket, "t-") }

func memberNames(ms []limit.Member) string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = memberName(m)
	}
	return strings.Join(out, " ")
}

func (b *harness) admit(leave []limit.Member, enter ...limit.Entry) limit.AdmitReply {
	b.Helper()
	got, err := redistest.Answer(func(done func(limit.AdmitReply, error)) {
		b.limits.Admit(limit.AdmitRequest{Limit: b.limit, InForce: b.force, Leave: leave, Enter: enter}, done)
	})
	b.must(err)
	return got
}

// enter makes members enter in one call.
func (b *harness) enter(names ...string) limit.AdmitReply {
	b.Helper()
	var es []limit.Entry
	for _, n := range names {
		es = append(es, limit.Entry{Member: testMember(n)})
	}
	return b.admit(nil, es...)
}

func (b *harness) leave(names ...string) limit.AdmitReply {
	b.Helper()
	var ms []limit.Member
	for _, n := range names {
		ms = append(ms, testMember(n))
	}
	return b.admit(ms)
}

func (b *harness) sweep(f *limit.InForce) limit.SweepReply {
	b.Helper()
	got, err := redistest.Answer(func(done func(limit.SweepReply, error)) { b.limits.Sweep(b.limit, f, done) })
	b.must(err)
	return got
}

// formatVerdicts formats verdicts: the position of a waiter, and otherwise the kind.
func formatVerdicts(a limit.AdmitReply) string {
	out := make([]string, len(a.Verdicts))
	for i, v := range a.Verdicts {
		out[i] = v.Kind.String()
		if v.Kind == limit.Waiting {
			out[i] = fmt.Sprint(v.Position)
		}
	}
	return strings.Join(out, ", ")
}

func (b *harness) want(what, got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (b *harness) stats() limiter.Stats {
	b.Helper()
	s, _, err := b.limits.Stats(context.Background(), b.limit)
	b.must(err)
	return s
}

// counters returns the counters: entered, completed, rejected, timed out, withdrawn, cleared.
func (b *harness) counters() string {
	b.Helper()
	s := b.stats()
	return fmt.Sprint(s.TotalEnqueued, s.TotalCompleted, s.Rejected, s.TimedOut, s.Withdrawn, s.Cleared)
}

func (b *harness) waiters() string {
	b.Helper()
	ws, err := b.limits.Waiters(context.Background(), b.limit, 0, 100_000)
	b.must(err)
	out := make([]string, len(ws))
	for i, w := range ws {
		out[i] = memberName(w.Member)
		if w.Position != i+1 {
			b.Errorf("%s has position %d, want %d", out[i], w.Position, i+1)
		}
	}
	return strings.Join(out, " ")
}

func (b *harness) holders() int {
	b.Helper()
	ms, err := b.limits.Holders(context.Background(), b.limit, 100_000)
	b.must(err)
	return len(ms)
}
