package leases

import (
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Hint notifies a worker that a lease was deleted. It may be forged, so it only makes the keeper renew the lease at once; its Cause is
// used if the reply confirms that the lease is gone.
type Hint struct {
	Instance string
	Effect   string // effect id of the activity
	Cause    cancel.Cancelled
}

// earlyHint is a hint about a lease that the keeper does not hold, possibly because the reply to its claim is in transit. It is kept for
// one round.
type earlyHint struct {
	hint Hint
	at   time.Time
}

const maxEarlyHints = 4096 // further ones are ignored, because they may be forged

// Hint renews these leases at once. Hints about leases that the keeper does not hold are kept for a third of the TTL: such a lease may
// have been claimed already, and its Hold not been called yet.
func (k *Keeper) Hint(hints ...Hint) {
	byEffect := make(map[string]*Hint, len(hints))
	for i := range hints {
		byEffect[hints[i].Effect] = &hints[i]
	}
	now, hinted := time.Now(), false
	k.mu.Lock()
	for h := range k.held {
		if n, ok := byEffect[h.Effect]; ok && n.Instance == h.Instance {
			h.hint, h.hintedAt, h.renewAt, hinted = &n.Cause, now, now, true
			delete(byEffect, h.Effect)
		}
	}
	for effect, n := range byEffect {
		if len(k.earlyHints) < maxEarlyHints {
			k.earlyHints[effect] = earlyHint{hint: *n, at: now}
		}
	}
	k.mu.Unlock()
	if hinted {
		k.wakeNow()
	}
}

// applyEarlyHint applies a hint that arrived before the Hold of its lease, and reports whether there was one. The caller holds the lock.
func (k *Keeper) applyEarlyHint(h *Hold) bool {
	e, ok := k.earlyHints[h.Effect]
	if !ok || e.hint.Instance != h.Instance {
		return false
	}
	delete(k.earlyHints, h.Effect)
	h.hint, h.hintedAt, h.renewAt = &e.hint.Cause, e.at, time.Now()
	return true
}

// dropEarlyHints drops hints about leases that the keeper has not received within a round.
func (k *Keeper) dropEarlyHints(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for effect, e := range k.earlyHints {
		if now.Sub(e.at) > k.ttl/roundDivisor {
			delete(k.earlyHints, effect)
		}
	}
}
