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
	Concurrency  uint32 `json:"concurrency,omitempty"`      // maximum number of holders; 0: unlimited
	Rate         uint32 `json:"rate,omitempty"`             // maximum number of grants in any period of RateWindow; 0: unlimited; at most MaxRate
	RateWindow   int64  `json:"rate_window_ms,omitempty"`   // window of Rate
	Quota        uint64 `json:"quota,omitempty"`            // maximum number of grants per QuotaWindow, which begins with its first grant; 0: unlimited
	QuotaWindow  int64  `json:"quota_window_ms,omitempty"`  // window of Quota
	Key          string `json:"key,omitempty"`              // path into the payload; each value of it has its own waiters and limits
	QueueLimit   uint32 `json:"queue_limit,omitempty"`      // maximum number of waiters; 0: DefaultQueueLimit
	QueueTimeout int64  `json:"queue_timeout_ms,omitempty"` // maximum wait; 0: DefaultQueueTimeout; negative: no maximum
	Reject       bool   `json:"reject,omitempty"`           // reject callers that cannot be admitted immediately
	Paused       bool   `json:"paused,omitempty"`           // admit no caller; only set in a pause, which an operator sets in addition to the policy in force
	PausedBy     string `json:"paused_by,omitempty"`        // requester of the pause
	PausedFor    string `json:"paused_for,omitempty"`       // reason of the pause; at most MaxPausedFor bytes
	PausedAt     int64  `json:"paused_at,omitempty"`        // time of the pause, Unix ms
}

// LogValue returns the settings that differ from their zero values.
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
	MaxRate             = 10_000                    // the times of that many grants are stored
	MaxQuota            = 1 << 53                   // Redis counts in floating point
	MaxWindow           = 10 * 365 * 24 * time.Hour // also the maximum of QueueTimeout
	MaxKeyPath          = 200                       // bytes
	MaxPausedFor        = 1 << 10                   // bytes; every call transfers the policy in force
)

// Declared contains the limits of an action that code declares. A policy that was set at run time takes precedence at each level.
type Declared struct {
	Action      *Policy // policy of the action itself; nil: none
	Group       string  // group of the action; empty: none
	GroupPolicy *Policy // policy of the group, as declared with this handle
}

// Limit is the state of a caller at its limit, as part of the schedule of an activity or of the start of an instance. The owner
// of the instance writes it; a replay does not compare it.
type Limit struct {
	Name           string // the action, or action/key; empty until it is resolved: until then only Declared and Retain are set
	Ticket         string // identity of the caller at the limit
	Waiting        bool   // the caller was not admitted yet when the event was committed
	Retain         bool   // the slot is retained from one attempt of the call to the next
	HeldByAncestor string // ticket of an ancestor that holds the same limit; empty: none
	// WaitingSince is a time, Unix ms by the clock of the limit, at which the caller was waiting. An earlier notice concerns an earlier
	// entry. 0: the limit has not replied yet.
	WaitingSince int64
	Declared     Declared // used for later requests to the limit

}

// Granted is the input that admits an activity, or an instance, at its limit.
type Granted struct {
	Head
	Scheduled uint64 // id of the ActivityScheduled, or of Started
}

// PolicyError is the error of an invalid policy.
type PolicyError struct {
	Field string
	Rule  string
}

// Error returns the field and the rule.
func (e *PolicyError) Error() string { return fmt.Sprintf("pawl: bad limit: %s %s", e.Field, e.Rule) }

// Limits reports whether the policy limits anything.
func (p Policy) Limits() bool { return p.Concurrency > 0 || p.Rate > 0 || p.Quota > 0 || p.Paused }

// Unlimited reports whether the policy is set and limits nothing: while in force, it lifts the limits of the levels below it.
func (p Policy) Unlimited() bool { return !p.Limits() && p != (Policy{}) }

// Validate returns a *PolicyError for an invalid policy.
func (p *Policy) Validate() error {
	bad := func(field, rule string) error { return &PolicyError{Field: field, Rule: rule} }
	switch {
	case p.Rate > MaxRate:
		return bad("rate", fmt.Sprintf("of %d: at most %d per window are allowed; use a lower rate and a shorter window", p.Rate, MaxRate))
	case p.Rate > 0 && p.RateWindow < 1:
		return bad("rate", "needs a window of at least 1 ms")
	case p.Rate == 0 && p.RateWindow != 0:
		return bad("rate", "must be at least 1")
	case p.Quota > 0 && p.QuotaWindow < 1000:
		return bad("quota", "needs a window of at least 1 s; use a rate for shorter ones")
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
		return bad("paused", fmt.Sprintf("must have a requester and a reason of at most %d bytes", MaxPausedFor))
	case len(p.Key) > MaxKeyPath:
		return bad("key", fmt.Sprintf("must be a path of at most %d bytes", MaxKeyPath))
	case p.Key != "" && slices.Contains(strings.Split(p.Key, "."), ""):
		return bad("key", fmt.Sprintf("%q: a path such as customer.id must not have empty parts", p.Key))
	}
	return nil
}
