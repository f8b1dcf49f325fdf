package leases_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// harness runs the lease scripts in a namespace of its own; the test stands in for the owner.
type harness struct {
	*testing.T
	rdb    redis.UniversalClient
	leases *leases.Scripts
	space  redisx.Space
}

func newHarness(t *testing.T, rdb redis.UniversalClient) *harness {
	t.Helper()
	b := &harness{T: t, rdb: rdb, space: redisx.NewSpace(redistest.Namespace())}
	b.leases = leases.New(b.runner(), b.space)
	return b
}

func (b *harness) runner() *redisx.Runner {
	b.Helper()
	r := redisx.NewRunner(b.rdb)
	b.Cleanup(r.Close)
	return r
}

func ref(activity uint64) leases.Ref {
	return leases.Ref{Part: 3, Instance: "order:42", Execution: 1, Activity: activity, Effect: "e" + strconv.FormatUint(activity, 10)}
}

func claimOf(activity uint64, token string) leases.Claim {
	return leases.Claim{Ref: ref(activity), Token: token}
}

func (b *harness) key(r leases.Ref) string {
	return b.space.Part(r.Part).Lease(r.Instance, r.Execution, r.Activity)
}

// create creates a lease as the owner's commit does.
func (b *harness) create(r leases.Ref) {
	b.Helper()
	b.must(b.rdb.HSet(b.Context(), b.key(r), "e", r.Effect, "n", "0", "c", "1790000000000").Err())
}

// cancel deletes a lease as the commit of a cancellation does.
func (b *harness) cancel(r leases.Ref) {
	b.Helper()
	b.must(b.rdb.Del(context.Background(), b.key(r)).Err())
}

// expire moves the expiry of a claim into the past, because the test cannot set the clock of Redis.
func (b *harness) expire(r leases.Ref) {
	b.Helper()
	b.must(b.rdb.HSet(b.Context(), b.key(r), "u", strconv.FormatInt(b.now()-1, 10)).Err())
}

func (b *harness) now() int64 {
	b.Helper()
	at, err := b.rdb.Time(b.Context()).Result()
	b.must(err)
	return at.UnixMilli()
}

func (b *harness) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *harness) fields(r leases.Ref) map[string]string {
	b.Helper()
	m, err := b.rdb.HGetAll(b.Context(), b.key(r)).Result()
	b.must(err)
	return m
}

func (b *harness) wakeup(r leases.Ref) (float64, bool) {
	b.Helper()
	at, err := b.rdb.ZScore(b.Context(), b.space.Part(r.Part).Wakeups(), r.Instance).Result()
	if errors.Is(err, redis.Nil) {
		return 0, false
	}
	b.must(err)
	return at, true
}

func (b *harness) inbox(r leases.Ref) []string {
	b.Helper()
	l, err := b.rdb.LRange(b.Context(), b.space.Part(r.Part).Inbox(r.Instance), 0, -1).Result()
	b.must(err)
	return l
}

// answer waits for the callback of one call.
func answer[T any](b *harness, call func(func(T, error))) T {
	b.Helper()
	type both struct {
		v   T
		err error
	}
	ch := make(chan both, 1)
	call(func(v T, err error) { ch <- both{v, err} })
	select {
	case a := <-ch:
		b.must(a.err)
		return a.v
	case <-time.After(time.Minute):
		b.Fatal("no answer")
		panic("unreachable")
	}
}

const (
	ttl       = 10 * time.Second
	maxClaims = 3
)

func (b *harness) claim(g leases.Claim) leases.ClaimReply {
	b.Helper()
	return answer(b, func(done func(leases.ClaimReply, error)) {
		b.leases.Claim(leases.ClaimRequest{Claim: g, Worker: "w-" + g.Token, TTL: ttl, MaxClaims: maxClaims}, done)
	})
}

func (b *harness) renew(gs ...leases.Claim) []leases.Outcome {
	b.Helper()
	return answer(b, func(done func([]leases.Outcome, error)) { b.leases.Renew(gs[0].Part, gs, ttl, done) })
}

func (b *harness) ack(g leases.Claim, body string) leases.Acked {
	b.Helper()
	return answer(b, func(done func(leases.Acked, error)) {
		b.leases.Ack(leases.Completion{Claim: g, Body: []byte(body)}, done)
	})
}

func (b *harness) release(g leases.Claim, uncounted bool, delay time.Duration) leases.Outcome {
	b.Helper()
	return answer(b, func(done func(leases.Outcome, error)) {
		b.leases.Release(leases.ReleaseRequest{Claim: g, Uncounted: uncounted, Delay: delay}, done)
	})
}

func (b *harness) wantClaim(g leases.Claim, want leases.Outcome, claims uint32) leases.ClaimReply {
	b.Helper()
	c := b.claim(g)
	if c.Outcome != want || c.Claims != claims {
		b.Fatalf("claim by %s: %v after %d claims, want %v after %d", g.Token, c.Outcome, c.Claims, want, claims)
	}
	return c
}

func (b *harness) want(what string, got, want any) {
	b.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// untouched fails unless the inbox is empty and the instance has no wakeup.
func (b *harness) untouched(r leases.Ref) {
	b.Helper()
	if in := b.inbox(r); len(in) > 0 {
		b.Fatalf("the inbox has %q", in)
	}
	if at, ok := b.wakeup(r); ok {
		b.Fatalf("there is a wakeup at %.0f", at)
	}
}

func TestLeaseHasOneHolder(t *testing.T) {
	cases := map[string]func(*harness){
		"a claim of a free lease records its worker and its expiry":                     freeIsClaimed,
		"a repeated claim with the same token is the same claim, uncounted":             sameTokenAgain,
		"a held lease cannot be claimed":                                                heldCannotBeClaimed,
		"a lease whose claim has expired can be claimed, and the claim is counted":      expiredIsTaken,
		"a claim that expires too late, after a step back of the clock, has expired":    clockSteppedBack,
		"a lease that was claimed too often is exhausted":                               exhausted,
		"an activity cancelled before it was claimed cannot be claimed":                 cancelledBeforeClaim,
		"a lease for another effect is gone for claims of this one":                     otherEffect,
		"ack deletes the lease and pushes the completion":                               ackPushes,
		"ack of a missing lease pushes nothing":                                         ackOfMissing,
		"ack after expiry is refused and writes nothing":                                ackAfterExpiry,
		"renewal after expiry is refused":                                               renewAfterExpiry,
		"after a second worker has claimed a lease, only its completion is accepted":    stolen,
		"a token of a deleted lease is invalid after the lease is created again":        createdAgain,
		"a cancellation after the ack keeps the completion":                             cancelledAfterAck,
		"only a completion that is pushed to an empty inbox advances the wakeup":        onlyFirstAdvances,
		"workers advance a wakeup and never delay it":                                   neverDelayed,
		"an uncounted release decrements the number of claims, never below zero":        releaseUncounted,
		"a counted release frees the lease, and its task is dispatched after the delay": releaseCounted,
		"a release by a worker that lost the lease changes nothing":                     releaseLost,
		"five hundred renewals in one script have an outcome each":                      renewMany,
		"numbers that Lua returns have all their digits":                                allDigits,
		"the body of a completion may be any bytes":                                     anyBytes,
	}
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		for name, f := range cases {
			t.Run(name, func(t *testing.T) { f(newHarness(t, rdb)) })
		}
	})
}

func freeIsClaimed(b *harness) {
	b.create(ref(1))
	before := b.now()
	c := b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	if c.Until < before+ttl.Milliseconds() || c.Until > b.now()+ttl.Milliseconds() {
		b.Fatalf("until %d, claimed at %d for %s", c.Until, before, ttl)
	}
	f := b.fields(ref(1))
	want := fmt.Sprintf("e1 1 t1 w-t1 %d 10000 1790000000000", c.Until)
	b.want("fields", fmt.Sprint(f["e"], " ", f["n"], " ", f["t"], " ", f["w"], " ", f["u"], " ", f["d"], " ", f["c"]), want)
}

func sameTokenAgain(b *harness) {
	b.create(ref(1))
	first := b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	again := b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.want("until", again.Until, first.Until)
}

func heldCannotBeClaimed(b *harness) {
	b.create(ref(1))
	first := b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.want("until", b.wantClaim(claimOf(1, "t2"), leases.Held, 0).Until, first.Until)
	b.want("token", b.fields(ref(1))["t"], "t1")
}

func expiredIsTaken(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.expire(ref(1))
	b.wantClaim(claimOf(1, "t2"), leases.Acquired, 2)
	b.expire(ref(1))
	b.wantClaim(claimOf(1, "t2"), leases.Acquired, 3)
}

func clockSteppedBack(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.must(b.rdb.HSet(b.Context(), b.key(ref(1)), "u", strconv.FormatInt(b.now()+time.Hour.Milliseconds(), 10)).Err())
	b.want("ack", b.ack(claimOf(1, "t1"), "x").Outcome, leases.Expired)
	b.want("renew", b.renew(claimOf(1, "t1")), []leases.Outcome{leases.Expired})
	b.wantClaim(claimOf(1, "t2"), leases.Acquired, 2)
}

func exhausted(b *harness) {
	b.create(ref(1))
	for i := range uint32(maxClaims) {
		b.wantClaim(claimOf(1, fmt.Sprint("t", i)), leases.Acquired, i+1)
		b.wantClaim(claimOf(1, "other"), leases.Held, 0) // a held lease is not exhausted
		b.expire(ref(1))
	}
	b.wantClaim(claimOf(1, "late"), leases.Exhausted, maxClaims)
	b.want("claims", b.fields(ref(1))["n"], maxClaims)
}

func cancelledBeforeClaim(b *harness) {
	b.wantClaim(claimOf(1, "t1"), leases.Gone, 0)
	if f := b.fields(ref(1)); len(f) > 0 {
		b.Fatalf("the claim created a lease: %v", f)
	}
}

func otherEffect(b *harness) {
	b.create(ref(1))
	other := claimOf(1, "t1")
	other.Effect = "e-of-a-lost-turn"
	b.wantClaim(other, leases.Gone, 0)
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.want("ack", b.ack(other, "x").Outcome, leases.Gone)
	b.want("release", b.release(other, true, 0), leases.Gone)
	b.want("token", b.fields(ref(1))["t"], "t1")
	b.untouched(ref(1))
}

func ackPushes(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	before := b.now()
	a := b.ack(claimOf(1, "t1"), "body")
	b.want("ack", a.Outcome, leases.OK)
	b.want("inbox", a.Inbox, 1)
	in := b.inbox(ref(1))
	b.want("elements", len(in), 1)
	b.want("encoding in Go", string(a.Element.Encode()), in[0])
	e, err := eventcodec.ParseElement([]byte(in[0]))
	b.must(err)
	b.want("element", e.ID+"|"+string(e.Body), "ae1.t1|body")
	if e.At < before || e.At > b.now() {
		b.Fatalf("element of %d, acked at %d", e.At, before)
	}
	b.want("lease", b.fields(ref(1)), map[string]string{})
	at, ok := b.wakeup(ref(1))
	if !ok || int64(at) != e.At+2000 {
		b.Fatalf("wakeup at %.0f (%v), want two seconds after %d", at, ok, e.At)
	}
}

func ackOfMissing(b *harness) {
	b.want("ack", b.ack(claimOf(1, "t1"), "x").Outcome, leases.Gone)
	b.untouched(ref(1))
	b.create(ref(1)) // it is free
	b.want("ack", b.ack(claimOf(1, "t1"), "x").Outcome, leases.Stolen)
	b.untouched(ref(1))
}

func ackAfterExpiry(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.expire(ref(1))
	b.want("ack", b.ack(claimOf(1, "t1"), "x").Outcome, leases.Expired)
	b.untouched(ref(1))
	b.want("token", b.fields(ref(1))["t"], "t1")
}

func renewAfterExpiry(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.expire(ref(1))
	was := b.fields(ref(1))
	b.want("renew", b.renew(claimOf(1, "t1")), []leases.Outcome{leases.Expired})
	b.want("fields", b.fields(ref(1)), was)
}

func stolen(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.expire(ref(1))
	b.wantClaim(claimOf(1, "t2"), leases.Acquired, 2)
	b.want("renewal of the first", b.renew(claimOf(1, "t1")), []leases.Outcome{leases.Stolen})
	b.want("ack of the first", b.ack(claimOf(1, "t1"), "first").Outcome, leases.Stolen)
	b.untouched(ref(1))
	b.want("ack of the second", b.ack(claimOf(1, "t2"), "second").Outcome, leases.OK)
	b.want("late ack of the first", b.ack(claimOf(1, "t1"), "first").Outcome, leases.Gone)
	b.want("ack of the second, repeated", b.ack(claimOf(1, "t2"), "second").Outcome, leases.Gone)
	b.want("elements", len(b.inbox(ref(1))), 1)
}

func createdAgain(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.cancel(ref(1))
	b.create(ref(1))
	b.want("renew", b.renew(claimOf(1, "t1")), []leases.Outcome{leases.Stolen})
	b.want("ack", b.ack(claimOf(1, "t1"), "x").Outcome, leases.Stolen)
	b.want("release", b.release(claimOf(1, "t1"), true, 0), leases.Stolen)
	b.untouched(ref(1))
	b.wantClaim(claimOf(1, "t2"), leases.Acquired, 1)
}

func cancelledAfterAck(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.want("ack", b.ack(claimOf(1, "t1"), "done").Outcome, leases.OK)
	b.cancel(ref(1))
	b.want("elements", len(b.inbox(ref(1))), 1)
}

func onlyFirstAdvances(b *harness) {
	p := b.space.Part(3)
	b.must(b.rdb.RPush(b.Context(), p.Inbox("order:42"), "m1\n1\nx").Err())
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	a := b.ack(claimOf(1, "t1"), "x")
	b.want("inbox", a.Inbox, 2)
	if at, ok := b.wakeup(ref(1)); ok {
		b.Fatalf("a wakeup at %.0f, although the inbox was not empty", at)
	}
}

func neverDelayed(b *harness) {
	soon := float64(b.now() - 5000)
	wakeups := b.space.Part(3).Wakeups()
	b.must(b.rdb.ZAdd(b.Context(), wakeups, redis.Z{Score: soon, Member: "order:42"}).Err())
	b.create(ref(1))
	b.create(ref(2))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.wantClaim(claimOf(2, "t2"), leases.Acquired, 1)
	b.ack(claimOf(1, "t1"), "x")
	b.release(claimOf(2, "t2"), false, 0)
	at, _ := b.wakeup(ref(1))
	b.want("wakeup", at, soon)
	b.must(b.rdb.ZAdd(b.Context(), wakeups, redis.Z{Score: soon + 1e9, Member: "order:42"}).Err())
	b.wantClaim(claimOf(2, "t3"), leases.Acquired, 2)
	b.release(claimOf(2, "t3"), false, 0)
	if at, _ := b.wakeup(ref(1)); at > float64(b.now()) {
		b.Fatalf("wakeup at %.0f, not advanced", at)
	}
}

func releaseUncounted(b *harness) {
	b.create(ref(1))
	for i := range 3 * maxClaims {
		g := claimOf(1, fmt.Sprint("t", i))
		b.wantClaim(g, leases.Acquired, 1)
		b.want("release", b.release(g, true, 0), leases.OK)
		b.want("again", b.release(g, true, 0), leases.Stolen)
		b.want("claims", b.fields(ref(1))["n"], 0)
	}
	b.wantClaim(claimOf(1, "x"), leases.Acquired, 1)
	b.must(b.rdb.HSet(b.Context(), b.key(ref(1)), "n", "0").Err())
	b.want("release", b.release(claimOf(1, "x"), true, 0), leases.OK)
	b.want("claims", b.fields(ref(1))["n"], 0)
}

func releaseCounted(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	before := b.now()
	b.want("release", b.release(claimOf(1, "t1"), false, time.Minute), leases.OK)
	fields := b.fields(ref(1))
	at, _ := b.wakeup(ref(1))
	if int64(at) < before+60_000 || int64(at) > b.now()+60_000 || fields["r"] != fmt.Sprintf("%.0f", at) {
		b.Fatalf("wakeup at %.0f, r is %s, released at %d for a minute", at, fields["r"], before)
	}
	delete(fields, "r")
	b.want("fields", fields, map[string]string{"e": "e1", "n": "1", "c": "1790000000000"})
	b.wantClaim(claimOf(1, "t2"), leases.Acquired, 2)
}

func releaseLost(b *harness) {
	b.want("gone", b.release(claimOf(1, "t1"), true, 0), leases.Gone)
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	b.expire(ref(1))
	b.want("expired", b.release(claimOf(1, "t1"), true, 0), leases.Expired)
	b.wantClaim(claimOf(1, "t2"), leases.Acquired, 2)
	b.want("stolen", b.release(claimOf(1, "t1"), true, 0), leases.Stolen)
	b.want("claims", b.fields(ref(1))["n"], 2)
	b.untouched(ref(1))
}

func renewMany(b *harness) {
	want := make([]leases.Outcome, leases.MaxRenew)
	claims := make([]leases.Claim, leases.MaxRenew)
	for i := range claims {
		r := ref(uint64(i + 1))
		claims[i] = leases.Claim{Ref: r, Token: "t"}
		want[i] = []leases.Outcome{leases.OK, leases.Gone, leases.Stolen, leases.Expired}[i%4]
		if want[i] == leases.Gone {
			continue
		}
		f := map[string]any{"e": r.Effect, "n": "1", "t": "t", "d": "10000", "u": strconv.FormatInt(b.now()+5000, 10)}
		switch want[i] { //nolint:exhaustive // the others need no change
		case leases.Stolen:
			f["t"] = "other"
		case leases.Expired:
			f["u"] = strconv.FormatInt(b.now()-5000, 10)
		}
		b.must(b.rdb.HSet(b.Context(), b.key(r), f).Err())
	}
	before := b.now()
	b.want("outcomes", b.renew(claims...), want)
	u, _ := strconv.ParseInt(b.fields(ref(1))["u"], 10, 64)
	if u < before+ttl.Milliseconds() {
		b.Fatalf("renewed until %d at %d", u, before)
	}
}

func allDigits(b *harness) {
	b.create(ref(1))
	c := b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	f := b.fields(ref(1))
	b.want("until", f["u"], c.Until)
	a := b.ack(claimOf(1, "t1"), "x")
	if c.Until < 1e12 || a.Element.At < 1e12 {
		b.Fatalf("until %d, acked at %d: digits are missing", c.Until, a.Element.At)
	}
	score, err := b.rdb.ZScore(b.Context(), b.space.Part(3).Wakeups(), "order:42").Result()
	b.must(err)
	if score != math.Trunc(score) || int64(score) != a.Element.At+2000 {
		b.Fatalf("wakeup at %f", score)
	}
}

func anyBytes(b *harness) {
	b.create(ref(1))
	b.wantClaim(claimOf(1, "t1"), leases.Acquired, 1)
	body := make([]byte, 512<<10)
	for i := range body {
		body[i] = byte(i)
	}
	b.ack(claimOf(1, "t1"), string(body))
	e, err := eventcodec.ParseElement([]byte(b.inbox(ref(1))[0]))
	b.must(err)
	if string(e.Body) != string(body) {
		b.Fatal("the body has changed")
	}
}
