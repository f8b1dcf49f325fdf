package core

import (
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/pkg/history"
)

// The limit's side. The owner of the partition that a limit's name hashes to visits the limit while it has waiters or holders. The
// wakeups of limits are a sorted set of the partition, like those of instances. A visit sweeps the limit: it repeats notices that may have
// been lost, and verifies holders that no instance seems to use; see docs/decisions/0014.

const (
	// limitTTL is the time for which an idle limit keeps its wakeups: longer than any owner relies on having scheduled one.
	limitTTL = 5 * time.Second
	// limitPace is the minimum time between two visits, even if a rate admits a waiter every millisecond.
	limitPace = 5 * time.Millisecond
)

// visit is the owner's state of a limit of its partition.
type visit struct {
	busy       bool // a sweep is outstanding
	again      bool // another sweep must follow
	known      bool // declared and version are those of the limit
	declared   history.Declared
	version    uint64
	waiting    int // as counted in the gauges
	holding    int // as counted in the gauges
	deadlocked bool
}

// visitLimit sweeps a limit.
func (n *notices) visitLimit(name string) {
	v := n.visits[name]
	if v == nil {
		v = &visit{}
		n.visits[name] = v
	}
	if v.busy {
		v.again = true
		return
	}
	if n.owner.leaving || n.owner.err != nil {
		return
	}
	v.busy, v.again = true, false
	n.owner.emit(Effect{Kind: SweepLimit, ID: name, Body: n.newPolicy(name, v)})
}

// limitSwept acts on the result of a sweep.
func (n *notices) limitSwept(name string, got limit.SweepReply, err error) {
	v := n.visits[name]
	if v == nil {
		return
	}
	v.busy = false
	if err != nil {
		n.owner.storeFailed("sweep of limit "+name, err) // its wakeup stays scheduled
		return
	}
	// A limit that does not exist yet has no policy; the first call that enters it writes one.
	v.known = got.Version != 0 || got.Next != 0
	v.declared, v.version = got.Declared, got.Version
	n.count(name, v, got)
	n.notify(name, got.Granted, limit.Admitted, got.Now)
	var timedOut, cleared []limit.Member
	for _, r := range got.Rejected {
		if r.Cleared {
			cleared = append(cleared, r.Member)
		} else {
			timedOut = append(timedOut, r.Member)
		}
	}
	n.notify(name, timedOut, limit.TimedOut, got.Now)
	n.notify(name, cleared, limit.Cleared, got.Now)
	if len(got.Stale) > 0 {
		n.owner.emit(Effect{Kind: FindUnwanted, ID: name, Body: got})
	}
	switch {
	case v.again || got.More || n.newPolicy(name, v) != nil:
		n.visitLimit(name)
	case got.Next != 0:
		n.owner.emit(Effect{Kind: RescheduleLimit, ID: name, After: max(time.Duration(got.Next-got.Now)*time.Millisecond, limitPace)})
	case got.IdleFor > limitTTL:
		delete(n.visits, name)
		n.owner.emit(Effect{Kind: UnlistLimit, ID: name})
	default: // its wakeup is due in two seconds
	}
}

// newPolicy returns the policy in force, if the limit is known to have an older one; nil otherwise.
func (n *notices) newPolicy(name string, v *visit) *limit.InForce {
	if !v.known {
		return nil
	}
	return n.owner.admission.policies.Newer(name, v.version, v.declared)
}

// unwantedFound repeats the grant to holders without a lease, a retained slot or an instance: they use it, or leave.
func (n *notices) unwantedFound(name string, found *UnwantedMembers, err error) {
	if err != nil {
		n.owner.storeFailed("holders of limit "+name, err)
		return
	}
	n.owner.met[CountGrantsAgain] += float64(len(found.Members))
	n.notify(name, found.Members, limit.Admitted, found.At)
}

// count updates the gauges, and logs a deadlock.
func (n *notices) count(name string, v *visit, got limit.SweepReply) {
	action := limit.Action(name)
	n.owner.countLimit(action, LimitCount{What: LimitWaiting, N: float64(got.Waiting - v.waiting)})
	n.owner.countLimit(action, LimitCount{What: LimitHolding, N: float64(got.Holding - v.holding)})
	v.waiting, v.holding = got.Waiting, got.Holding
	if got.Deadlocked && !v.deadlocked {
		n.owner.countLimit(action, LimitCount{What: LimitDeadlocked, N: 1})
		n.owner.log.Error("limit deadlocked", "limit", name,
			"waiting", got.Waiting, "holding", got.Holding)
	}
	v.deadlocked = got.Deadlocked
}

// resetLimitGauges removes the limits of a tenure that ends from the gauges.
func (n *notices) resetLimitGauges() {
	for _, name := range sorted(n.visits) {
		v := n.visits[name]
		n.count(name, v, limit.SweepReply{})
	}
	clear(n.visits)
}

// limitRescheduled brings the next poll forward to the new wakeup of a limit.
func (n *notices) limitRescheduled(due time.Duration, err error) {
	if err == nil { // otherwise its old wakeup is due in two seconds
		n.owner.schedule.pollBy(n.owner.clock.wall.Add(due))
	}
}

// policiesChanged sweeps all limits that the owner visits: their policy may have changed.
func (n *notices) policiesChanged(set *limit.Overrides) {
	n.owner.admission.policies.Set = set
	for _, name := range sorted(n.visits) {
		n.visitLimit(name)
	}
}
