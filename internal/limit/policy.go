package limit

import (
	"slices"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// The levels of policies. ActionLevel, GroupLevel and PauseLevel are prefixes of the name of an action or group.
const (
	GlobalLevel = "global"
	ActionLevel = "action:"
	GroupLevel  = "group:"

	// PauseLevel is the level of the pause of an action. A pause admits no caller, and leaves the policy of the action otherwise
	// unchanged.
	PauseLevel = "pause:"
)

// InForce is the policy that limits an action, and its source. The zero value keeps the policy of the limit.
type InForce struct {
	Policy   history.Policy
	Level    string           // "action", "group" or "global"
	Version  uint64           // version of the Overrides that it was resolved with; the limit accepts no older one
	Declared history.Declared // declaration in the code, for resolving the policy again later
}

// Overrides are the policies set at run time. They are immutable; a nil *Overrides contains none.
type Overrides struct {
	Version  uint64                    // 0: no policy was ever set
	Policies map[string]history.Policy // by level: "action:charge-card", "group:payments", "global"
}

// Resolve returns the policy of the most specific level that has one: the action, its group, or all actions. At each level, a policy set
// at run time takes precedence over the declared one. A policy that limits nothing counts as a policy. ok is false if no level has a
// policy and the action is not paused.
func (o *Overrides) Resolve(action string, d history.Declared, global *history.Policy) (InForce, bool) {
	f := InForce{Declared: d}
	var policies map[string]history.Policy
	if o != nil {
		f.Version, policies = o.Version, o.Policies
	}
	set := func(level string) *history.Policy {
		if p, ok := policies[level]; ok {
			return &p
		}
		return nil
	}
	type step struct {
		level  string
		policy *history.Policy
	}
	steps := []step{{"action", set(ActionLevel + action)}, {"action", d.Action}}
	if d.Group != "" {
		steps = append(steps, step{"group", set(GroupLevel + d.Group)}, step{"group", d.GroupPolicy})
	}
	steps = append(steps, step{GlobalLevel, set(GlobalLevel)}, step{GlobalLevel, global})
	pause := set(PauseLevel + action)
	if i := slices.IndexFunc(steps, func(s step) bool { return s.policy != nil }); i >= 0 {
		f.Level, f.Policy = steps[i].level, *steps[i].policy
	} else if f.Level = "action"; pause == nil {
		return InForce{}, false
	}
	if pause != nil {
		p := &f.Policy
		p.Paused, p.PausedBy, p.PausedFor, p.PausedAt = true, pause.PausedBy, pause.PausedFor, pause.PausedAt
	}
	return f, true
}

// CheckPolicy returns an error for a policy that the level cannot have: a pause has no other fields, and no other level can be paused.
func CheckPolicy(level string, p history.Policy) error {
	only := p == history.Policy{Paused: true, PausedBy: p.PausedBy, PausedFor: p.PausedFor, PausedAt: p.PausedAt}
	none := !p.Paused && p.PausedBy == "" && p.PausedFor == "" && p.PausedAt == 0
	if pause := strings.HasPrefix(level, PauseLevel); pause && !only || !pause && !none {
		return &history.PolicyError{Field: "paused", Rule: "is the only field of a level pause:NAME, and of no other one"}
	}
	return nil
}
