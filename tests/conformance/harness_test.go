package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
)

const partition = 3

// rules returns the constants of the scripts, and the arguments that this suite passes, in ms.
func rules() memstore.Rules {
	return memstore.Rules{
		Soon: 2000, LeaseTTL: leaseTTL, OwnerTTL: ownerTTL, Claims: claims, Inbox: record.InboxBound, Seen: 3_600_000,
	}
}

const leaseTTL, ownerTTL, claims = 10_000, 5000, 3

// harness is a partition in Redis and the same partition in the model.
type harness struct {
	rt     *rapid.T
	ctx    context.Context //nolint:containedctx // ends with one check
	rdb    redis.UniversalClient
	run    *redisx.Runner
	part   redisx.Part
	store  *store.Store
	leases *leases.Scripts
	limits *limiter.Limiter
	lua    map[string]*redisx.Script // scripts of the ownership, and ingest with a bound that a test can reach
	model  *memstore.Store
	hunt   bool   // the model has a planted mistake: a difference must be found
	found  string // the first difference of a hunt
}

func newHarness(rt *rapid.T, rdb redis.UniversalClient, n int) *harness {
	space := redisx.NewSpace("c" + strconv.Itoa(n))
	run := redisx.NewRunner(rdb)
	r := &harness{
		rt: rt, ctx: context.Background(), rdb: rdb, run: run, part: space.Part(partition),
		store: store.New(run, space), leases: leases.New(run, space), limits: limiter.New(run, space, func(string) int { return partition }), lua: map[string]*redisx.Script{}, model: memstore.NewStore(rules()),
	}
	for name, dir := range map[string]string{
		"acquire": "internal/partition", "renew": "internal/partition", "release": "internal/partition", "ingest": "internal/store", "schedule": "internal/limiter",
	} {
		body, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(dir), name+".lua"))
		if err != nil {
			rt.Fatal(err)
		}
		r.lua[name] = script(rt, name, string(body))
	}
	return r
}

// script compiles a script of another package.
func script(rt *rapid.T, name, body string) *redisx.Script {
	s, err := redisx.Compile(name, "", body)
	if err != nil {
		rt.Fatal(err)
	}
	return s
}

func (r *harness) close() {
	defer r.run.Close()
	if keys := r.keys(); len(keys) > 0 {
		r.must(r.rdb.Del(r.ctx, keys...).Err())
	}
}

func (r *harness) must(err error) {
	r.rt.Helper()
	if err != nil {
		r.rt.Fatal(err)
	}
}

func (r *harness) now() int64 {
	t, err := r.rdb.Time(r.ctx).Result()
	r.must(err)
	return t.UnixMilli()
}

// ownership runs a script of internal/partition.
func (r *harness) ownership(name string, args ...any) *redisx.Reply {
	v, err := r.run.Do(r.ctx, redisx.Call{Script: r.lua[name], Keys: []string{r.part.Owner()}, Args: args})
	r.must(err)
	return redisx.NewReply(v)
}

// both makes a call to Redis and to the model, and compares answers and keys. call returns the answer as text, and the time of the
// script if the answer contains it; otherwise the time lies between the times before and after the call.
func (r *harness) both(what string, call func() (answer string, now int64), oracle func(m *memstore.Store, now int64) string) {
	before := r.now()
	got, now := call()
	times, slack := []int64{now}, int64(0)
	if now == 0 {
		times = []int64{before, r.now()}
		slack = times[1] - before
	}
	var want string
	for _, t := range times {
		m := r.model.Clone()
		if want = oracle(m, t); want != got {
			continue
		}
		r.model = m
		if d := difference(r.snapshot(), m, slack); len(d) > 0 {
			r.differf("%s: %s, and then the keys differ:\n%s", what, got, d)
			return
		}
		r.rt.Logf("%s: %s", what, got)
		return
	}
	r.differf("%s: Redis answers %q, the model %q", what, got, want)
}

func (r *harness) differf(format string, args ...any) {
	if !r.hunt {
		r.rt.Fatalf(format, args...)
	}
	if r.found == "" {
		r.found = fmt.Sprintf(format, args...)
	}
}
