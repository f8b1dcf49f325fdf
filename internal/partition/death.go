package partition

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
)

// suspicious is for how long a member is silent before it is looked for: it has missed a heartbeat at least.
func (k *Keeper) suspicious() time.Duration { return 2 * k.cfg.Renew }

// bury returns the members that are not dead, and looks for those that are suspected. See the package's doc.
func (k *Keeper) bury(ctx context.Context, living []Member) []Member {
	if k.cfg.Gone == nil {
		return living
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	silent := make(map[string]bool)
	for _, m := range living {
		if m.Name == k.cfg.Member || m.Silent < k.suspicious() {
			continue
		}
		silent[m.Name] = true
		if _, known := k.deaths[m.Name]; !known && ctx.Err() == nil {
			k.deaths[m.Name] = false
			k.actors.Go(func() { k.lookFor(ctx, m.Name) })
		}
	}
	maps.DeleteFunc(k.deaths, func(name string, dead bool) bool { return dead && !silent[name] })
	return slices.DeleteFunc(living, func(m Member) bool { return k.deaths[m.Name] })
}

// lookFor asks NATS for a member that is suspected, and once more in case it is just connecting again.
func (k *Keeper) lookFor(ctx context.Context, member string) {
	dead := k.cfg.Gone(ctx, member) && outage.Pause(ctx, k.cfg.Renew/4) && k.cfg.Gone(ctx, member)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !dead {
		delete(k.deaths, member)
		return
	}
	k.deaths[member] = true
	k.cfg.Logger.Info("orchestrator has died, taking its partitions", "member", member)
	k.hurry()
}

// dead reports whether the owner of a partition is a member that has died. One of this member's name that this process does not know of
// was an earlier process.
func (k *Keeper) dead(member string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return member == k.cfg.Member || k.deaths[member]
}

// nextDeath returns in how long a member that is silent is suspected, or is dead for all: nothing else reports it.
func (k *Keeper) nextDeath(living []Member) time.Duration {
	next := k.cfg.TTL
	for _, m := range living {
		next = min(next, k.cfg.TTL-m.Silent)
		if left := k.suspicious() - m.Silent; left > 0 && left < k.cfg.Renew*3/4 { // one whose heartbeat is due with the next round is not late
			next = min(next, left)
		}
	}
	return next
}
