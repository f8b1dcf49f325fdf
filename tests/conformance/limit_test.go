package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/memlimit"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestLimitScriptsMatchModel(t *testing.T) {
	n := 0
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		rapid.Check(t, func(rt *rapid.T) {
			n++
			r := newLimitHarness(rt, rdb, n)
			defer r.close()
			rt.Repeat(r.actions())
			r.checkInvariants()
		})
	})
}

// The suite must be able to fail: it detects every mistake that is planted into the model.
func TestLimitModelMistakesAreDetected(t *testing.T) {
	_, rdb := redistest.MiniClient(t)
	n := 0
	for _, wrong := range memlimit.ScriptMistakes() {
		t.Run(string(wrong), func(t *testing.T) {
			hunt := rapid.Custom(func(rt *rapid.T) string {
				n++
				r := newLimitHarness(rt, rdb, n)
				defer r.close()
				r.hunt = true
				for _, g := range r.model {
					g.Rules.Wrong = wrong
				}
				actions := r.actions()
				names := slices.Sorted(maps.Keys(actions))
				for i := 0; i < 80 && r.found == ""; i++ {
					actions[rapid.SampledFrom(names).Draw(rt, "action")](rt)
				}
				return r.found
			})
			for seed := range 300 {
				if found := hunt.Example(seed); found != "" {
					t.Logf("after %d runs: %s", seed, found)
					return
				}
			}
			t.Fatal("the mistake was not detected")
		})
	}
}

// limitHarness is two limits in Redis, one of them with a key, and the same limits in the model.
type limitHarness struct {
	rt      *rapid.T
	ctx     context.Context //nolint:containedctx // ends with one check
	rdb     redis.UniversalClient
	run     *redisx.Runner
	space   redisx.Space
	limits  *limiter.Limiter
	model   map[string]*memlimit.Limit
	version int // version of the newest policy
	sent    []func()
	saved   map[string]content
	savedAs map[string]*memlimit.Limit
	hunt    bool   // the model has a planted mistake: a difference must be found
	found   string // the first difference of a hunt
}

func newLimitHarness(rt *rapid.T, rdb redis.UniversalClient, n int) *limitHarness {
	space, run := redisx.NewSpace("g"+strconv.Itoa(n)), redisx.NewRunner(rdb)
	r := &limitHarness{
		rt: rt, ctx: context.Background(), rdb: rdb, run: run, space: space,
		limits: limiter.New(run, space, func(string) int { return partition }), model: map[string]*memlimit.Limit{},
	}
	for _, name := range limitNames() {
		r.model[name] = &memlimit.Limit{Rules: memlimit.Rules{Stale: 2000}, Keyed: limit.Key(name) != ""}
	}
	return r
}

// limitNames returns the limits of two actions. The first key of an action also registers the limit of the action itself.
func limitNames() []string { return []string{"charge-card", limit.Name("ship", "acme")} }

func (r *limitHarness) close() {
	r.run.Close() // before the keys are deleted: a limit may be registered even after its reply
	keys := []string{r.space.Part(partition).Limits()}
	for _, name := range limitNames() {
		keys = append(append(keys, r.keys(name)...), r.space.Limit(limit.Action(name)).State())
	}
	for _, key := range keys {
		r.must(r.rdb.Del(r.ctx, key).Err())
	}
}

func (r *limitHarness) must(err error) {
	r.rt.Helper()
	if err != nil {
		r.rt.Fatal(err)
	}
}

func (r *limitHarness) differf(format string, args ...any) {
	if !r.hunt {
		r.rt.Fatalf(format, args...)
	}
	if r.found == "" {
		r.found = fmt.Sprintf(format, args...)
	}
}

func (r *limitHarness) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"admit": func(*rapid.T) { r.admit() }, "admit more": func(*rapid.T) { r.admit() }, "admit still more": func(*rapid.T) { r.admit() },
		"sweep": func(*rapid.T) { r.sweep() }, "sweep more": func(*rapid.T) { r.sweep() }, "clear": func(*rapid.T) { r.clear() }, "release orphans": func(*rapid.T) { r.releaseOrphans() },
		"stats": func(*rapid.T) { r.stats() }, "again": func(*rapid.T) { r.again() }, "time passes": func(*rapid.T) { r.pass() },
		"save": func(*rapid.T) { r.save() }, "rollback": func(*rapid.T) { r.rollback() },
	}
}

func pick[T any](r *limitHarness, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(r.rt, what)
}

func (r *limitHarness) oneIn(n int) bool { return rapid.IntRange(1, n).Draw(r.rt, "one in") == n }

// limit draws a limit, mostly the first one.
func (r *limitHarness) limit() string {
	return pick(r, "limit", slices.Concat(limitNames(), limitNames()[:1])...)
}

// member draws one of six callers: activities, starts and retained slots. Some are below another one, or two below the same one.
func (r *limitHarness) member() memlimit.Member {
	n := rapid.IntRange(1, 6).Draw(r.rt, "member")
	m := memlimit.Member{Ticket: "t" + strconv.Itoa(n), Instance: "i:" + strconv.Itoa(n), Place: []string{"1.2", "o3.4", "-"}[n%3]}
	if n%3 != 0 {
		m.HeldByAncestor = "t" + strconv.Itoa(n%3)
	}
	return m
}

// force draws a policy: mostly none or the newest, sometimes an older one.
func (r *limitHarness) force() *memlimit.Force {
	if !r.oneIn(4) {
		return nil
	}
	f := &memlimit.Force{Version: r.version, Policy: memlimit.Policy{
		Concurrency: pick(r, "concurrency", 1, 1, 2, 3, 0), QueueLimit: pick(r, "queue limit", 0, 0, 3, 1),
		QueueTimeout: pick(r, "queue timeout", int64(-1), 0, 2000, 2500), Reject: r.oneIn(8), Paused: r.oneIn(8),
	}}
	if r.oneIn(3) {
		f.Policy.Rate, f.Policy.RateWindow = pick(r, "rate", 1, 2), pick(r, "rate window", int64(1000), 1000, 1000, 7_200_000)
	}
	if r.oneIn(3) {
		f.Policy.Quota, f.Policy.QuotaWindow = pick(r, "quota", 1, 3), pick(r, "quota window", int64(2000), 7_200_000)
	}
	if r.oneIn(2) {
		f.Declared = "group"
	}
	if r.oneIn(4) && f.Version > 0 {
		f.Version--
	} else if r.oneIn(2) {
		r.version++
		f.Version = r.version
	}
	return f
}

func forceOf(f *memlimit.Force) *limit.InForce {
	if f == nil {
		return nil
	}
	p := f.Policy
	return &limit.InForce{Level: "action", Version: uint64(f.Version), Declared: history.Declared{Group: f.Declared}, Policy: history.Policy{
		Concurrency: uint32(p.Concurrency), Rate: uint32(p.Rate), RateWindow: p.RateWindow, Quota: uint64(p.Quota), QuotaWindow: p.QuotaWindow,
		QueueLimit: uint32(p.QueueLimit), QueueTimeout: p.QueueTimeout, Reject: p.Reject, Paused: p.Paused,
	}}
}

func memberOf(m memlimit.Member) limit.Member { return limit.Member(m) }

func texts[M ~struct{ Ticket, Instance, Place, HeldByAncestor string }](ms []M) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = limit.Member(m).String()
	}
	return out
}

func sorted(texts []string) []string { slices.Sort(texts); return texts }

func (r *limitHarness) send(call func()) {
	r.sent = append(r.sent, call)
	call()
	if r.oneIn(6) {
		r.rt.Log("the reply is lost")
		call()
	}
}

func (r *limitHarness) again() {
	if len(r.sent) > 0 {
		r.rt.Log("an earlier call arrives again")
		pick(r, "which", r.sent...)()
	}
}

func (r *limitHarness) admit() {
	name, f := r.limit(), r.force()
	var leave []memlimit.Leave
	for range pick(r, "leaves", 0, 0, 1, 1, 2) {
		leave = append(leave, memlimit.Leave{Member: r.member()})
	}
	var enter []memlimit.Entry
	for range pick(r, "entries", 0, 1, 1, 2, 4) {
		enter = append(enter, memlimit.Entry{Member: r.member(), Active: r.oneIn(6)})
	}
	r.send(func() {
		r.both(name, fmt.Sprintf("admit at %s, policy %+v: leave %v, enter %v", name, f, leave, enter), func() (string, int64) {
			c := limit.AdmitRequest{Limit: name}
			if f != nil {
				c.InForce = *forceOf(f)
			}
			for _, l := range leave {
				c.Leave = append(c.Leave, memberOf(l.Member))
			}
			for _, e := range enter {
				c.Enter = append(c.Enter, limit.Entry{Member: memberOf(e.Member), Active: e.Active})
			}
			a, err := redistest.Answer(func(done func(limit.AdmitReply, error)) { r.limits.Admit(c, done) })
			r.must(err)
			verdicts := []string{}
			for _, v := range a.Verdicts {
				verdicts = append(verdicts, fmt.Sprint(kindOf(v.Kind), " ", v.Position, " ", v.Until))
			}
			return fmt.Sprint(verdicts, texts(a.Granted), a.Waiting, a.Holding, a.LimitedUntil, a.SweepNow), a.Now
		}, func(g *memlimit.Limit, now int64) string {
			a := g.Admit(now, f, leave, enter)
			verdicts := []string{}
			for _, v := range a.Verdicts {
				verdicts = append(verdicts, fmt.Sprint(v.Kind, " ", v.Position, " ", v.Until))
			}
			return fmt.Sprint(verdicts, texts(a.Granted), a.Waiting, a.Holding, a.Until, a.SweepNow)
		})
	})
}

// releaseOrphans removes members without a lease or instance from a limit, with a time close to that of their latest request.
func (r *limitHarness) releaseOrphans() {
	name, now := r.limit(), r.now()/1000
	var leave []memlimit.Leave
	for range pick(r, "orphans", 1, 1, 2, 3) {
		m := r.member()
		at := pick(r, "of", r.model[name].LastActive(m), now) + pick(r, "later by", int64(0), 0, -1, 1, -2000)
		leave = append(leave, memlimit.Leave{Member: m, Orphaned: true, At: max(at, 0)})
	}
	r.send(func() {
		r.both(name, fmt.Sprintf("release orphans at %s: %v", name, leave), func() (string, int64) {
			ds := make([]limit.Orphan, len(leave))
			for i, l := range leave {
				ds[i] = limit.Orphan{Member: memberOf(l.Member), At: l.At}
			}
			a, err := redistest.Answer(func(done func(limit.AdmitReply, error)) { r.limits.ReleaseOrphans(name, ds, done) })
			r.must(err)
			return fmt.Sprint(texts(a.Granted), a.Waiting, a.Holding, a.LimitedUntil, a.SweepNow), a.Now
		}, func(g *memlimit.Limit, now int64) string {
			a := g.Admit(now, nil, leave, nil)
			return fmt.Sprint(texts(a.Granted), a.Waiting, a.Holding, a.Until, a.SweepNow)
		})
	})
}

func kindOf(k limit.Kind) memlimit.Kind {
	return map[limit.Kind]memlimit.Kind{
		limit.Admitted: memlimit.Admitted, limit.Waiting: memlimit.Waits, limit.QueueFull: memlimit.Full, limit.Limited: memlimit.Limited,
		limit.TimedOut: memlimit.TimedOut, limit.Cleared: memlimit.Cleared,
	}[k]
}

func (r *limitHarness) sweep() {
	name, f := r.limit(), r.force()
	r.send(func() {
		r.both(name, fmt.Sprintf("sweep of %s, policy %+v", name, f), func() (string, int64) {
			s, err := redistest.Answer(func(done func(limit.SweepReply, error)) { r.limits.Sweep(name, forceOf(f), done) })
			r.must(err)
			rejected := []string{}
			for _, a := range s.Rejected {
				rejected = append(rejected, fmt.Sprint(a.Member, a.Cleared))
			}
			return fmt.Sprint(texts(s.Granted), sorted(rejected), sorted(texts(s.Stale)), s.Waiting, s.Holding, s.LimitedUntil, s.Next,
				s.IdleFor.Milliseconds(), s.Deadlocked, s.Version, s.Declared.Group, s.More), s.Now
		}, func(g *memlimit.Limit, now int64) string {
			s := g.Sweep(now, f)
			rejected := []string{}
			for _, a := range s.Rejected {
				rejected = append(rejected, fmt.Sprint(memberOf(a.Member), a.Cleared))
			}
			return fmt.Sprint(texts(s.Granted), sorted(rejected), sorted(texts(s.Stale)), s.Waiting, s.Holding, s.Until, s.Next,
				s.Idle, s.Deadlocked, s.Force.Version, s.Force.Declared, false)
		})
	})
}

func (r *limitHarness) clear() {
	if !r.oneIn(4) {
		return
	}
	name := r.limit()
	r.both(name, "clear "+name, func() (string, int64) {
		n, err := r.limits.Clear(r.ctx, name)
		r.must(err)
		return fmt.Sprint(n), 0
	}, func(g *memlimit.Limit, now int64) string { return fmt.Sprint(g.Clear(now)) })
}

// stats compares the statistics of a limit, and of one member.
func (r *limitHarness) stats() {
	name, m := r.limit(), r.member()
	r.both(name, "stats of "+name, func() (string, int64) {
		s, ok, err := r.limits.Stats(r.ctx, name)
		r.must(err)
		p, found, err := r.limits.Place(r.ctx, name, memberOf(m))
		r.must(err)
		waiters, err := r.limits.Waiters(r.ctx, name, 1, 10)
		r.must(err)
		second := ""
		if len(waiters) > 0 {
			second = fmt.Sprint(waiters[0].Member, waiters[0].Position, waiters[0].Since)
		}
		if !ok {
			return fmt.Sprint("none ", found), 0
		}
		return fmt.Sprint(s.QueueLength, s.Active, s.OldestEnqueuedAt, s.TotalEnqueued, s.TotalCompleted, s.Rejected, s.TimedOut, s.Withdrawn, s.Cleared,
			s.LimitedUntil, found, p.Position, p.Since, second), 0
	}, func(g *memlimit.Limit, now int64) string {
		at, since, found := g.PlaceOf(m)
		if !g.Exists && g.Empty() {
			return fmt.Sprint("none ", found)
		}
		second, oldest := "", int64(0)
		if len(g.Queue) > 0 {
			oldest = g.Queue[0].Number / 1000
		}
		if len(g.Queue) > 1 {
			second = fmt.Sprint(memberOf(g.Queue[1].Member), 2, g.Queue[1].Number/1000)
		}
		c := g.Count
		return fmt.Sprint(len(g.Queue), len(g.Holders), oldest, c.Entered, c.Completed, c.Rejected, c.TimedOut, c.Withdrawn, c.Cleared,
			g.Clone().Limited(now), found, at, since/1000, second)
	})
}

// checkInvariants requires that the limits satisfy the invariants that `pawl check` checks.
func (r *limitHarness) checkInvariants() {
	for _, name := range limitNames() {
		for _, err := range r.limits.Check(r.ctx, name) {
			r.rt.Error(err)
		}
		if broken := r.model[name].Check(); broken != "" {
			r.rt.Errorf("the model of %s: %s", name, broken)
		}
	}
}
