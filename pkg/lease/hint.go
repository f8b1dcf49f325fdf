package lease

import (
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Hint is the notice of a deleted lease. It may be forged: it makes the keeper renew at once, and has the cause of a cancellation
// that the reply confirms.
type Hint struct {
	Instance string
	Effect   string
	Cause    cancel.Cancelled
}

// earlyHint is a hint about a lease that the keeper does not have, perhaps because the reply to its claim is in transit. It is
// kept until the next round.
type earlyHint struct {
	hint Hint
	at   time.Time
}

const maxEarlyHints = 4096 // further ones are ignored: they may be forged

// Hint renews these leases at once. Hints about other leases are kept for a moment: the claim may be answered, and its Hold not
// made yet.
func (k *Keeper) Hint(hints ...Hint) {
	byEffect := make(map[string]*Hint, len(hints))
	for i := range hints {
		byEffect[hints[i].Effect] = &hints[i]
	}
	now, asked := time.Now(), false
	k.mu.Lock()
	for h := range k.held {
		if n, ok := byEffect[h.Effect]; ok && n.Instance == h.Instance {
			h.hint, h.hintedAt, h.renewAt, asked = &n.Cause, now, now, true
			delete(byEffect, h.Effect)
		}
	}
	for effect, n := range byEffect {
		if len(k.earlyHints) < maxEarlyHints {
			k.earlyHints[effect] = earlyHint{hint: *n, at: now}
		}
	}
	k.mu.Unlock()
	if asked {
		k.wakeNow()
	}
}

// applyEarlyHint gives a lease the hint that came before its Hold, and reports whether there was one. The lock is held.
func (k *Keeper) applyEarlyHint(h *Hold) bool {
	e, ok := k.earlyHints[h.Effect]
	if !ok || e.hint.Instance != h.Instance {
		return false
	}
	delete(k.earlyHints, h.Effect)
	h.hint, h.hintedAt, h.renewAt = &e.hint.Cause, e.at, time.Now()
	return true
}

// dropEarlyHints drops hints about leases that the keeper never got.
func (k *Keeper) dropEarlyHints(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for effect, e := range k.earlyHints {
		if now.Sub(e.at) > k.ttl/roundDivisor {
			delete(k.earlyHints, effect)
		}
	}
}
