package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Policy limits an action: an activity or an orchestration, by name. The zero value limits nothing. Times are in milliseconds.
type Policy struct {
	Concurrency  uint32 `json:"concurrency,omitempty"`      // holders at one time; 0: any number
	Rate         uint32 `json:"rate,omitempty"`             // grants in any window of RateWindow; 0: any number; at most MaxRate
	RateWindow   int64  `json:"rate_window_ms,omitempty"`   // of Rate
	Quota        uint64 `json:"quota,omitempty"`            // grants in a window of QuotaWindow, which begins with its first grant; 0: any number
	QuotaWindow  int64  `json:"quota_window_ms,omitempty"`  // of Quota
	Key          string `json:"key,omitempty"`              // path into the payload: every value of it has a queue and limits of its own
	QueueLimit   uint32 `json:"queue_limit,omitempty"`      // waiters at one time; 0: DefaultQueueLimit
	QueueTimeout int64  `json:"queue_timeout_ms,omitempty"` // how long one waits; 0: DefaultQueueTimeout; below: for ever
	Reject       bool   `json:"reject,omitempty"`           // who can not be let in at once is refused
}

// Defaults and bounds of a Policy.
const (
	DefaultQueueLimit   = 10_000
	DefaultQueueTimeout = time.Hour
	MaxRate             = 10_000                    // the times of so many grants are kept
	MaxQuota            = 1 << 53                   // Redis counts in floating point
	MaxWindow           = 10 * 365 * 24 * time.Hour // and the longest timeout of a queue
	MaxKeyPath          = 200                       // bytes
)

// Millis gives a duration in milliseconds, rounded up: what was meant to last is not cut short, and no limit is exceeded.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// Declared is what the code says about the limits of an action; policies that are set at run time stand above it, level by level.
type Declared struct {
	Action      *Policy // of the action itself; nil: none
	Group       string  // that it belongs to; empty: none
	GroupPolicy *Policy // of the group, as this handle knows it; nil: none
}

// ByGate reports whether a failure with the code was made by a gate.
func IsLimitCode(code string) bool {
	switch code {
	case CodeQueueFull, CodeQueueTimeout, CodeQueueCleared, CodeLimited:
		return true
	default:
		return false
	}
}

// Gate is what the schedule of an activity, or the start of an instance, says about the gate in front of it. The owner of the
// instance writes it; a replay does not compare it.
type Limit struct {
	Name           string   // the action, or action/key; empty while nobody has resolved it: only Declared and Keep count then
	Ticket         string   // under which it is known there
	Waiting        bool     // it had not been let in when the event was committed
	Retain         bool     // the slot is kept from one attempt of the call to the next
	HeldByAncestor string   // ticket of an ancestor that holds the same gate; empty: none
	WaitingSince   int64    // by the gate's clock, Unix ms: it waited there then; a word from before that is about an entry before. 0: the gate has not answered
	Declared       Declared // for asking again
}

// Granted is the input that lets an activity, or an instance, through its gate.
type Granted struct {
	Head      `msgpack:"-"`
	Scheduled uint64 // id of the ActivityScheduled, or of Started
}

// Kind gives KindGranted.
func (*Granted) Kind() Kind { return KindGranted }

// Input is true: a grant moves the execution.
func (*Granted) Input() bool { return true }

// PolicyError is a policy that makes no sense.
type PolicyError struct {
	Field string
	Rule  string
}

// Error says which field, and what is allowed.
func (e *PolicyError) Error() string { return fmt.Sprintf("pawl: bad limit: %s %s", e.Field, e.Rule) }

// Limits reports whether the policy limits anything.
func (p Policy) Limits() bool { return p.Concurrency > 0 || p.Rate > 0 || p.Quota > 0 }

// Idle reports whether the policy says something, and limits nothing: in force, it would lift the limits of the levels below it.
func (p Policy) Unlimited() bool { return !p.Limits() && p != (Policy{}) }

// Validate gives a *PolicyError for a policy that makes no sense.
func (p *Policy) Validate() error {
	bad := func(field, rule string) error { return &PolicyError{Field: field, Rule: rule} }
	switch {
	case p.Rate > MaxRate:
		return bad("rate", fmt.Sprintf("of %d: at most %d in a window; take fewer in a shorter one", p.Rate, MaxRate))
	case p.Rate > 0 && p.RateWindow < 1:
		return bad("rate", "needs a window of at least 1 ms")
	case p.Rate == 0 && p.RateWindow != 0:
		return bad("rate", "must be at least 1")
	case p.Quota > 0 && p.QuotaWindow < 1000:
		return bad("quota", "needs a window of at least 1 s; for shorter ones there is the rate")
	case p.Quota == 0 && p.QuotaWindow != 0:
		return bad("quota", "must be at least 1")
	case p.Quota > MaxQuota:
		return bad("quota", "must be at most 2^53")
	case p.RateWindow > MaxWindow.Milliseconds():
		return bad("rate", "has a window of at most ten years")
	case p.QuotaWindow > MaxWindow.Milliseconds():
		return bad("quota", "has a window of at most ten years")
	case p.QueueTimeout > MaxWindow.Milliseconds():
		return bad("queue-timeout", "must be at most ten years")
	case len(p.Key) > MaxKeyPath:
		return bad("key", fmt.Sprintf("is a path of at most %d bytes", MaxKeyPath))
	case p.Key != "" && slices.Contains(strings.Split(p.Key, "."), ""):
		return bad("key", fmt.Sprintf("%q: a path such as customer.id has no empty parts", p.Key))
	}
	return nil
}
