package core

import (
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/pkg/history"
)

// The gate's side. The owner of the partition that a gate's name falls into visits it while it has waiters or holders: the
// list of the partition has the times, as the schedule has them for instances. A visit repeats what may have been lost, and asks
// after the holders that no instance seems to use; see docs/decisions/0014.

const (
	// gateKept is how long a gate stays on its partition's list when it is idle: longer than any owner relies on having put it there.
	gateKept = 5 * time.Second
	// gatePace is the least time between two visits, where a rate lets one in every millisecond.
	gatePace = 5 * time.Millisecond
)

// visit is what the owner records of a gate of its partition.
type visit struct {
	busy       bool // a sweep is under way
	again      bool // and another is wanted
	known      bool // declared and version are the gate's
	declared   history.Declared
	version    uint64
	waiting    int // as counted in the gauges
	holding    int
	deadlocked bool
}

// visitGate visits a gate.
func (n *notices) visitGate(name string) {
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
	n.owner.emit(Effect{Kind: SweepGate, ID: name, Body: n.newPolicy(name, v)})
}

// gateSwept acts on what a visit has found.
func (n *notices) gateSwept(name string, got limit.SweepReply, err error) {
	v := n.visits[name] // a visit under way keeps its place
	if v == nil {
		return
	}
	v.busy = false
	if err != nil {
		n.owner.storeFailed("sweep of gate "+name, err) // the list has it still
		return
	}
	// A gate that is not there yet has no policy, and is not to be given one before who enters it.
	v.known = got.Version != 0 || got.Next != 0
	v.declared, v.version = got.Declared, got.Version
	n.count(name, v, got)
	n.notify(name, got.Granted, limit.Admitted, got.Now)
	var timedOut, cleared []limit.Member
	for _, away := range got.Rejected {
		if away.Cleared {
			cleared = append(cleared, away.Member)
		} else {
			timedOut = append(timedOut, away.Member)
		}
	}
	n.notify(name, timedOut, limit.TimedOut, got.Now)
	n.notify(name, cleared, limit.Cleared, got.Now)
	if len(got.Stale) > 0 {
		n.owner.emit(Effect{Kind: FindUnwanted, ID: name, Body: got})
	}
	switch {
	case v.again || got.More || n.newPolicy(name, v) != nil:
		n.visitGate(name)
	case got.Next != 0:
		n.owner.emit(Effect{Kind: RelistGate, ID: name, After: max(time.Duration(got.Next-got.Now)*time.Millisecond, gatePace)})
	case got.IdleFor > gateKept:
		delete(n.visits, name)
		n.owner.emit(Effect{Kind: UnlistGate, ID: name})
	default: // the list has it in two seconds
	}
}

// newPolicy is the policy in force, if the gate is known to have an older one.
func (n *notices) newPolicy(name string, v *visit) *limit.InForce {
	if !v.known {
		return nil
	}
	return n.owner.admission.policies.Newer(name, v.version, v.declared)
}

// unwantedFound sends the grant again to holders whose lease, kept slot, or instance, is not there: they take it up, or leave.
func (n *notices) unwantedFound(name string, found *UnwantedMembers, err error) {
	if err != nil {
		n.owner.storeFailed("holders of gate "+name, err)
		return
	}
	n.owner.met[CountGrantsAgain] += float64(len(found.Members))
	n.notify(name, found.Members, limit.Admitted, found.At)
}

// count keeps the gauges, and logs that a gate is deadlocked.
func (n *notices) count(name string, v *visit, got limit.SweepReply) {
	action := limit.Action(name)
	n.owner.countLimit(action, LimitCount{What: LimitWaiting, N: float64(got.Waiting - v.waiting)})
	n.owner.countLimit(action, LimitCount{What: LimitHolding, N: float64(got.Holding - v.holding)})
	v.waiting, v.holding = got.Waiting, got.Holding
	if got.Deadlocked && !v.deadlocked {
		n.owner.countLimit(action, LimitCount{What: LimitDeadlocked, N: 1})
		n.owner.log.Error("limit deadlocked", "gate", name,
			"waiting", got.Waiting, "holding", got.Holding)
	}
	v.deadlocked = got.Deadlocked
}

// forgetGates takes the gates of a tenure that ends out of the gauges.
func (n *notices) forgetGates() {
	for _, name := range sorted(n.visits) {
		v := n.visits[name]
		n.count(name, v, limit.SweepReply{})
	}
	clear(n.visits)
}

// gateRelisted visits the gate again when its place on the list is due.
func (n *notices) gateRelisted(due time.Duration, err error) {
	if err == nil { // else it is reconciled in two seconds
		n.owner.schedule.pollBy(n.owner.clock.wall.Add(due))
	}
}

// policiesChanged visits all gates that the owner has a visit of: their policy may have changed.
func (n *notices) policiesChanged(set *limit.Overrides) {
	n.owner.admission.policies.Set = set
	for _, name := range sorted(n.visits) {
		n.visitGate(name)
	}
}
