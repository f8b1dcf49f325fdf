package pawltest

import (
	"errors"
	"maps"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// PauseAction stops the admission of calls of an activity, or of starts of an orchestration, until ResumeAction. Calls that were admitted
// continue. Callers wait at the limit of the action for at most its maximum wait, or one hour if it has none.
func (m Moment) PauseAction(a Named) {
	m.SetPolicy(limit.PauseLevel+a.Name(), history.Policy{Paused: true})
}

// ResumeAction ends the pause of an action. Its waiters are admitted in order, as its policy allows.
func (m Moment) ResumeAction(a Named) { m.DeletePolicy(limit.PauseLevel + a.Name()) }

// SetPolicy sets a policy at run time, which overrides the code. The level is that of an action (action:NAME), of a group of actions
// (group:NAME), or of all actions (global).
func (m Moment) SetPolicy(level string, p history.Policy) {
	m.policies(level, func(set map[string]history.Policy) error {
		set[level] = p
		return errors.Join(p.Validate(), limit.CheckPolicy(level, p))
	})
}

// DeletePolicy removes a policy that SetPolicy has set.
func (m Moment) DeletePolicy(level string) {
	m.policies(level, func(set map[string]history.Policy) error {
		delete(set, level)
		return nil
	})
}

// ClearQueue rejects all waiters of an action, or of one value of its key, with ErrQueueCleared.
func (m Moment) ClearQueue(a Named, key string) {
	m.add(func() {
		name := limit.Name(a.Name(), key)
		m.e.part.Limits.Clear(name, m.e.part.Now)
		m.e.part.post(core.Message{Kind: core.LimitDue, ID: name})
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

// RetryFromStart makes an instance that has failed or was cancelled, possibly after Run, start again with its input.
func (m Moment) RetryFromStart(by, text string) {
	m.operate(history.VerbRetry, by, text, message.Operate{Start: true})
}
