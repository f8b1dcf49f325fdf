package api

import (
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

// Policy limits an action; the zero value limits nothing. See client.Policy for the fields.
type Policy struct {
	Concurrency    uint32 `json:"concurrency,omitempty"`
	Rate           uint32 `json:"rate,omitempty"`
	RateWindowMS   int64  `json:"rate_window_ms,omitempty"`
	Quota          uint64 `json:"quota,omitempty"`
	QuotaWindowMS  int64  `json:"quota_window_ms,omitempty"`
	Key            string `json:"key,omitempty"`
	QueueLimit     uint32 `json:"queue_limit,omitempty"`
	QueueTimeoutMS int64  `json:"queue_timeout_ms,omitempty"` // negative: unlimited
	Reject         bool   `json:"reject,omitempty"`
	Paused         bool   `json:"paused,omitempty"` // no caller is admitted
	PausedBy       string `json:"paused_by,omitempty"`
	PausedFor      string `json:"paused_for,omitempty"` // reason of the pause
	PausedAt       string `json:"paused_at,omitempty"`
}

// PolicyOf converts a policy.
func PolicyOf(p client.Policy) Policy {
	out := Policy{
		Concurrency: p.Concurrency, Rate: p.Rate, RateWindowMS: p.RateWindow.Milliseconds(), Quota: p.Quota, QuotaWindowMS: p.QuotaWindow.Milliseconds(),
		Key: p.Key, QueueLimit: p.QueueLimit, QueueTimeoutMS: p.QueueTimeout.Milliseconds(), Reject: p.Reject, Paused: p.Paused,
		PausedBy: p.PausedBy, PausedFor: p.PausedFor, PausedAt: Timestamp(p.PausedAt),
	}
	if p.QueueTimeout < 0 {
		out.QueueTimeoutMS = -1
	}
	return out
}

// Client converts p to a policy of package client.
func (p Policy) Client() client.Policy {
	at, _ := time.Parse(timeLayout, p.PausedAt) // for display only; the orchestrator sets the time
	return client.Policy{
		Concurrency: p.Concurrency, Rate: p.Rate, RateWindow: millis(p.RateWindowMS), Quota: p.Quota, QuotaWindow: millis(p.QuotaWindowMS),
		Key: p.Key, QueueLimit: p.QueueLimit, QueueTimeout: millis(p.QueueTimeoutMS), Reject: p.Reject, Paused: p.Paused,
		PausedBy: p.PausedBy, PausedFor: p.PausedFor, PausedAt: at,
	}
}

// maxMillis is the longest time.Duration, in milliseconds.
const maxMillis = int64(1<<63-1) / int64(time.Millisecond)

// millis converts milliseconds to a duration, and clamps values that exceed the range.
func millis(ms int64) time.Duration {
	return time.Duration(max(-maxMillis, min(ms, maxMillis))) * time.Millisecond
}

// QueueStats describes the waiters and holders at the limit of an action. Counters cover the whole life of the limit,
// unless a comment states otherwise; a limit with a key is removed an hour after its last use.
type QueueStats struct {
	Action string `json:"action"`
	Key    string `json:"key"`            // empty: the action has no key, or the numbers are sums over several keys
	Keys   int    `json:"keys,omitempty"` // number of keys over which the numbers are sums; left out: one

	QueueLength   uint64 `json:"queue_length"`   // current number of waiters
	ActiveCount   uint64 `json:"active_count"`   // current number of holders
	MaxConcurrent uint64 `json:"max_concurrent"` // per key, under the policy in force; 0: unlimited

	OldestEnqueuedAt *string `json:"oldest_enqueued_at"` // when the first waiter was enqueued; null: no waiters

	TotalEnqueued  uint64 `json:"total_enqueued"`  // callers that were admitted at once or enqueued
	TotalCompleted uint64 `json:"total_completed"` // callers that were admitted and have ended
	Rejected       uint64 `json:"rejected"`        // callers rejected on arrival, because the queue was full or by the policy; repeated attempts count again
	TimedOut       uint64 `json:"timed_out"`       // waiters that waited longer than the policy allows
	Withdrawn      uint64 `json:"withdrawn"`       // waiters that were cancelled
	Cleared        uint64 `json:"cleared"`         // waiters that an operator rejected

	LimitedUntil *string `json:"limited_until"` // rate or quota admits no caller before; null: they do
	Deadlocked   bool    `json:"deadlocked"`    // all holders wait for waiters of this limit

	Policy Policy `json:"policy"` // in force for each key; empty: unlimited
}

// QueueStatsOf converts the state of a limit.
func QueueStatsOf(i client.QueueInfo) QueueStats {
	return QueueStats{
		Action: i.Action, Key: i.Key, Keys: i.Keys, QueueLength: i.Waiting, ActiveCount: i.Active, MaxConcurrent: uint64(i.Policy.Concurrency),
		OldestEnqueuedAt: orNull(i.OldestEnqueued), TotalEnqueued: i.Enqueued, TotalCompleted: i.Completed, Rejected: i.Rejected, TimedOut: i.TimedOut,
		Withdrawn: i.Withdrawn, Cleared: i.Cleared, LimitedUntil: orNull(i.LimitedUntil), Deadlocked: i.Deadlocked, Policy: PolicyOf(i.Policy),
	}
}

// Waiter is a waiter or a holder at a limit.
type Waiter struct {
	Position  uint64 `json:"position,omitempty"` // from 1; left out: a holder
	Instance  string `json:"instance"`
	Execution uint64 `json:"execution,omitempty"`
	Event     uint64 `json:"event,omitempty"` // id of the event that scheduled the activity; 1: the start of the instance; left out: a call that retains its slot between attempts
	Since     string `json:"since,omitempty"`
}

// WaiterOf converts a waiter or a holder.
func WaiterOf(w client.Waiter) Waiter {
	return Waiter{Position: w.Position, Instance: w.Instance, Execution: w.Execution, Event: w.Event, Since: Timestamp(w.Since)}
}
