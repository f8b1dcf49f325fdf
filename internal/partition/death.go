package partition

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/outage"
)

// suspectAfter returns how long a member must be silent to be suspected: it has missed at least one heartbeat.
func (k *Keeper) suspectAfter() time.Duration { return 2 * k.cfg.Renew }

// withoutDead returns the members that are not dead, and starts to probe those that it suspects. See the package documentation.
func (k *Keeper) withoutDead(ctx context.Context, living []Member) []Member {
	if k.cfg.Gone == nil {
		return living
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	silent := make(map[string]bool)
	for _, m := range living {
		if m.Name == k.cfg.Member || m.Silent < k.suspectAfter() {
			continue
		}
		silent[m.Name] = true
		if _, known := k.deaths[m.Name]; !known && ctx.Err() == nil {
			k.deaths[m.Name] = false
			k.actors.Go(func() { k.probe(ctx, m.Name) })
		}
	}
	maps.DeleteFunc(k.deaths, func(name string, dead bool) bool { return dead && !silent[name] })
	return slices.DeleteFunc(living, func(m Member) bool { return k.deaths[m.Name] })
}

// probe checks in NATS whether a suspected member is gone, twice, because the member may be reconnecting.
func (k *Keeper) probe(ctx context.Context, member string) {
	dead := k.cfg.Gone(ctx, member) && outage.Sleep(ctx, k.cfg.Renew/4) && k.cfg.Gone(ctx, member)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !dead {
		delete(k.deaths, member)
		return
	}
	k.deaths[member] = true
	k.cfg.Logger.Info("orchestrator has died, taking its partitions", "member", member)
	k.startRound()
}

// dead reports whether the owner of a partition has died. An owner with the name of this member, whose ownership this process does not
// hold, was an earlier process.
func (k *Keeper) dead(member string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return member == k.cfg.Member || k.deaths[member]
}

// nextDeath returns the time until the next silent member is suspected, or its TTL expires. No notice reports either.
func (k *Keeper) nextDeath(living []Member) time.Duration {
	next := k.cfg.TTL
	for _, m := range living {
		next = min(next, k.cfg.TTL-m.Silent)
		if left := k.suspectAfter() - m.Silent; left > 0 && left < k.cfg.Renew*3/4 { // otherwise its heartbeat is not late yet
			next = min(next, left)
		}
	}
	return next
}
