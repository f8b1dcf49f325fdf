package pawl

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/pkg/history"
)

// ErrBadLimit matches the error of an invalid limit. errors.As with *LimitError returns the invalid option.
var ErrBadLimit = errors.New("pawl: bad limit")

// LimitError is the error of an invalid limit option. It matches ErrBadLimit.
type LimitError struct {
	Option string // the option as written in code, such as "Concurrency(0)"
	Rule   string // the values that it allows
}

// Error returns the option and the values that it allows.
func (e *LimitError) Error() string { return fmt.Sprintf("%v %s: %s", ErrBadLimit, e.Option, e.Rule) }

// Unwrap returns ErrBadLimit.
func (e *LimitError) Unwrap() error { return ErrBadLimit }

// LimitOption is an option of NewActivity, NewOrchestration and Group: Concurrency, Rate, Quota, KeyBy, QueueLimit, QueueTimeout or
// Reject. Together the options of a handle are its policy, which applies to the whole fleet. A call over the limit waits, durably and in
// FIFO order, before an activity is given to a worker or before the first line of an orchestration runs. Once it is admitted, it holds a
// slot until it ends.
//
// Exactly one policy applies at a time: that of the action, otherwise that of its Group, otherwise the global one. At each of these
// levels, a policy that was set at run time (pawl policy set) overrides the one in the code. If a limit is invalid, every use of the
// handle returns an error that matches ErrBadLimit. KeyBy, QueueLimit, QueueTimeout and Reject are invalid without Concurrency, Rate or
// Quota. If an option is given twice, the last one applies.
type LimitOption struct{ limit }

type limit = author.Limit

func (o LimitOption) applyActivity(s *activitySettings) { s.limits.add(o) }

func (o LimitOption) applyOrchestration(s *limitSettings) { s.add(o) }

// limitSettings collects the limits and the group of a handle.
type limitSettings struct {
	declared history.Declared
	err      error // the first invalid option
}

func (s *limitSettings) add(o LimitOption) {
	if s.declared.Action == nil {
		s.declared.Action = new(history.Policy)
	}
	s.fail(author.ApplyLimit(o, s.declared.Action))
}

func (s *limitSettings) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *limitSettings) validate() error {
	if s.err != nil {
		return s.err
	}
	return checkPolicy(s.declared.Action)
}

// declaration returns the limits of the handle, or nil if it has none.
func (s *limitSettings) declaration() *history.Declared {
	if s.declared == (history.Declared{}) {
		return nil
	}
	d := s.declared
	return &d
}

func newLimit(set func(*history.Policy)) LimitOption {
	return LimitOption{author.NewLimit(set, checkPolicy)}
}

func badLimit(option, rule string) LimitOption {
	return LimitOption{author.BadLimit(&LimitError{Option: option, Rule: rule})}
}

// checkPolicy returns a *LimitError if the policy has options that need Concurrency, Rate or Quota but has none of these.
func checkPolicy(p *history.Policy) error {
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
	return &LimitError{Option: option, Rule: "it has no effect by itself: add Concurrency, Rate or Quota (the policy of a group is not merged with it)"}
}

// Concurrency limits the action to n running at a time; n is at least 1. An activity does not hold its slot during the backoff between
// two attempts (see KeepSlot). An orchestration holds its slot from its start to its end, through continue-as-new.
func Concurrency(n int) LimitOption {
	if n < 1 || n > math.MaxInt32 {
		return badLimit(fmt.Sprintf("Concurrency(%d)", n), fmt.Sprintf("1 to %d may run at a time; leave the option out for any number", math.MaxInt32))
	}
	return newLimit(func(p *history.Policy) { p.Concurrency = uint32(n) }) //nolint:gosec // just bounded
}

// Rate limits the action to n admissions in any period of length window: an exact sliding window. n is 1 to 10,000, because the time of
// each admission is stored. The window is at least one millisecond and is rounded up to milliseconds.
func Rate(n int, window time.Duration) LimitOption {
	option := fmt.Sprintf("Rate(%d, %s)", n, window)
	switch {
	case n < 1:
		return badLimit(option, "at least 1 must be admitted in a window; for fewer use a longer window")
	case n > history.MaxRate:
		return badLimit(option, fmt.Sprintf("at most %d are admitted in a window, because their times are stored; use a smaller window, such as %s",
			history.MaxRate, smallerRate(n, window)))
	case window < time.Millisecond:
		return badLimit(option, "the window is at least 1ms")
	case window > history.MaxWindow:
		return badLimit(option, tooLong)
	}
	return newLimit(func(p *history.Policy) { p.Rate, p.RateWindow = uint32(n), timers.Millis(window) }) //nolint:gosec // just bounded
}

// smallerRate returns about the same rate with a window that is shorter by a power of ten.
func smallerRate(n int, window time.Duration) string {
	for n > history.MaxRate {
		n, window = n/10, window/10
	}
	return fmt.Sprintf("Rate(%d, %s)", n, max(window, time.Millisecond))
}

// Quota limits the action to n admissions in a fixed window, which begins with the first of them. It is for large numbers and long
// windows, such as a contract that allows 100,000 calls a day, for which Rate would have to store every admission. Its price: around the
// end of a window, up to 2n calls may be admitted in a short time. n is at least 1. The window is at least one second and is rounded up
// to milliseconds.
func Quota(n int, window time.Duration) LimitOption {
	option := fmt.Sprintf("Quota(%d, %s)", n, window)
	switch {
	case n < 1:
		return badLimit(option, "at least 1 must be admitted in a window; for fewer use a longer window")
	case uint64(n) > history.MaxQuota:
		return badLimit(option, fmt.Sprintf("at most %d are admitted in a window", uint64(history.MaxQuota)))
	case window < time.Second:
		return badLimit(option, "the window is at least 1s; use Rate for shorter ones")
	case window > history.MaxWindow:
		return badLimit(option, tooLong)
	}
	return newLimit(func(p *history.Policy) { p.Quota, p.QuotaWindow = uint64(n), timers.Millis(window) }) //nolint:gosec // just bounded
}

// KeyBy applies the policy separately to each value found at a path in the input. The path consists of field names as they are encoded
// (the json tag), separated by dots: KeyBy("customer.id"). Inputs without a value at the path share one key. A path has at most 200 bytes
// and no empty field name.
func KeyBy(path string) LimitOption {
	switch {
	case path == "" || slices.Contains(strings.Split(path, "."), ""):
		return badLimit(fmt.Sprintf("KeyBy(%q)", path), `a path is names of fields separated by dots, such as "customer.id"; none is empty`)
	case len(path) > history.MaxKeyPath:
		return badLimit(fmt.Sprintf("KeyBy(%q)", path[:20]+"…"), fmt.Sprintf("a path has at most %d bytes, this has %d", history.MaxKeyPath, len(path)))
	}
	return newLimit(func(p *history.Policy) { p.Key = path })
}

// QueueLimit sets the maximum number of waiters, at least 1. The default is 10,000. Further calls fail at once with ErrQueueFull.
func QueueLimit(n int) LimitOption {
	if n < 1 || n > math.MaxInt32 {
		return badLimit(fmt.Sprintf("QueueLimit(%d)", n), fmt.Sprintf("1 to %d may wait; use Reject() if none may", math.MaxInt32))
	}
	return newLimit(func(p *history.Policy) { p.QueueLimit = uint32(n) }) //nolint:gosec // just bounded
}

// QueueTimeout sets the maximum wait, rounded up to milliseconds. The default is one hour; a negative value means no maximum. A call that
// has waited that long fails with ErrQueueTimeout.
func QueueTimeout(d time.Duration) LimitOption {
	switch {
	case d == 0:
		return badLimit("QueueTimeout(0)", "it must be positive, or negative to wait forever; use Reject() if no call may wait")
	case d > history.MaxWindow:
		return badLimit(fmt.Sprintf("QueueTimeout(%s)", d), "it is at most ten years; use a negative value to wait forever")
	}
	ms := int64(-1)
	if d > 0 {
		ms = timers.Millis(d)
	}
	return newLimit(func(p *history.Policy) { p.QueueTimeout = ms })
}

// Reject makes calls over the limit fail at once with ErrLimited instead of waiting.
func Reject() LimitOption {
	return newLimit(func(p *history.Policy) { p.Reject = true })
}

const tooLong = "the window is at most ten years"

// GroupOption is the option of NewActivity and NewOrchestration that Group returns.
type GroupOption struct {
	name   string
	policy *history.Policy
	err    error
}

// Group adds an action to a named group; the name must satisfy ValidateName. The group's policy applies to each of its actions that has
// no policy of its own. It is not shared between them: every action has its own waiters and counts. The policy may be given here, in a
// variable that the handles share:
//
//	var payments = pawl.Group("payments", pawl.Concurrency(5))
//
// It can also be set at run time (pawl policy set), which overrides the code. If an action is given two groups, the last one applies.
func Group(name string, limits ...LimitOption) GroupOption {
	g := GroupOption{name: name}
	if err := ValidateName(name); err != nil {
		g.err = fmt.Errorf("group: %w", err)
	}
	if len(limits) == 0 || g.err != nil {
		return g
	}
	p, err := author.Policy(limits...)
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
