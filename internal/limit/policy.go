package limit

import (
	"slices"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// The levels of policies. Those of actions and groups are followed by the name.
const (
	GlobalLevel = "global"
	ActionLevel = "action:"
	GroupLevel  = "group:"

	// PauseLevel is that of the pause of an action, which changes nothing of its policy but that no one is admitted.
	PauseLevel = "pause:"
)

// InForce is the policy that limits an action, and its source. The zero value changes nothing: the policy of the limit stands.
type InForce struct {
	Policy   history.Policy
	Level    string           // "action", "group" or "global"
	Version  uint64           // of the Overrides that it was resolved with: the limit accepts no older one
	Declared history.Declared // declaration of the code, for resolving the policy again later
}

// Overrides are the policies that were set at run time. Nil has none. It is immutable.
type Overrides struct {
	Version  uint64                    // 0: none was ever set
	Policies map[string]history.Policy // by level: "action:charge-card", "group:payments", "global"
}

// Resolve finds the policy of the most specific level that has one: the action, its group, all. At each level, one that was set
// at run time takes precedence over that of the code. A policy that limits nothing counts, too. It reports false if no level has
// any, and the action is not paused.
func (o *Overrides) Resolve(action string, d history.Declared, global *history.Policy) (InForce, bool) {
	f := InForce{Declared: d}
	set := func(string) *history.Policy { return nil }
	if o != nil {
		f.Version = o.Version
		set = func(level string) *history.Policy {
			if p, ok := o.Policies[level]; ok {
				return &p
			}
			return nil
		}
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

// CheckPolicy returns an error for a policy that the level cannot have: a pause has nothing else, and no other level has one.
func CheckPolicy(level string, p history.Policy) error {
	only := p == history.Policy{Paused: true, PausedBy: p.PausedBy, PausedFor: p.PausedFor, PausedAt: p.PausedAt}
	none := !p.Paused && p.PausedBy == "" && p.PausedFor == "" && p.PausedAt == 0
	if pause := strings.HasPrefix(level, PauseLevel); pause && !only || !pause && !none {
		return &history.PolicyError{Field: "paused", Rule: "is the only field of a level pause:NAME, and of no other one"}
	}
	return nil
}
