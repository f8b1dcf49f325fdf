package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Fractions of the TTL. A renewal that fails has the time of two more rounds.
const (
	roundDivisor  = 3  // all leases are renewed every TTL/3
	retryDivisor  = 10 // failed renewals are retried after TTL/10
	marginDivisor = 10 // trust ends TTL/10 before the lease can
	beatDivisor   = 20 // trust is checked every TTL/20, less than the margin
)

// Keeper renews the leases of a worker in batches, and cancels the context of each that is lost.
//
//	Hold ──▶ trusted ──OK──▶ trusted (counts from the start of this renewal)
//	           │ GONE ─────────────────▶ cancelled, with the cause of the hint, or of history
//	           │ STOLEN, EXPIRED ──────▶ cancelled, LeaseLost
//	           │ any error ────────────▶ retried after TTL/10
//	           │ trust window passed ──▶ cancelled, LeaseLost
//	           └ Release ──────────────▶ removed
//
// Trust lasts for 9/10 of the TTL from the moment before the last successful claim or renewal was sent, by the monotonic clock;
// no other worker can have claimed by then. A process that was stopped for longer finds its contexts cancelled at the keeper's
// first beat, and Trusted is right even before it.
//
// A Keeper has one goroutine, and one more for each execution with leases that are gone for an unknown reason; Stop joins them.
// Its methods are safe for concurrent use.
type Keeper struct {
	leases *Leases
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
	unexplained map[Ref][]*Hold      // that wait for a reason, by execution; each key has a goroutine
	stopped     bool
	counts      Counts
	failure     failure // the latest
}

// failure is a renewal that had no reply, or none in time.
type failure struct {
	at  time.Time
	err error
}

// Counts has the counters of a keeper.
type Counts struct {
	Renewed uint64 // leases, each time
	Failed  uint64 // leases whose renewal had no reply, each time
	Lost    uint64 // stolen, expired, or the trust window passed
	Gone    uint64 // cancelled by the owner
}

// Hold is a lease that a keeper renews. The keeper owns the unexported fields.
type Hold struct {
	Claim // constant

	keeper *Keeper
	ctx    context.Context //nolint:containedctx // of the handler
	cancel context.CancelCauseFunc

	renewedAt time.Time // start of the last successful claim or renewal
	renewAt   time.Time // when it must be renewed outside the rounds; zero: not
	sentAt    time.Time // start of the outstanding renewal; zero: none
	hint      *cancel.Cancelled
	hintedAt  time.Time
}

// NewKeeper starts a keeper for leases claimed with the TTL. It calls lookup on its own goroutines.
func NewKeeper(l *Leases, ttl time.Duration, lookup Lookup, log *slog.Logger) *Keeper {
	ctx, stop := context.WithCancel(context.Background())
	k := &Keeper{
		leases: l, ttl: ttl, lookup: lookup, log: log, ctx: ctx, stop: stop,
		wake: make(chan struct{}, 1), beat: timers.NewTicker(max(ttl/beatDivisor, time.Millisecond)), held: make(map[*Hold]struct{}), earlyHints: make(map[string]earlyHint), unexplained: make(map[Ref][]*Hold),
	}
	k.wg.Go(k.run)
	return k
}

// Stop ends the keeper and waits for its goroutines. It cancels the contexts of the leases that it has with WorkerStopping; the
// caller releases them.
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

// Hold renews a lease from now on. since is the time before its claim was sent. The Hold must be released.
func (k *Keeper) Hold(parent context.Context, g Claim, since time.Time) *Hold {
	h := &Hold{Claim: g, keeper: k, renewedAt: since}
	h.ctx, h.cancel = context.WithCancelCause(parent)
	k.mu.Lock()
	ended := k.stopped
	if !ended {
		k.held[h] = struct{}{}
		k.beat.Require()
	}
	told := k.applyEarlyHint(h)
	k.mu.Unlock()
	switch {
	case ended:
		h.cancel(&cancel.Cancelled{Reason: cancel.WorkerStopping})
	case told:
		k.wakeNow()
	}
	return h
}

// Context ends when the lease is lost; its cause is a *cancel.Cancelled.
func (h *Hold) Context() context.Context { return h.ctx }

// Cancel cancels the context for a reason of the caller's. The lease is still renewed.
func (h *Hold) Cancel(why *cancel.Cancelled) { h.cancel(why) }

// Trusted reports whether the lease is certainly held at this moment.
func (h *Hold) Trusted() bool {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	_, kept := h.keeper.held[h]
	return kept && time.Since(h.renewedAt) < h.keeper.trustWindow()
}

// Release ends the renewals and cancels the context. It may be called twice.
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

// LastFailure returns when a renewal last had no reply, or none in time, and why; nil if all had one.
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
	round := time.NewTicker(max(k.ttl/roundDivisor, time.Millisecond)) // not a number of beats: a lost hint costs at most a round
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

// expire cancels the leases that were not renewed for too long.
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

// renew sends one script for each partition and MaxRenew leases; they travel as one pipeline.
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
		for len(holds) > 0 {
			n := min(len(holds), MaxRenew)
			k.send(part, holds[:n:n])
			holds = holds[n:]
		}
	}
}

func (k *Keeper) send(part int, holds []*Hold) {
	grips := make([]Claim, len(holds))
	for i, h := range holds {
		grips[i] = h.Claim
	}
	k.leases.Renew(part, grips, k.ttl, func(out []Outcome, err error) {
		if err != nil {
			k.retry(holds, err)
			return
		}
		k.onRenewed(holds, out)
	})
}

// retry schedules renewals again that had no reply. The trust window decides whether that costs the lease.
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

// onRenewed takes the outcomes of a renewal. It runs on the runner's goroutine.
func (k *Keeper) onRenewed(holds []*Hold, out []Outcome) {
	var known, unknown, lost []*Hold
	hurry := false
	k.mu.Lock()
	for i, h := range holds {
		asked := h.sentAt
		h.sentAt = time.Time{}
		if _, kept := k.held[h]; !kept {
			continue // released, or expired, during the renewal
		}
		if out[i] == OK {
			k.counts.Renewed++
			h.renewedAt = asked
			if h.hint != nil && h.hintedAt.After(asked) {
				hurry = true // the hint came after the renewal was sent: renewAt stands
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
	if hurry {
		k.wakeNow()
	}
}

func (k *Keeper) cancelHold(h *Hold, why *cancel.Cancelled) {
	k.log.Debug("activity cancelled", "activity", h.Ref.String(), "reason", why.Reason.String(), "by", why.By, "text", why.Text)
	h.cancel(why)
}
