package orchestrator

import (
	"time"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/history"
)

// The gate's side. The owner of the partition that a gate's name falls into visits it while anybody waits or holds: the
// list of the partition says when, as the agenda does for instances. A visit says again what may have been lost, and asks
// after the holders whom nobody seems to want; see docs/decisions/0014.

const (
	// gateKept is how long a gate stays on its partition's list when it is idle: longer than anybody relies on having put it there.
	gateKept = 5 * time.Second
	// gatePace is the least time between two visits, where a rate lets one in every millisecond.
	gatePace = 5 * time.Millisecond
)

// visit is what the actor knows of a gate of its partition.
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

// lookGate visits a gate.
func (a *actor) lookGate(name string) {
	v := a.visits[name]
	if v == nil {
		v = &visit{}
		a.visits[name] = v
	}
	if v.busy {
		v.again = true
		return
	}
	if a.leaving || a.err != nil {
		return
	}
	v.busy, v.again = true, false
	a.emit(effect{kind: sweepGate, id: name, body: &sweepRequest{visit: v, policy: a.newPolicy(name, v)}})
}

func (a *actor) gateSwept(name string, got *gateSweep, err error) {
	v := got.visit
	v.busy = false
	switch {
	case a.visits[name] != v:
	case err != nil:
		a.failed("sweep of gate "+name, err) // the list has it still
	default:
		a.swept(name, v, got.swept)
	}
}

// newPolicy is the policy in force, if the gate is known to have an older one.
func (a *actor) newPolicy(name string, v *visit) *limiter.InForce {
	if !v.known {
		return nil
	}
	return a.policies.newer(name, v.version, v.declared)
}

// swept acts on what a visit has found.
func (a *actor) swept(name string, v *visit, got limiter.SweepReply) {
	// A gate that is not there yet has no policy, and is not to be given one before who enters it.
	v.known = got.Version != 0 || got.Next != 0
	v.declared, v.version = got.Declared, got.Version
	if got.Version > 0 {
		a.policies.saw(got.Version - 1) // see resolve
	}
	a.count(name, v, got)
	a.spread(name, got.Granted, limiter.Admitted, got.Now)
	var timedOut, cleared []limiter.Member
	for _, away := range got.Rejected {
		if away.Cleared {
			cleared = append(cleared, away.Member)
		} else {
			timedOut = append(timedOut, away.Member)
		}
	}
	a.spread(name, timedOut, limiter.TimedOut, got.Now)
	a.spread(name, cleared, limiter.Cleared, got.Now)
	if len(got.Stale) > 0 {
		a.emit(effect{kind: findUnwanted, id: name, body: got})
	}
	switch {
	case v.again || got.More || a.newPolicy(name, v) != nil:
		a.lookGate(name)
	case got.Next != 0:
		a.emit(effect{kind: relistGate, id: name, after: max(time.Duration(got.Next-got.Now)*time.Millisecond, gatePace)})
	case got.IdleFor > gateKept:
		delete(a.visits, name)
		a.emit(effect{kind: unlistGate, id: name})
	default: // the list has it in two seconds
	}
}

// unwantedFound sends the grant again to holders whose lease, kept slot, or instance, is not there: they take it up, or leave.
func (a *actor) unwantedFound(name string, found *unwantedMembers, err error) {
	if err != nil {
		a.failed("holders of gate "+name, err)
		return
	}
	a.met.grantsAgain.Add(float64(len(found.members)))
	a.spread(name, found.members, limiter.Admitted, found.at)
}

// count keeps the gauges, and says when a gate is deadlocked, or no longer is.
func (a *actor) count(name string, v *visit, got limiter.SweepReply) {
	action := limiter.Action(name)
	a.met.gateWaiting.WithLabelValues(action).Add(float64(got.Waiting - v.waiting))
	a.met.gateHolding.WithLabelValues(action).Add(float64(got.Holding - v.holding))
	v.waiting, v.holding = got.Waiting, got.Holding
	if got.Deadlocked && !v.deadlocked {
		a.met.deadlocks.WithLabelValues(action).Inc()
		a.log.Error("a gate is deadlocked: every holder waits for somebody in its queue; raise the limit, or cancel one of them", "gate", name,
			"waiting", got.Waiting, "holding", got.Holding)
	}
	v.deadlocked = got.Deadlocked
}

// forgetGates takes the gates of a tenure that ends out of the gauges.
func (a *actor) forgetGates() {
	for name, v := range a.visits {
		a.count(name, v, limiter.SweepReply{})
	}
	clear(a.visits)
}

// lookAtGates visits all gates that the actor knows: their policy may have changed.
func (a *actor) lookAtGates() {
	for name := range a.visits {
		a.lookGate(name)
	}
}
