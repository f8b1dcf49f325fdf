package gateway

import (
	"net/http"
	"net/url"
	"time"

	"github.com/pawlrun/pawl/pkg/client"
)

// QueueStats is how the queue in front of an action stands. Numbers are of the gate's whole life,
// unless they say otherwise; a gate with a key is forgotten an hour after its last use.
type QueueStats struct {
	Action string `json:"action"`
	Key    string `json:"key"`            // empty: the action has no key, or these are several
	Keys   int    `json:"keys,omitempty"` // how many gates these are the sum of; left out: it is one gate

	QueueLength   uint64 `json:"queue_length"`   // who waits at the moment
	ActiveCount   uint64 `json:"active_count"`   // who has been let in and has not left
	MaxConcurrent uint64 `json:"max_concurrent"` // by the policy in force, of each gate; 0: any number

	OldestEnqueuedAt *string `json:"oldest_enqueued_at"` // RFC 3339, UTC, ms: since when the first of the queue waits; null: nobody waits

	TotalEnqueued  uint64 `json:"total_enqueued"`  // came, and were let in at once or took a place in the queue
	TotalCompleted uint64 `json:"total_completed"` // were let in, and have left
	Rejected       uint64 `json:"rejected"`        // were refused when they came: the queue was full, or the policy rejects; who asks again is counted again
	TimedOut       uint64 `json:"timed_out"`       // waited longer than the policy allows
	Withdrawn      uint64 `json:"withdrawn"`       // were cancelled while they waited
	Cleared        uint64 `json:"cleared"`         // were turned away by a clear of the queue

	LimitedUntil *string `json:"limited_until"` // RFC 3339, UTC, ms: rate or quota let nobody in before; null: they do
	Deadlocked   bool    `json:"deadlocked"`    // every holder waits for somebody who waits here

	Policy client.Policy `json:"policy"` // in force, of each gate; empty: it limits nothing
}

// StatsOf puts what a gate tells into the form of the API.
func StatsOf(i client.QueueInfo) QueueStats {
	return QueueStats{
		Action: i.Action, Key: i.Key, Keys: i.Keys, QueueLength: i.Waiting, ActiveCount: i.Holding, MaxConcurrent: i.MaxConcurrent,
		OldestEnqueuedAt: stamp(i.Oldest), TotalEnqueued: i.Entered, TotalCompleted: i.Completed, Rejected: i.Rejected, TimedOut: i.TimedOut,
		Withdrawn: i.Withdrawn, Cleared: i.Cleared, LimitedUntil: stamp(i.LimitedUntil), Deadlocked: i.Deadlocked, Policy: i.Policy,
	}
}

func stamp(ms int64) *string {
	if ms == 0 {
		return nil
	}
	s := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
	return &s
}

// queueStats answers how the queue of the action ref stands: an activity or an orchestration, by name.
//
// With ?key= it is the gate of that value of the action's key. Without it is the gate of the action
// itself or, if the policy in force has a key or all inputs have had one, the sum over its gates that are in use and that of the inputs
// without a key: then "key" is empty, "keys" says how many they are, "max_concurrent" and "policy" are those of each, "oldest_enqueued_at" is the oldest
// of all, and "limited_until" the first of them to pass.
//
// 400 for what is no name, or no query, 404 for an action that nobody has ever come to a gate of (it may have no
// limits), 503 while the orchestrators hand over or there are none, 504 if they do not answer.
func (a *api) queueStats(c *client.Client, r *http.Request) (any, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what was meant as a key would be none, and the answer about another gate
		return nil, &problem{Status: http.StatusBadRequest, Detail: "the query: " + err.Error()}
	}
	info, err := client.QueueStats(r.Context(), c, r.PathValue("ref"), query.Get("key"))
	if err != nil {
		return nil, err
	}
	return StatsOf(info), nil
}
