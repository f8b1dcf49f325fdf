package history

import (
	"fmt"
	"log/slog"
	"reflect"
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
	Key          string `json:"key,omitempty"`              // path into the payload: each value has waiters and limits of its own
	QueueLimit   uint32 `json:"queue_limit,omitempty"`      // waiters at one time; 0: DefaultQueueLimit
	QueueTimeout int64  `json:"queue_timeout_ms,omitempty"` // maximum wait; 0: DefaultQueueTimeout; negative: no maximum
	Reject       bool   `json:"reject,omitempty"`           // callers that cannot be admitted at once are rejected
	Paused       bool   `json:"paused,omitempty"`           // no one is admitted; only of a pause, which an operator sets beside the policy in force
	PausedBy     string `json:"paused_by,omitempty"`        // requester of the pause
	PausedFor    string `json:"paused_for,omitempty"`       // why; at most MaxPausedFor bytes
	PausedAt     int64  `json:"paused_at,omitempty"`        // Unix ms
}

// LogValue has the settings that differ from their zero values.
func (p Policy) LogValue() slog.Value {
	var set []slog.Attr
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); !v.Field(i).IsZero() {
			set = append(set, slog.Any(name, v.Field(i).Interface()))
		}
	}
	return slog.GroupValue(set...)
}

// Defaults and bounds of a Policy.
const (
	DefaultQueueLimit   = 10_000
	DefaultQueueTimeout = time.Hour
	MaxRate             = 10_000                    // so many grant times are stored
	MaxQuota            = 1 << 53                   // Redis counts in floating point
	MaxWindow           = 10 * 365 * 24 * time.Hour // and the longest maximum wait
	MaxKeyPath          = 200                       // bytes
	MaxPausedFor        = 1 << 10                   // bytes, as the policy in force goes with every call
)

// Millis returns a duration in milliseconds, rounded up, so that a wait is never shorter and a rate never higher than declared.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// Declared has the limits of an action that the code declares; a policy that was set at run time takes precedence at each level.
type Declared struct {
	Action      *Policy // of the action itself; nil: none
	Group       string  // that it belongs to; empty: none
	GroupPolicy *Policy // of the group, as declared with this handle
}

// IsLimitCode reports whether a failure with the code was made by a limit.
func IsLimitCode(code string) bool {
	switch code {
	case CodeQueueFull, CodeQueueTimeout, CodeQueueCleared, CodeLimited:
		return true
	default:
		return false
	}
}

// Limit is the state of a caller at its limit, as part of the schedule of an activity or of the start of an instance. The owner
// of the instance writes it; a replay does not compare it.
type Limit struct {
	Name           string   // the action, or action/key; empty until it is resolved: then only Declared and Retain count
	Ticket         string   // identity of the caller at the limit
	Waiting        bool     // it was not admitted when the event was committed
	Retain         bool     // the slot is retained from one attempt of the call to the next
	HeldByAncestor string   // ticket of an ancestor that holds the same limit; empty: none
	WaitingSince   int64    // by the limit's clock, Unix ms: it was waiting then; an earlier notice is about an earlier entry. 0: no reply of the limit yet
	Declared       Declared // for later requests
}

// Granted is the input that admits an activity, or an instance, at its limit.
type Granted struct {
	Head      `msgpack:"-"`
	Scheduled uint64 // id of the ActivityScheduled, or of Started
}

// Kind returns KindGranted.
func (*Granted) Kind() Kind { return KindGranted }

// Input returns true: a grant moves the execution.
func (*Granted) Input() bool { return true }

// PolicyError is an invalid policy.
type PolicyError struct {
	Field string
	Rule  string
}

// Error returns the field and the rule.
func (e *PolicyError) Error() string { return fmt.Sprintf("pawl: bad limit: %s %s", e.Field, e.Rule) }

// Limits reports whether the policy limits anything.
func (p Policy) Limits() bool { return p.Concurrency > 0 || p.Rate > 0 || p.Quota > 0 || p.Paused }

// Unlimited reports whether the policy is set and limits nothing: in force, it lifts the limits of the levels below it.
func (p Policy) Unlimited() bool { return !p.Limits() && p != (Policy{}) }

// Validate returns a *PolicyError for an invalid policy.
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
	case len(p.PausedFor) > MaxPausedFor, len(p.PausedBy) > MaxPausedFor:
		return bad("paused", fmt.Sprintf("has a requester and a reason of at most %d bytes", MaxPausedFor))
	case len(p.Key) > MaxKeyPath:
		return bad("key", fmt.Sprintf("is a path of at most %d bytes", MaxKeyPath))
	case p.Key != "" && slices.Contains(strings.Split(p.Key, "."), ""):
		return bad("key", fmt.Sprintf("%q: a path such as customer.id has no empty parts", p.Key))
	}
	return nil
}
