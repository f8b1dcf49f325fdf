package pawl

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// ErrBadLimit is a limit that makes no sense. errors.As with *LimitError tells which.
var ErrBadLimit = errors.New("pawl: bad limit")

// LimitError is an option that limits an action in a way that makes no sense. It matches ErrBadLimit.
type LimitError struct {
	Option string // as it was written: "Concurrency(0)"
	Rule   string // what is allowed
}

// Error says what was written and what is allowed.
func (e *LimitError) Error() string { return fmt.Sprintf("%v %s: %s", ErrBadLimit, e.Option, e.Rule) }

// Unwrap gives ErrBadLimit.
func (e *LimitError) Unwrap() error { return ErrBadLimit }

// LimitOption is an option of NewActivity, of NewOrchestration and of Group: Concurrency, Rate, Quota, KeyBy, QueueLimit,
// QueueTimeout, Reject. Together those of a handle are its policy, which holds for the whole fleet: whoever calls the
// action when there is no room waits, durably and in strict order of arrival, before an activity is given to a
// worker, or before the first line of an orchestration is run. A slot is held from then on to the end, whatever that is.
//
// One level is in force at a time: the policy of the action itself, or else that of its Group, or else the global one. At
// each level one that was set at run time (pawl policy set) stands above the one in the code. A limit that makes no
// sense is the error of every use of the handle, and matches ErrBadLimit; so are KeyBy, QueueLimit, QueueTimeout and Reject without Concurrency,
// Rate or Quota. Of two options of a kind the last one counts.
type LimitOption struct {
	apply func(*history.Policy)
	err   error
}

func (o LimitOption) applyActivity(s *activitySettings) { s.limits.add(o) }

func (o LimitOption) applyOrchestration(s *limitSettings) { s.add(o) }

// limitSettings collects what a handle says about limits.
type limitSettings struct {
	declared history.Declared
	err      error // the first
}

func (s *limitSettings) add(o LimitOption) {
	if s.declared.Action == nil {
		s.declared.Action = new(history.Policy)
	}
	s.fail(o.into(s.declared.Action))
}

func (s *limitSettings) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// wrong is what is wrong with them, if anything is.
func (s *limitSettings) wrong() error {
	if s.err != nil {
		return s.err
	}
	return limiting(s.declared.Action)
}

// given is what the handle keeps: nil if it has said nothing.
func (s *limitSettings) given() *history.Declared {
	if s.declared == (history.Declared{}) {
		return nil
	}
	d := s.declared
	return &d
}

func (o LimitOption) into(p *history.Policy) error {
	if o.err == nil && o.apply != nil {
		o.apply(p)
	}
	return o.err
}

func badLimit(option, rule string) LimitOption {
	return LimitOption{err: &LimitError{Option: option, Rule: rule}}
}

// limiting gives a *LimitError for a policy of options that limit nothing without another.
func limiting(p *history.Policy) error {
	if p == nil || !p.Unlimited() {
		return nil
	}
	option := "Reject()"
	switch {
	case p.Key != "":
		option = fmt.Sprintf("KeyBy(%q)", p.Key)
	case p.QueueLimit != 0:
		option = fmt.Sprintf("QueueLimit(%d)", p.QueueLimit)
	case p.QueueTimeout != 0:
		option = "QueueTimeout"
	}
	return &LimitError{Option: option, Rule: "it limits nothing by itself; say Concurrency, Rate or Quota with it (of the group's policy nothing is added to it)"}
}

// Limits gives the policy that the options make, for the level above all groups (orchestrator.Config.Global). It is for
// Pawl's own packages. The error matches ErrBadLimit.
func Limits(opts ...LimitOption) (history.Policy, error) {
	var p history.Policy
	for _, o := range opts {
		if err := o.into(&p); err != nil {
			return history.Policy{}, err
		}
	}
	if err := limiting(&p); err != nil {
		return history.Policy{}, err
	}
	return p, nil
}

// Concurrency is a LimitOption: at most n of the action at a time, from 1. Retries of an activity count when they
// run, not in the pauses between (but see KeepSlot); an orchestration counts from its start to its end, through
// continue-as-new.
func Concurrency(n int) LimitOption {
	if n < 1 || n > math.MaxInt32 {
		return badLimit(fmt.Sprintf("Concurrency(%d)", n), fmt.Sprintf("1 to %d may run at a time; leave the option out for any number", math.MaxInt32))
	}
	return LimitOption{apply: func(p *history.Policy) { p.Concurrency = uint32(n) }} //nolint:gosec // just bounded
}

// Rate is a LimitOption: at most n are let in during any window of that length: a sliding window, exact. n is 1 to
// 10,000, for the times of so many are kept, and the window at least a millisecond, to which it is rounded up.
func Rate(n int, window time.Duration) LimitOption {
	option := fmt.Sprintf("Rate(%d, %s)", n, window)
	switch {
	case n < 1:
		return badLimit(option, "at least 1 is let in during a window; for fewer take a longer window")
	case n > history.MaxRate:
		return badLimit(option, fmt.Sprintf("at most %d are let in during a window, for their times are kept; take a smaller window, such as %s",
			history.MaxRate, smallerRate(n, window)))
	case window < time.Millisecond:
		return badLimit(option, "the window is at least 1ms")
	case window > history.MaxWindow:
		return badLimit(option, tooLong)
	}
	return LimitOption{apply: func(p *history.Policy) { p.Rate, p.RateWindow = uint32(n), history.Millis(window) }} //nolint:gosec // just bounded
}

// smallerRate gives about the same rate in a window that is shorter by a power of ten.
func smallerRate(n int, window time.Duration) string {
	for n > history.MaxRate {
		n, window = n/10, window/10
	}
	return fmt.Sprintf("Rate(%d, %s)", n, max(window, time.Millisecond))
}

// Quota is a LimitOption: at most n are let in during a window, which begins when the first of them is let in. It is for
// great numbers and long windows (a contract that allows 100,000 calls a day), where Rate would have to keep every
// time: on both sides of the end of a window up to 2n may come close together. n is at least 1, the window at least a second, rounded
// up to milliseconds.
func Quota(n int, window time.Duration) LimitOption {
	option := fmt.Sprintf("Quota(%d, %s)", n, window)
	switch {
	case n < 1:
		return badLimit(option, "at least 1 is let in during a window; for fewer take a longer window")
	case uint64(n) > history.MaxQuota:
		return badLimit(option, fmt.Sprintf("at most %d are let in during a window", uint64(history.MaxQuota)))
	case window < time.Second:
		return badLimit(option, "the window is at least 1s; for shorter ones there is Rate")
	case window > history.MaxWindow:
		return badLimit(option, tooLong)
	}
	return LimitOption{apply: func(p *history.Policy) { p.Quota, p.QuotaWindow = uint64(n), history.Millis(window) }} //nolint:gosec // just bounded
}

// KeyBy is a LimitOption: every value at the path in the input has a queue, and limits, of its own. The path has the names
// of fields as they are encoded (the json tag), with dots between them: KeyBy("customer.id"). Inputs in which there is
// nothing at the path share one queue. A path has at most 200 bytes, and no empty part.
func KeyBy(path string) LimitOption {
	switch {
	case path == "" || slices.Contains(strings.Split(path, "."), ""):
		return badLimit(fmt.Sprintf("KeyBy(%q)", path), `a path is the names of fields with dots between them, such as "customer.id"; none is empty`)
	case len(path) > history.MaxKeyPath:
		return badLimit(fmt.Sprintf("KeyBy(%q)", path[:20]+"…"), fmt.Sprintf("a path has at most %d bytes, and this has %d", history.MaxKeyPath, len(path)))
	}
	return LimitOption{apply: func(p *history.Policy) { p.Key = path }}
}

// QueueLimit is a LimitOption: no more than n wait at a time, from 1; whoever comes then fails at once, with ErrQueueFull.
// Without it they are 10,000.
func QueueLimit(n int) LimitOption {
	if n < 1 || n > math.MaxInt32 {
		return badLimit(fmt.Sprintf("QueueLimit(%d)", n), fmt.Sprintf("1 to %d may wait; where nobody is to wait, say Reject()", math.MaxInt32))
	}
	return LimitOption{apply: func(p *history.Policy) { p.QueueLimit = uint32(n) }} //nolint:gosec // just bounded
}

// QueueTimeout is a LimitOption: who has waited for that long fails, with ErrQueueTimeout. It is rounded up to milliseconds;
// below zero they wait for ever. Without it that is an hour.
func QueueTimeout(d time.Duration) LimitOption {
	switch {
	case d == 0:
		return badLimit("QueueTimeout(0)", "above zero one waits for so long, and below for ever; where nobody is to wait, say Reject()")
	case d > history.MaxWindow:
		return badLimit(fmt.Sprintf("QueueTimeout(%s)", d), "it is at most ten years; below zero one waits for ever")
	}
	ms := int64(-1)
	if d > 0 {
		ms = history.Millis(d)
	}
	return LimitOption{apply: func(p *history.Policy) { p.QueueTimeout = ms }}
}

// Reject is a LimitOption: nobody waits. Who can not be let in at once fails, with ErrLimited.
func Reject() LimitOption {
	return LimitOption{apply: func(p *history.Policy) { p.Reject = true }}
}

const tooLong = "the window is at most ten years"

// GroupOption is what Group gives: an option of NewActivity and of NewOrchestration.
type GroupOption struct {
	name   string
	policy *history.Policy
	err    error
}

// Group puts an action into a named group (see ValidateName). The group's policy is in force for each of its actions that
// has none of its own; every action keeps its own queue and its own counts. The policy may be given here, in a variable that the handles share:
//
//	var payments = pawl.Group("payments", pawl.Concurrency(5))
//
// or at run time (pawl policy set), or in both places: then the second stands. Of two groups the last one counts.
func Group(name string, limits ...LimitOption) GroupOption {
	g := GroupOption{name: name}
	if err := ValidateName(name); err != nil {
		g.err = fmt.Errorf("group: %w", err)
	}
	if len(limits) == 0 || g.err != nil {
		return g
	}
	p, err := Limits(limits...)
	if err != nil {
		g.err = fmt.Errorf("group %s: %w", name, err)
		return g
	}
	g.policy = &p
	return g
}

func (g GroupOption) applyActivity(s *activitySettings) { g.applyOrchestration(&s.limits) }

func (g GroupOption) applyOrchestration(s *limitSettings) {
	s.fail(g.err)
	s.declared.Group, s.declared.GroupPolicy = g.name, g.policy
}
