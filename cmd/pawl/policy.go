package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/api"
	"github.com/pawlrun/pawl/internal/diagnose"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

type policyCmd struct {
	Set    policySetCmd    `cmd:"" help:"Set the limits of an action, a group or the whole namespace."`
	Apply  policyApplyCmd  `cmd:"" help:"Set the limits in a file of activities."`
	Get    policyGetCmd    `cmd:"" help:"Show the policy of a level."`
	List   policyListCmd   `cmd:"" help:"List the policies that are set."`
	Delete policyDeleteCmd `cmd:"" help:"Delete the policy of a level."`
}

// level is the level of a policy, as transport.CheckLevel requires it. A name alone is an action.
type level string

// UnmarshalText reads a level.
func (l *level) UnmarshalText(text []byte) error {
	*l = level(text)
	kind, name, named := strings.Cut(string(text), ":")
	if !named && kind != transport.LevelGlobal {
		kind, name = "action", kind
		*l = level("action:" + name)
	}
	if kind == "action" || kind == "group" {
		if err := pawl.ValidateName(name); err != nil {
			return errors.New(userMessage(err))
		}
	}
	if err := transport.CheckLevel(string(*l)); err != nil {
		return errors.New(userMessage(err))
	}
	return nil
}

// atLeastOne is a limit. It must not be 0, which would mean no limit.
type atLeastOne uint32

// UnmarshalText reads a limit.
func (a *atLeastOne) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("%q: must be 1 to %d; omit the flag for no limit", text, math.MaxInt32)
	}
	*a = atLeastOne(n)
	return nil
}

// keyPath is a path into the payload.
type keyPath string

// UnmarshalText reads a path, which Validate checks.
func (k *keyPath) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("must be a path such as customer.id; omit the flag for no key")
	}
	*k = keyPath(text)
	return nil
}

// per is a number per window, such as 100/1s.
type per struct {
	n      uint64
	window time.Duration
}

// UnmarshalText reads a number per window. A window without a number is one unit.
func (p *per) UnmarshalText(text []byte) error {
	number, window, _ := strings.Cut(string(text), "/")
	n, err := strconv.ParseUint(number, 10, 64)
	if window != "" && (window[0] < '0' || window[0] > '9') {
		window = "1" + window
	}
	d, err2 := time.ParseDuration(window)
	if err != nil || err2 != nil || n == 0 || d < time.Millisecond {
		return fmt.Errorf("%q: must be a number per window, such as 100/1s", text)
	}
	p.n, p.window = n, wholeMillis(d)
	return nil
}

// wholeMillis rounds up, as pawl.Rate does, so that the limit is not exceeded.
func wholeMillis(d time.Duration) time.Duration {
	if d > history.MaxWindow { // rejected by Validate
		return d
	}
	return time.Duration(timers.Millis(d)) * time.Millisecond
}

// queueTimeout is a duration, or forever.
type queueTimeout time.Duration

const forever queueTimeout = -1

// UnmarshalText reads a duration, or forever.
func (p *queueTimeout) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*p = forever
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < time.Millisecond {
		return fmt.Errorf("%q: must be a duration such as 1h, or forever", text)
	}
	*p = queueTimeout(wholeMillis(d))
	return nil
}

type policySetCmd struct {
	Level        level        `arg:"" help:"action:NAME (or only NAME), an activity or an orchestration; group:NAME; or global."`
	Concurrency  atLeastOne   `placeholder:"N" help:"Maximum number of concurrent calls."`
	Rate         per          `placeholder:"N/WINDOW" help:"Maximum number of starts in any window, such as 100/1s."`
	Quota        per          `placeholder:"N/WINDOW" help:"Maximum number of starts in a window that begins with the first start, such as 10000/24h."`
	Key          keyPath      `placeholder:"PATH" help:"Path into the payload, such as customer.id. Each value has limits of its own."`
	QueueLimit   atLeastOne   `placeholder:"N" help:"Maximum number of waiters; further calls fail. Default: 10000."`
	QueueTimeout queueTimeout `placeholder:"DURATION" help:"Maximum wait, after which a waiter fails, or forever. Default: 1h."`
	Reject       bool         `help:"Fail calls over the limit instead of letting them wait."`
	Unlimited    bool         `help:"Remove all limits, including those of the code and of less specific levels."`
	Reason       string       `placeholder:"TEXT" help:"Reason, which the orchestrator logs with the requester."`
	JSON         bool         `name:"json" help:"Write JSON."`
	connection   `group:"Connection"`
}

// Help is shown with the flags.
func (c *policySetCmd) Help() string {
	return "Replaces the previous policy of the level and overrides the code. Within a second it applies to the whole fleet, including waiters; holders are not affected. " +
		"Only the policy of the most specific level applies: action, group, global.\n\n" +
		"--unlimited removes all limits. \"pawl policy delete\" restores those of the code and of less specific levels."
}

// policy returns the policy that the flags describe.
func (c *policySetCmd) policy() client.Policy {
	p := client.Policy{
		Concurrency: uint32(c.Concurrency), RateWindow: c.Rate.window, Quota: c.Quota.n, QuotaWindow: c.Quota.window,
		Key: string(c.Key), QueueLimit: uint32(c.QueueLimit), QueueTimeout: time.Duration(c.QueueTimeout), Reject: c.Reject,
	}
	p.Rate = uint32(min(c.Rate.n, history.MaxRate+1)) // a rate that is too high does not become valid by an overflow
	if c.QueueTimeout < 0 {
		p.QueueTimeout = -1
	}
	return p
}

// Validate rejects invalid policies.
func (c *policySetCmd) Validate() error {
	if c.Rate.n > history.MaxRate {
		return fmt.Errorf("--rate %d/%s: at most %d per window; use a lower number and a shorter window", c.Rate.n, diagnose.Span(c.Rate.window), history.MaxRate)
	}
	p := c.policy()
	if bad, wrong := errors.AsType[*history.PolicyError](p.Validate()); wrong {
		return fmt.Errorf("--%s: %s", bad.Field, bad.Rule)
	}
	switch {
	case c.Unlimited && p != client.Policy{}:
		return errors.New("--unlimited excludes the other flags")
	case !c.Unlimited && !p.Limits():
		return errors.New("a policy needs --concurrency, --rate or --quota, or --unlimited; \"pawl policy delete\" removes it")
	}
	return nil
}

// Run sets the policy.
func (c *policySetCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	p := c.policy()
	if err := cl.SetPolicy(ctx, string(c.Level), p, client.Reason(c.Reason)); err != nil {
		return err
	}
	if name, isAction := strings.CutPrefix(string(c.Level), "action:"); isAction {
		warnUnknown(ctx, s, cl, name, c.JSON)
	}
	return s.answer(c.JSON, api.LevelPolicy{Level: string(c.Level), Policy: api.PolicyOf(p)}, "%s: %s", c.Level, diagnose.Policy(p))
}

// warnUnknown warns about an action that neither an orchestrator nor a connected worker registers: the name may be misspelled.
func warnUnknown(ctx context.Context, s streams, cl *client.Client, name string, asJSON bool) {
	known, err := cl.Orchestrations(ctx)
	if err != nil || slices.Contains(known, name) {
		return
	}
	workers, err := cl.Workers(ctx)
	if err != nil || slices.ContainsFunc(workers, func(w client.WorkerInfo) bool { return slices.Contains(w.Activities, name) }) {
		return
	}
	_ = s.warn(asJSON, "no orchestrator or connected worker registers %s", name)
}

type policyGetCmd struct {
	Level      level `arg:"" help:"action:NAME (or only NAME), group:NAME, or global."`
	JSON       bool  `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *policyGetCmd) Help() string {
	return "The policy that applies to an action can come from its code or another level: see \"pawl queue stats\"."
}

// Run shows a policy.
func (c *policyGetCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	all, err := cl.Policies(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(l client.LevelPolicy) bool { return l.Level == string(c.Level) })
	if i < 0 {
		return fmt.Errorf("no policy is set for %s: the code or a less specific level applies", c.Level)
	}
	if c.JSON {
		return writeJSON(s.out, api.LevelPolicyOf(all[i]))
	}
	return showPolicy(s.out, all[i])
}

type policyListCmd struct {
	JSON       bool `name:"json" help:"Write one JSON object per policy."`
	connection `group:"Connection"`
}

// Help is shown with the flags.
func (c *policyListCmd) Help() string {
	return "Policies of the code are not listed: \"pawl queue stats\" shows the one that applies to each limit."
}

// Run lists policies.
func (c *policyListCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	all, err := cl.Policies(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeLines(s.out, all, api.LevelPolicyOf)
	}
	t := &term.Table{Header: []string{"LEVEL", "POLICY"}, Fold: 2}
	for _, l := range all {
		describe := diagnose.Policy
		if l.Policy.Paused { // has no limits of its own
			describe = diagnose.Pause
		}
		t.Add(l.Level, describe(l.Policy))
	}
	return t.WriteOr(s.out, "No policy is set; those of the code apply.")
}

type policyDeleteCmd struct {
	Level      level  `arg:"" help:"action:NAME (or only NAME), group:NAME, or global."`
	Reason     string `placeholder:"TEXT" help:"Reason, which the orchestrator logs with the requester."`
	JSON       bool   `name:"json" help:"Write JSON."`
	connection `group:"Connection"`
}

// Run deletes a policy.
func (c *policyDeleteCmd) Run(ctx context.Context, s streams, cl *client.Client) error {
	if err := cl.DeletePolicy(ctx, string(c.Level), client.Reason(c.Reason)); err != nil {
		return err
	}
	return s.answer(c.JSON, map[string]any{"level": string(c.Level), "deleted": true}, "%s: deleted; the code or a less specific level applies again", c.Level)
}

func showPolicy(w io.Writer, l client.LevelPolicy) error {
	p := l.Policy
	f := &term.Fields{}
	f.Add("level", l.Level)
	if p.Paused {
		f.Add("state", diagnose.Pause(p))
		return f.Write(w)
	}
	if !p.Limits() {
		f.Add("limits", diagnose.NotLimited)
	}
	if p.Concurrency > 0 {
		f.Add("concurrency", p.Concurrency)
	}
	if p.Rate > 0 {
		f.Add("rate", diagnose.Rate(p))
	}
	if p.Quota > 0 {
		f.Add("quota", diagnose.Quota(p))
	}
	f.AddText("key", p.Key)
	if p.Limits() {
		f.Add("at the limit", diagnose.WhenLimited(p))
	}
	return f.Write(w)
}
