package leases

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Fractions of the TTL. After a failed renewal, two more rounds remain before the lease expires.
const (
	roundDivisor  = 3  // all leases are renewed every TTL/3
	retryDivisor  = 10 // failed renewals are retried after TTL/10
	marginDivisor = 10 // trust ends TTL/10 before the lease can expire
	beatDivisor   = 20 // trust is checked every TTL/20, less than the margin
)

// Keeper renews the leases of a worker in batches, and cancels the context of each lease that is lost.
//
//	Hold ──▶ trusted ──OK──▶ trusted (window starts before this renewal)
//	           │ GONE ─────────────────▶ cancelled, with the cause from the hint or the history
//	           │ STOLEN, EXPIRED ──────▶ cancelled, LeaseLost
//	           │ any error ────────────▶ retried after TTL/10
//	           │ trust window passed ──▶ cancelled, LeaseLost
//	           └ Release ──────────────▶ removed
//
// The trust window is 9/10 of the TTL. It starts before the last successful claim or renewal was sent, by the monotonic clock, and ends
// before another worker can claim the lease. If a process was stopped for longer, the keeper cancels its contexts at its first check, and
// Trusted returns false even before that.
//
// A Keeper runs one goroutine, plus one for each execution with leases that are gone for an unknown reason; Stop joins them. Its methods
// are safe for concurrent use.
type Keeper struct {
	leases *Scripts
	ttl    time.Duration
	lookup Lookup
	log    *slog.Logger

	ctx  context.Context //nolint:containedctx // ends with Stop
	stop context.CancelFunc
	wg   sync.WaitGroup
	wake chan struct{}
	beat *timers.Ticker // while a lease is held

	mu          sync.Mutex
	held        map[*Hold]struct{}
	earlyHints  map[string]earlyHint // by effect
	unexplained map[Ref][]*Hold      // holds that wait for a reason, by execution; each key has a goroutine
	stopped     bool
	counts      Counts
	failure     failure // the most recent one
}

// failure describes a renewal that failed or was not answered in time.
type failure struct {
	at  time.Time
	err error
}

// Counts holds the counters of a keeper since its start.
type Counts struct {
	Renewed uint64 // successful renewals, per lease
	Failed  uint64 // renewals that received no reply, per lease
	Lost    uint64 // leases that were stolen, expired, or not renewed within the trust window
	Gone    uint64 // leases that were deleted: mostly cancelled activities
}

// Hold is a lease that a keeper renews. Make one with Keeper.Hold. Its methods are safe for concurrent use.
type Hold struct {
	Claim // constant

	keeper *Keeper
	ctx    context.Context //nolint:containedctx // the context of the handler derives from it
	cancel context.CancelCauseFunc

	renewedAt time.Time         // time before the last successful claim or renewal was sent
	renewAt   time.Time         // time of a renewal outside the rounds; zero: none
	sentAt    time.Time         // time before the outstanding renewal was sent; zero: none
	hint      *cancel.Cancelled // cause of the last hint; nil: none
	hintedAt  time.Time
}

// NewKeeper starts a keeper for leases that are claimed with the TTL ttl. It calls lookup on its own goroutines, for leases that are gone
// without a hint.
func NewKeeper(l *Scripts, ttl time.Duration, lookup Lookup, log *slog.Logger) *Keeper {
	ctx, stop := context.WithCancel(context.Background())
	k := &Keeper{
		leases: l, ttl: ttl, lookup: lookup, log: log, ctx: ctx, stop: stop,
		wake: make(chan struct{}, 1), beat: timers.NewTicker(max(ttl/beatDivisor, time.Millisecond)), held: make(map[*Hold]struct{}), earlyHints: make(map[string]earlyHint), unexplained: make(map[Ref][]*Hold),
	}
	k.wg.Go(k.run)
	return k
}

// Stop ends the keeper and waits for its goroutines. It cancels the contexts of the remaining leases with the reason WorkerStopping, but
// does not release the leases in Redis. Stop may be called more than once.
func (k *Keeper) Stop() {
	k.mu.Lock()
	k.stopped = true
	left := k.held
	k.held = make(map[*Hold]struct{})
	k.mu.Unlock()
	k.stop()
	for h := range left {
		h.cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping})
	}
	k.wg.Wait()
}

// Hold keeps a claimed lease renewed until Release. since is a time before its claim was sent. The context of the Hold is a child of
// parent. After Stop it is cancelled from the beginning.
func (k *Keeper) Hold(parent context.Context, g Claim, since time.Time) *Hold {
	h := &Hold{Claim: g, keeper: k, renewedAt: since}
	h.ctx, h.cancel = context.WithCancelCause(parent)
	k.mu.Lock()
	ended := k.stopped
	if !ended {
		k.held[h] = struct{}{}
		k.beat.Require()
	}
	hinted := k.applyEarlyHint(h)
	k.mu.Unlock()
	switch {
	case ended:
		h.cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping})
	case hinted:
		k.wakeNow()
	}
	return h
}

// Context returns a context that ends when the lease is lost, and at Cancel, Release and Keeper.Stop. Its cause is a *cancel.Cancelled,
// or context.Canceled after Release.
func (h *Hold) Context() context.Context { return h.ctx }

// Cancel cancels the context with a cause of the caller's. The lease is still renewed.
func (h *Hold) Cancel(cause *cancel.Cancelled) { h.cancel(cause) }

// Trusted reports whether the lease is certainly held now. It is exact even if the context has not been cancelled yet.
func (h *Hold) Trusted() bool {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	_, kept := h.keeper.held[h]
	return kept && time.Since(h.renewedAt) < h.keeper.trustWindow()
}

// Release ends the renewals and cancels the context. It does not release the lease in Redis. It may be called more than once.
func (h *Hold) Release() {
	h.keeper.mu.Lock()
	delete(h.keeper.held, h)
	h.keeper.mu.Unlock()
	h.cancel(context.Canceled)
}

// Counts returns the counters of the keeper.
func (k *Keeper) Counts() Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts
}

// LastFailure returns the time and the error of the last renewal that failed or was not answered in time; the error is nil if there was
// none.
func (k *Keeper) LastFailure() (at time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure.at, k.failure.err
}

func (k *Keeper) trustWindow() time.Duration { return k.ttl - k.ttl/marginDivisor }

func (k *Keeper) wakeNow() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper) run() {
	defer k.beat.Stop()
	round := time.NewTicker(max(k.ttl/roundDivisor, time.Millisecond)) // independent of beat, which may pause: a lost hint delays a cancellation by at most a round
	defer round.Stop()
	for {
		all := false
		select {
		case <-k.ctx.Done():
			return
		case <-round.C:
			all = true
		case <-k.beat.C:
			k.beat.Received()
		case <-k.wake:
		}
		now := time.Now()
		k.expire(now)
		k.renew(now, all)
		if k.dropEarlyHints(now); k.holds() {
			k.beat.Require()
		}
	}
}

func (k *Keeper) holds() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held) > 0
}

// expire cancels the leases whose trust window has passed at now.
func (k *Keeper) expire(now time.Time) {
	var lost []*Hold
	k.mu.Lock()
	for h := range k.held {
		if now.Sub(h.renewedAt) >= k.trustWindow() {
			delete(k.held, h)
			k.counts.Lost++
			lost = append(lost, h)
		}
	}
	if len(lost) > 0 {
		k.failure = failure{now, fmt.Errorf("%d leases lost: not renewed by Redis within %s", len(lost), k.trustWindow())}
	}
	k.mu.Unlock()
	for _, h := range lost {
		k.log.Warn("lease lost: not renewed in time", "activity", h.Ref.String(), "silent", now.Sub(h.renewedAt).Round(time.Millisecond))
		h.cancel(&cancel.Cancelled{
			Reason: cancel.LeaseLost,
			Text:   fmt.Sprintf("not renewed for %s of %s", now.Sub(h.renewedAt).Round(time.Millisecond), k.ttl),
		})
	}
}

// renew sends the renewals that are due, or all of them: one script for every MaxRenew leases of a partition. The scripts are sent as one
// pipeline.
func (k *Keeper) renew(now time.Time, all bool) {
	parts := make(map[int][]*Hold)
	k.mu.Lock()
	for h := range k.held {
		if h.sentAt.IsZero() && (all || !h.renewAt.IsZero() && !h.renewAt.After(now)) {
			h.sentAt, h.renewAt = now, time.Time{}
			parts[h.Part] = append(parts[h.Part], h)
		}
	}
	k.mu.Unlock()
	for part, holds := range parts {
		for some := range slices.Chunk(holds, MaxRenew) {
			k.send(part, some)
		}
	}
}

func (k *Keeper) send(part int, holds []*Hold) {
	claims := make([]Claim, len(holds))
	for i, h := range holds {
		claims[i] = h.Claim
	}
	k.leases.Renew(part, claims, k.ttl, func(out []Outcome, err error) {
		if err != nil {
			k.retry(holds, err)
			return
		}
		k.onRenewed(holds, out)
	})
}

// retry reschedules failed renewals. If they keep failing, the trust window ends the leases.
func (k *Keeper) retry(holds []*Hold, err error) {
	due := time.Now().Add(k.ttl / retryDivisor)
	k.mu.Lock()
	for _, h := range holds {
		h.sentAt, h.renewAt = time.Time{}, due
	}
	k.counts.Failed += uint64(len(holds))
	k.failure = failure{time.Now(), err}
	ended := k.stopped
	k.mu.Unlock()
	if !ended {
		redisx.LogFailure(k.log, "leases not renewed, retrying", err, "leases", len(holds), "pause", k.ttl/retryDivisor)
	}
}

// onRenewed handles the outcomes of a renewal. It runs on the runner's goroutine and must not block.
func (k *Keeper) onRenewed(holds []*Hold, out []Outcome) {
	var known, unknown, lost []*Hold
	renewAgain := false
	k.mu.Lock()
	for i, h := range holds {
		sentAt := h.sentAt
		h.sentAt = time.Time{}
		if _, kept := k.held[h]; !kept {
			continue // released, or expired, during the renewal
		}
		if out[i] == OK {
			k.counts.Renewed++
			h.renewedAt = sentAt
			if h.hint != nil && h.hintedAt.After(sentAt) {
				renewAgain = true // the hint arrived after the renewal was sent; renewAt is set
			} else {
				h.hint = nil
			}
			continue
		}
		delete(k.held, h)
		switch {
		case out[i] != Gone:
			k.counts.Lost++
			lost = append(lost, h)
		case h.hint != nil:
			k.counts.Gone++
			known = append(known, h)
		default:
			k.counts.Gone++
			unknown = append(unknown, h)
		}
	}
	k.lookupReasons(unknown)
	k.mu.Unlock()

	for _, h := range known {
		k.cancelHold(h, h.hint)
	}
	for _, h := range lost {
		k.log.Warn("lease lost: expired or claimed by another worker", "activity", h.Ref.String())
		h.cancel(&cancel.Cancelled{Reason: cancel.LeaseLost, Text: "claimed by another worker, or expired"})
	}
	if renewAgain {
		k.wakeNow()
	}
}

func (k *Keeper) cancelHold(h *Hold, cause *cancel.Cancelled) {
	k.log.Debug("activity cancelled", "activity", h.Ref.String(), "reason", cause.Reason.String(), "by", cause.By, "text", cause.Text)
	h.cancel(cause)
}
