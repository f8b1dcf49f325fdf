package limit

import "github.com/pawlrun/pawl/pkg/history"

// Policies are those that are set at run time, and the one of every action without one.
type Policies struct {
	Set    *Overrides
	Global *history.Policy // nil: none
}

// For finds the policy for an action; false: it has none. Only what enters anew brings one; all others leave the gate's own.
func (p Policies) For(action string, d history.Declared) (InForce, bool) {
	if len(p.Set.Policies) == 0 && p.Global == nil && d == (history.Declared{}) { // as most
		return InForce{}, false
	}
	return p.Resolve(action, d)
}

// Resolve gives the policy that is in force now; one that limits nothing, if there is none.
func (p Policies) Resolve(action string, d history.Declared) (InForce, bool) {
	o := p.Set
	f, ok := o.Resolve(action, d, p.Global)
	f.Version, f.Declared = o.Version+1, d // 0 is for what has none
	if !ok {
		f.Level = "none"
	}
	return f, ok
}

// Newer is the policy in force for a gate, if it is newer than that version of it.
func (p Policies) Newer(gate string, version uint64, d history.Declared) *InForce {
	if version > p.Set.Version {
		return nil
	}
	f, _ := p.Resolve(Action(gate), d) // none: nothing is limited any more
	return &f
}
