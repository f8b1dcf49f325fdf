package pawltest

import (
	"errors"
	"maps"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// PauseAction has no call of an activity, or start of an orchestration, admitted until ResumeAction. What has been admitted goes on. Callers
// wait at the limit of the action, under its maximum wait: one hour if it has none.
func (m Moment) PauseAction(a Named) {
	m.SetPolicy(limit.PauseLevel+a.Name(), history.Policy{Paused: true})
}

// ResumeAction ends the pause of an action: its waiters are admitted in their order, as its policy allows.
func (m Moment) ResumeAction(a Named) { m.DeletePolicy(limit.PauseLevel + a.Name()) }

// SetPolicy sets a policy at run time, in place of what the code declares: of an action (level action:NAME), of a group of actions
// (group:NAME), or of all (global).
func (m Moment) SetPolicy(level string, p history.Policy) {
	m.policies(level, func(set map[string]history.Policy) error {
		set[level] = p
		return errors.Join(p.Validate(), limit.CheckPolicy(level, p))
	})
}

// DeletePolicy deletes what SetPolicy has set.
func (m Moment) DeletePolicy(level string) {
	m.policies(level, func(set map[string]history.Policy) error {
		delete(set, level)
		return nil
	})
}

// ClearQueue rejects all that wait for an action, or for one value of its key, with ErrQueueCleared.
func (m Moment) ClearQueue(a Named, key string) {
	m.add(func() {
		name := limit.Name(a.Name(), key)
		m.e.part.Limits.Clear(name, m.e.part.Now)
		m.e.part.post(core.Message{Kind: core.GateDue, ID: name})
	})
}

func (m Moment) policies(level string, change func(map[string]history.Policy) error) {
	m.add(func() {
		set := map[string]history.Policy{}
		maps.Copy(set, m.e.policies.Policies)
		if err := change(set); err != nil {
			m.e.fatalf("policy of %s: %v", level, err)
		}
		m.e.policies = &limit.Overrides{Version: m.e.policies.Version + 1, Policies: set}
		m.e.part.post(core.Message{Kind: core.PoliciesChanged, Body: m.e.policies})
	})
}

// RetryFromStart has an instance that has failed or was cancelled, which may be after Run, start again with its input.
func (m Moment) RetryFromStart(by, text string) {
	m.operate(history.VerbRetry, by, text, message.Operate{Start: true})
}
