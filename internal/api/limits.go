package api

import "github.com/pawlrun/pawl/pkg/client"

// QueueStats describes the waiters and holders at the limit of an action. Counters cover the whole life of the limit,
// unless the comment says otherwise; a limit with a key is forgotten an hour after its last use.
type QueueStats struct {
	Action string `json:"action"`
	Key    string `json:"key"`            // empty: the action has no key, or these are several
	Keys   int    `json:"keys,omitempty"` // how many keys these are the sum of; left out: one

	QueueLength   uint64 `json:"queue_length"`   // waiters now
	ActiveCount   uint64 `json:"active_count"`   // holders now
	MaxConcurrent uint64 `json:"max_concurrent"` // of each key, by the policy in force; 0: unlimited

	OldestEnqueuedAt *string `json:"oldest_enqueued_at"` // when the first waiter was enqueued; null: no waiters

	TotalEnqueued  uint64 `json:"total_enqueued"`  // admitted at once or enqueued
	TotalCompleted uint64 `json:"total_completed"` // were admitted, and have ended
	Rejected       uint64 `json:"rejected"`        // on arrival: the queue was full, or the policy rejects; a repeated attempt counts again
	TimedOut       uint64 `json:"timed_out"`       // waited longer than the policy allows
	Withdrawn      uint64 `json:"withdrawn"`       // cancelled while they waited
	Cleared        uint64 `json:"cleared"`         // rejected by a clear of the queue

	LimitedUntil *string `json:"limited_until"` // rate or quota admits nothing before; null: it does
	Deadlocked   bool    `json:"deadlocked"`    // every holder waits for a waiter here

	Policy client.Policy `json:"policy"` // in force, of each key; empty: unlimited
}

// QueueStatsOf describes a limit.
func QueueStatsOf(i client.QueueInfo) QueueStats {
	return QueueStats{
		Action: i.Action, Key: i.Key, Keys: i.Keys, QueueLength: i.Waiting, ActiveCount: i.Holding, MaxConcurrent: i.MaxConcurrent,
		OldestEnqueuedAt: orNull(i.Oldest), TotalEnqueued: i.Entered, TotalCompleted: i.Completed, Rejected: i.Rejected, TimedOut: i.TimedOut,
		Withdrawn: i.Withdrawn, Cleared: i.Cleared, LimitedUntil: orNull(i.LimitedUntil), Deadlocked: i.Deadlocked, Policy: i.Policy,
	}
}

// Waiter is a waiter or a holder at a limit.
type Waiter struct {
	Position  uint64 `json:"position,omitempty"` // from 1; left out: a holder
	Instance  string `json:"instance"`
	Execution uint64 `json:"execution,omitempty"`
	Event     uint64 `json:"event,omitempty"` // of the activity's schedule; 1: the start of the instance; left out: a call that keeps its slot between attempts
	Since     string `json:"since,omitempty"`
}

// WaiterOf describes a waiter or a holder.
func WaiterOf(w client.Waiter) Waiter {
	return Waiter{Position: w.Position, Instance: w.Instance, Execution: w.Execution, Event: w.Event, Since: Timestamp(w.Since)}
}
