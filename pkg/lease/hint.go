package lease

import (
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Hint is news of a deleted lease, from whoever deleted it. It may be forged:
// it makes the keeper ask, and gives the words for a cancellation that the answer confirms.
type Hint struct {
	Instance string
	Effect   string
	Cause    cancel.Cancelled
}

// early is a hint about a lease that is not kept, perhaps not yet: the claim's answer may
// still be on its way. It is remembered until the next round would find out by itself.
type earlyHint struct {
	hint Hint
	at   time.Time
}

const maxEarlyHints = 4096 // more are ignored: they may be forged

// Hint makes the keeper ask about these leases at once. Those it does not hold are
// remembered for a moment: the claim may have been answered and the Hold not be there yet.
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

// remind gives a lease the hint that came before it was kept, and reports whether there was one. The lock is held.
func (k *Keeper) applyEarlyHint(h *Hold) bool {
	e, ok := k.earlyHints[h.Effect]
	if !ok || e.hint.Instance != h.Instance {
		return false
	}
	delete(k.earlyHints, h.Effect)
	h.hint, h.hintedAt, h.renewAt = &e.hint.Cause, e.at, time.Now()
	return true
}

// forget drops hints about leases that never came to be kept.
func (k *Keeper) dropEarlyHints(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for effect, e := range k.earlyHints {
		if now.Sub(e.at) > k.ttl/roundDivisor {
			delete(k.earlyHints, effect)
		}
	}
}
