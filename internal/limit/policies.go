package limit

import "github.com/pawlrun/pawl/pkg/history"

// Policies are the policies set at run time, and the default policy of all actions.
type Policies struct {
	Set    *Overrides
	Global *history.Policy // declared for all actions; nil: none
}

// For returns the policy of an action; ok is false if it has none. Only new entries pass a policy; all other requests keep the policy of
// the limit.
func (p Policies) For(action string, d history.Declared) (InForce, bool) {
	if len(p.Set.Policies) == 0 && p.Global == nil && d == (history.Declared{}) { // the common case
		return InForce{}, false
	}
	return p.Resolve(action, d)
}

// Resolve returns the policy in force. ok is false if there is none; the result then limits nothing.
func (p Policies) Resolve(action string, d history.Declared) (InForce, bool) {
	o := p.Set
	f, ok := o.Resolve(action, d, p.Global)
	f.Version, f.Declared = o.Version+1, d // version 0 belongs to limits without a policy
	if !ok {
		f.Level = "none"
	}
	return f, ok
}

// Newer returns the policy in force for a limit whose policy has the version, or nil unless it is newer.
func (p Policies) Newer(name string, version uint64, d history.Declared) *InForce {
	if version > p.Set.Version {
		return nil
	}
	f, _ := p.Resolve(Action(name), d) // without a policy, nothing is limited
	return &f
}
