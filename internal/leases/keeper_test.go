package leases_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/cancel"
)

var quiet = slog.New(slog.DiscardHandler)

func noReason(context.Context, leases.Ref, []uint64) map[uint64]cancel.Cancelled { return nil }

func (b *harness) keeper(span time.Duration, lookup leases.Lookup) *leases.Keeper {
	b.Helper()
	k := leases.NewKeeper(b.leases, span, lookup, quiet)
	b.Cleanup(k.Stop)
	return k
}

// held creates a lease, claims it for span and passes it to the keeper.
func (b *harness) held(k *leases.Keeper, g leases.Claim, span time.Duration) *leases.Hold {
	b.Helper()
	b.create(g.Ref)
	since := time.Now()
	c := answer(b, func(done func(leases.ClaimReply, error)) {
		b.leases.Claim(leases.ClaimRequest{Claim: g, Worker: "w", TTL: span, MaxClaims: maxClaims}, done)
	})
	b.want("claim", c.Outcome, leases.Acquired)
	h := k.Hold(context.Background(), g, since)
	b.Cleanup(h.Release)
	return h
}

func (b *harness) cause(h *leases.Hold) *cancel.Cancelled {
	b.Helper()
	select {
	case <-h.Context().Done():
	case <-time.After(time.Minute):
		b.Fatal("the context has not ended")
	}
	if !errors.Is(h.Context().Err(), context.Canceled) {
		b.Fatalf("error %v", h.Context().Err())
	}
	var c *cancel.Cancelled
	if !errors.As(context.Cause(h.Context()), &c) {
		b.Fatalf("cause %v is not a *Cancelled", context.Cause(h.Context()))
	}
	return c
}

func (b *harness) until(what string, ok func() bool) {
	b.Helper()
	poll.Until(b, 60*time.Second, what, ok)
}

// notCancelled checks that the context of h has not ended.
func (b *harness) notCancelled(h *leases.Hold) {
	b.Helper()
	if err := h.Context().Err(); err != nil {
		b.Fatalf("cancelled: %v", context.Cause(h.Context()))
	}
}

func onServer(t *testing.T) *harness {
	t.Helper()
	return newHarness(t, redistest.Start(t).Client(t))
}

// longTTL is the TTL of a lease that must be renewed in time on a machine that stalls for seconds.
const longTTL = 10 * time.Second

func TestHeldLeaseOutlivesTTL(t *testing.T) {
	t.Parallel()
	b := onServer(t)
	const span = longTTL
	k := b.keeper(span, noReason)
	h := b.held(k, claimOf(1, "t1"), span)
	first := b.fields(ref(1))["u"]
	b.until("renewed past the first expiry", func() bool {
		u, _ := strconv.ParseInt(first, 10, 64)
		return b.now() > u
	})
	b.notCancelled(h)
	if !h.Trusted() {
		t.Fatal("not trusted")
	}
	b.want("ack", b.ack(h.Claim, "x").Outcome, leases.OK)
}

func TestCancellationIsDetectedAtNextRenewalWithCauseFromHistory(t *testing.T) {
	t.Parallel()
	b := onServer(t)
	const span = longTTL
	k := b.keeper(span, func(_ context.Context, _ leases.Ref, activities []uint64) map[uint64]cancel.Cancelled {
		return map[uint64]cancel.Cancelled{activities[0]: {Reason: cancel.LostSelect, Text: fmt.Sprint("activity ", activities[0])}}
	})
	h := b.held(k, claimOf(7, "t"), span)
	b.cancel(ref(7))
	b.want("cause", b.cause(h), "cancelled: lost-select: activity 7")
	b.want("counts", k.Counts().Gone, 1)
}

func TestGoneLeaseWithoutCauseIsLeaseLost(t *testing.T) {
	b := onServer(t)
	k := b.keeper(time.Second, noReason)
	h := b.held(k, claimOf(1, "t"), time.Second)
	b.cancel(ref(1))
	c := b.cause(h)
	if c.Reason != cancel.LeaseLost || c.Text == "" {
		t.Fatalf("cause %v", c)
	}
}

func TestHintCancelsAtOnceWithItsCause(t *testing.T) {
	b := onServer(t)
	k := b.keeper(time.Hour, noReason)
	h := b.held(k, claimOf(1, "t"), time.Hour)
	other := b.held(k, claimOf(2, "t"), time.Hour)
	b.cancel(ref(1))
	k.Hint(leases.Hint{
		Instance: "order:42", Effect: "e1",
		Cause: cancel.Cancelled{Reason: cancel.Requested, By: "ops", Text: "fraud"},
	})
	b.want("cause", b.cause(h), "cancelled: requested by ops: fraud")
	b.notCancelled(other)
}

// The claim has taken effect, and the commit that cancels the activity has sent its hint, before the worker calls Hold.
func TestHintBeforeClaimReplyIsApplied(t *testing.T) {
	b := onServer(t)
	k := b.keeper(time.Hour, noReason)
	k.Hint(leases.Hint{Instance: "another", Effect: "e2"}, leases.Hint{
		Instance: "order:42", Effect: "e1", Cause: cancel.Cancelled{Reason: cancel.Requested, By: "ops"},
	})
	h := k.Hold(context.Background(), claimOf(1, "t"), time.Now())
	t.Cleanup(h.Release)
	b.want("cause", b.cause(h), "cancelled: requested by ops")
	other := b.held(k, claimOf(2, "t"), time.Hour)
	third := b.held(k, claimOf(3, "t"), time.Hour)
	k.Hint(leases.Hint{Instance: "order:42", Effect: "e3"})
	b.until("renewed", func() bool { return k.Counts().Renewed == 1 })
	b.notCancelled(other)
	b.notCancelled(third)
}

func TestForgedHintHasNoEffect(t *testing.T) {
	t.Parallel()
	b := onServer(t)
	const span = longTTL
	k := b.keeper(span, func(context.Context, leases.Ref, []uint64) map[uint64]cancel.Cancelled {
		return map[uint64]cancel.Cancelled{1: {Reason: cancel.LostSelect}}
	})
	h := b.held(k, claimOf(1, "t"), span)
	k.Hint(leases.Hint{Instance: "order:42", Effect: "e1", Cause: cancel.Cancelled{Reason: cancel.Purged, By: "mallory"}})
	k.Hint(leases.Hint{Instance: "another", Effect: "e1"}, leases.Hint{Instance: "order:42", Effect: "none"})
	b.until("renewed", func() bool { return k.Counts().Renewed > 0 })
	b.notCancelled(h)
	b.cancel(ref(1)) // the cause of the forged hint must not be used for this cancellation
	b.want("reason", b.cause(h).Reason, cancel.LostSelect)
}

func TestStolenLeaseStopsFirstWorker(t *testing.T) {
	b := onServer(t)
	k := b.keeper(time.Hour, noReason)
	h := b.held(k, claimOf(1, "t1"), time.Hour)
	b.expire(ref(1))
	b.wantClaim(claimOf(1, "t2"), leases.Acquired, 2)
	k.Hint(leases.Hint{Instance: "order:42", Effect: "e1"})
	b.want("reason", b.cause(h).Reason, cancel.LeaseLost)
	b.want("counts", k.Counts().Lost, 1)
	b.want("ack", b.ack(h.Claim, "x").Outcome, leases.Stolen)
}

func TestTransientRenewalErrorDoesNotCancel(t *testing.T) {
	for _, redisError := range []string{
		"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
		"CLUSTERDOWN The cluster is down", "ERR whatever",
	} {
		t.Run(regexp.MustCompile(`\W.*`).ReplaceAllString(redisError, ""), func(t *testing.T) {
			t.Parallel()
			const span = 20 * time.Second // five seconds are left after two failed renewals
			m, _ := redistest.MiniClient(t)
			rdb := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1})
			t.Cleanup(func() { _ = rdb.Close() })
			b := newHarness(t, rdb)
			k := b.keeper(span, noReason)
			h := b.held(k, claimOf(1, "t"), span)
			m.SetError(redisError)
			b.until("failed", func() bool { return k.Counts().Failed > 1 })
			b.notCancelled(h)
			m.SetError("")
			was := k.Counts().Renewed
			b.until("renewed", func() bool { return k.Counts().Renewed > was })
			b.notCancelled(h)
		})
	}
}

func TestContextEndsBeforeLeaseCanBeClaimed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: 200 * time.Millisecond})
	t.Cleanup(func() { _ = rdb.Close() })
	b := newHarness(t, rdb)
	other := newHarness(t, s.Client(t))
	other.space, other.leases = b.space, leases.New(other.runner(), b.space)
	other.claim(claimOf(99, "t2")) // there is a connection, and the script is loaded
	const span = 3 * time.Second
	k := b.keeper(span, noReason)
	for activity := uint64(1); ; activity++ { // the best of several attempts counts: the other claim has to arrive within a twentieth of the TTL
		since := time.Now()
		h := b.held(k, claimOf(activity, "t1"), span)
		s.Pause()
		c := b.cause(h)
		s.Resume()
		// By the clock of Redis, the claim of the cancelled holder has not expired yet.
		got := other.claim(claimOf(activity, "t2"))
		took := time.Since(since)
		if took < span*8/10 || c.Reason != cancel.LeaseLost {
			t.Fatalf("%v after %s", c, took)
		}
		if got.Outcome == leases.Held {
			return
		}
		if activity == 8 {
			t.Fatalf("claimed by another: %v, %s after the claim", got.Outcome, took)
		}
	}
}

func TestPausedProcessDoesNotTrustItsLease(t *testing.T) {
	b := onServer(t)
	k := b.keeper(time.Hour, noReason)
	b.create(ref(1))
	h := k.Hold(context.Background(), claimOf(1, "t"), time.Now().Add(-time.Hour)) // as after a SIGSTOP
	t.Cleanup(h.Release)
	if h.Trusted() {
		t.Fatal("trusted before the keeper's first check")
	}
	k2 := b.keeper(time.Second, noReason)
	h2 := k2.Hold(context.Background(), claimOf(1, "t"), time.Now().Add(-time.Hour))
	t.Cleanup(h2.Release)
	b.want("reason", b.cause(h2).Reason, cancel.LeaseLost)
}

func TestLeasesAreRenewedInBatches(t *testing.T) {
	t.Parallel()
	b := onServer(t)
	const span, each = longTTL, 600
	k := b.keeper(span, noReason)
	since := time.Now()
	for part := range 2 {
		for i := range each {
			r := ref(uint64(i + 1))
			r.Part, r.Effect = part, fmt.Sprint("e", part, ".", i)
			until := strconv.FormatInt(b.now()+span.Milliseconds(), 10)
			b.must(b.rdb.HSet(t.Context(), b.key(r), "e", r.Effect, "n", "1", "t", "t", "u", until, "d", span.Milliseconds()).Err())
			h := k.Hold(context.Background(), leases.Claim{Ref: r, Token: "t"}, since.Add(span))
			t.Cleanup(h.Release)
		}
	}
	b.must(b.rdb.ConfigResetStat(t.Context()).Err())
	was := k.Counts().Renewed
	b.until("all renewed", func() bool { return k.Counts().Renewed >= was+2*each })
	info, err := b.rdb.Info(t.Context(), "commandstats").Result()
	b.must(err)
	calls := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`).FindStringSubmatch(info)
	if calls == nil {
		t.Fatalf("no scripts ran:\n%s", info)
	}
	// The 600 leases of a partition take two scripts; a round may have been in progress when the statistics were reset.
	if n, _ := strconv.Atoi(calls[1]); n > 12 {
		t.Fatalf("%d scripts for %d leases", n, 2*each)
	}
}

func TestStopReleasesAllHolds(t *testing.T) {
	b := onServer(t)
	k := b.keeper(time.Hour, noReason)
	h := b.held(k, claimOf(1, "t"), time.Hour)
	k.Stop()
	b.want("reason", b.cause(h).Reason, cancel.WorkerStopping)
	late := k.Hold(context.Background(), claimOf(2, "t"), time.Now())
	b.want("reason", b.cause(late).Reason, cancel.WorkerStopping)
	if late.Trusted() {
		t.Fatal("trusted")
	}
	k.Stop()
}

func TestReleasedLeaseIsNotRenewed(t *testing.T) {
	b := onServer(t)
	k := b.keeper(time.Hour, noReason)
	h := b.held(k, claimOf(1, "t"), time.Hour)
	h.Release()
	h.Release()
	if h.Context().Err() == nil || h.Trusted() {
		t.Fatal("still held")
	}
	k.Hint(leases.Hint{Instance: "order:42", Effect: "e1"})
	other := b.held(k, claimOf(2, "t"), time.Hour)
	k.Hint(leases.Hint{Instance: "order:42", Effect: "e2"})
	b.until("the other is renewed", func() bool { return k.Counts().Renewed == 1 })
	b.notCancelled(other)
}
