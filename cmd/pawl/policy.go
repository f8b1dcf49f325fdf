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
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

type policyCmd struct {
	Set    policySetCmd    `cmd:"" help:"Limit an action, a group or everything, from now on."`
	Get    policyGetCmd    `cmd:"" help:"Show the policy that was set for a level."`
	List   policyListCmd   `cmd:"" help:"List the policies that were set."`
	Delete policyDeleteCmd `cmd:"" help:"Take back the policy that was set for a level."`
}

// level is what a policy is for, as queue.CheckLevel wants it. A bare name is an action.
type level string

// UnmarshalText reads a level.
func (l *level) UnmarshalText(text []byte) error {
	*l = level(text)
	kind, name, named := strings.Cut(string(text), ":")
	if !named && kind != queue.LevelGlobal {
		kind, name = "action", kind
		*l = level("action:" + name)
	}
	if kind == "action" || kind == "group" {
		if err := pawl.ValidateName(name); err != nil {
			return errors.New(spoken(err))
		}
	}
	if err := queue.CheckLevel(string(*l)); err != nil {
		return errors.New(spoken(err))
	}
	return nil
}

// atLeastOne is a limit: 0 would be none, which nobody means who writes it.
type atLeastOne uint32

// UnmarshalText reads it.
func (a *atLeastOne) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("%q: want a number from 1 to %d; what is not limited is left out", text, math.MaxInt32)
	}
	*a = atLeastOne(n)
	return nil
}

// keyPath is a path into the payload.
type keyPath string

// UnmarshalText reads it. What is wrong with a path besides, Validate says.
func (k *keyPath) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("want a path such as customer.id; without a key the flag is left out")
	}
	*k = keyPath(text)
	return nil
}

// per is a number in a window, such as 100/1s.
type per struct {
	n      uint64
	window time.Duration
}

// UnmarshalText reads it. A window without a number is one of its unit.
func (p *per) UnmarshalText(text []byte) error {
	number, window, _ := strings.Cut(string(text), "/")
	n, err := strconv.ParseUint(number, 10, 64)
	if window != "" && (window[0] < '0' || window[0] > '9') {
		window = "1" + window
	}
	d, err2 := time.ParseDuration(window)
	if err != nil || err2 != nil || n == 0 || d < time.Millisecond {
		return fmt.Errorf("%q: want a number in a window, such as 100/1s", text)
	}
	p.n, p.window = n, wholeMillis(d)
	return nil
}

// wholeMillis rounds up, as pawl.Rate does: a limit that was meant is not exceeded.
func wholeMillis(d time.Duration) time.Duration {
	if d > history.MaxWindow { // it is refused
		return d
	}
	return time.Duration(history.Millis(d)) * time.Millisecond
}

// patience is a queue timeout: a duration, or forever.
type patience time.Duration

const forEver patience = -1

// UnmarshalText reads it.
func (p *patience) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*p = forEver
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < time.Millisecond {
		return fmt.Errorf("%q: want a duration such as 1h, or forever", text)
	}
	*p = patience(wholeMillis(d))
	return nil
}

type policySetCmd struct {
	Level        level      `arg:"" help:"action:NAME (or only NAME), an activity or an orchestration; group:NAME; or global."`
	Concurrency  atLeastOne `placeholder:"N" help:"At most so many at a time."`
	Rate         per        `placeholder:"N/WINDOW" help:"At most so many in any window, such as 100/1s."`
	Quota        per        `placeholder:"N/WINDOW" help:"At most so many in a window that begins with the first of them, such as 10000/24h."`
	Key          keyPath    `placeholder:"PATH" help:"Path into the payload, such as customer.id: each value of it has a queue and limits of its own."`
	QueueLimit   atLeastOne `placeholder:"N" help:"At most so many wait; who comes then fails. Default: 10000."`
	QueueTimeout patience   `placeholder:"DURATION" help:"Who has waited so long fails; or: forever. Default: 1h."`
	Reject       bool       `help:"Who would have to wait fails."`
	JSON         bool       `name:"json" help:"Write JSON."`
	reach        `group:"Connection"`
}

// Help is shown with the flags.
func (c *policySetCmd) Help() string {
	return "It replaces the policy that was set for the level before, stands above what the code says for it, and is in force everywhere within a second, also for those " +
		"who wait; nobody who was let in is thrown out. The most specific level that has a policy is in force, as a whole: action, group, global.\n\n" +
		"Without --concurrency, --rate and --quota the level is not limited, whatever its code and the levels below it say. \"pawl policy delete\" is something else: " +
		"then what they say is in force again."
}

// policy is what the flags say.
func (c *policySetCmd) policy() client.Policy {
	p := client.Policy{
		Concurrency: uint32(c.Concurrency), RateWindow: c.Rate.window, Quota: c.Quota.n, QuotaWindow: c.Quota.window,
		Key: string(c.Key), QueueLimit: uint32(c.QueueLimit), QueueTimeout: time.Duration(c.QueueTimeout), Reject: c.Reject,
	}
	p.Rate = uint32(min(c.Rate.n, history.MaxRate+1)) // more than may be stays so, and is refused
	if c.QueueTimeout < 0 {
		p.QueueTimeout = -1
	}
	return p
}

// Validate refuses what makes no sense.
func (c *policySetCmd) Validate() error {
	if c.Rate.n > history.MaxRate {
		return fmt.Errorf("--rate %d/%s: at most %d in a window; take fewer in a shorter one", c.Rate.n, diagnose.Span(c.Rate.window), history.MaxRate)
	}
	p := c.policy()
	if bad, wrong := errors.AsType[*history.PolicyError](p.Validate()); wrong {
		return fmt.Errorf("--%s: %s", bad.Field, bad.Rule)
	}
	if !p.Limits() && p != (client.Policy{}) {
		return errors.New("--key, --queue-limit, --queue-timeout and --reject limit nothing by themselves: a policy replaces the other one whole; say --concurrency, --rate or --quota with them")
	}
	return nil
}

// Run sets the policy.
func (c *policySetCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	p := c.policy()
	if err := cl.SetPolicy(ctx, string(c.Level), p); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, api.LevelPolicy{Level: string(c.Level), Policy: api.PolicyOf(p)})
	}
	_, err = fmt.Fprintf(s.out, "%s: %s\n", c.Level, diagnose.Policy(p))
	return err
}

// policies reads those that were set.
func (r reach) policies(ctx context.Context, s streams) ([]client.LevelPolicy, error) {
	cl, done, err := r.client(ctx, s)
	if err != nil {
		return nil, err
	}
	defer done()
	return cl.Policies(ctx)
}

type policyGetCmd struct {
	Level level `arg:"" help:"action:NAME (or only NAME), group:NAME, or global."`
	JSON  bool  `name:"json" help:"Write JSON."`
	reach `group:"Connection"`
}

// Help is shown with the flags.
func (c *policyGetCmd) Help() string {
	return "What is in force for an action may come from its code or from another level: \"pawl queue stats\" shows it."
}

// Run shows a policy.
func (c *policyGetCmd) Run(ctx context.Context, s streams) error {
	all, err := c.policies(ctx, s)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(l client.LevelPolicy) bool { return l.Level == string(c.Level) })
	if i < 0 {
		return fmt.Errorf("no policy was set for %s: what its code says is in force, or a less specific level", c.Level)
	}
	if c.JSON {
		return writeJSON(s.out, api.LevelPolicyOf(all[i]))
	}
	return showPolicy(s.out, all[i])
}

type policyListCmd struct {
	JSON  bool `name:"json" help:"Write JSON, a policy a line."`
	reach `group:"Connection"`
}

// Help is shown with the flags.
func (c *policyListCmd) Help() string {
	return "What the code declares is not among them: \"pawl queue stats\" shows for each queue what is in force."
}

// Run lists policies.
func (c *policyListCmd) Run(ctx context.Context, s streams) error {
	all, err := c.policies(ctx, s)
	if err != nil {
		return err
	}
	if c.JSON {
		for _, l := range all {
			if err := writeJSON(s.out, api.LevelPolicyOf(l)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 && term.Interactive(s.out) {
		_, err := fmt.Fprintln(s.out, "No policy has been set; what the code says is in force.")
		return err
	}
	t := &term.Table{Header: []string{"LEVEL", "POLICY"}, Fold: 2}
	for _, l := range all {
		t.Add(l.Level, diagnose.Policy(l.Policy))
	}
	return t.Write(s.out)
}

type policyDeleteCmd struct {
	Level level `arg:"" help:"action:NAME (or only NAME), group:NAME, or global."`
	JSON  bool  `name:"json" help:"Write JSON."`
	reach `group:"Connection"`
}

// Run deletes a policy.
func (c *policyDeleteCmd) Run(ctx context.Context, s streams) error {
	cl, done, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	if err := cl.DeletePolicy(ctx, string(c.Level)); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, map[string]any{"level": string(c.Level), "deleted": true})
	}
	_, err = fmt.Fprintf(s.out, "%s: deleted; what its code says is in force again, or a less specific level\n", c.Level)
	return err
}

func showPolicy(w io.Writer, l client.LevelPolicy) error {
	p := l.Policy
	f := &term.Fields{}
	f.Add("level", l.Level)
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
	if p.Key != "" {
		f.Add("key", p.Key)
	}
	if p.Limits() {
		f.Add("when limited", diagnose.WhenLimited(p))
	}
	return f.Write(w)
}
