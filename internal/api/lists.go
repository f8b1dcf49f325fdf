package api

import (
	"encoding/json"

	"github.com/pawlrun/pawl/pkg/client"
)

// Instances is a page of a list.
type Instances struct {
	Instances  []Instance `json:"instances"`
	Next       string     `json:"next,omitempty"`       // cursor of the next page; left out: this is the last page
	Incomplete string     `json:"incomplete,omitempty"` // why instances are missing: partitions that did not answer
}

// Start is the request body of a start.
type Start struct {
	Orchestration string          `json:"orchestration"`
	ID            string          `json:"id,omitempty"`          // instance id; left out: derived from the Idempotency-Key, or random
	Version       string          `json:"version,omitempty"`     // left out: the newest version that the orchestrator has
	Attributes    json.RawMessage `json:"attributes,omitempty"`  // of a new instance: {"tenant": "acme", "items": 5, "paid": true, "due": {"time": "2026-11-22T08:00:00Z"}}
	StartAt       string          `json:"start_at,omitempty"`    // a duration from now, such as 30s, or an RFC 3339 time
	RunTimeout    string          `json:"run_timeout,omitempty"` // time after its start at which the instance fails if it has not ended, such as 24h
	IDReuse       string          `json:"id_reuse,omitempty"`    // what to do if the id is taken: ignore (default), reject, after-failure, terminate-existing
	Input         json.RawMessage `json:"input,omitempty"`
	Event         *Event          `json:"event,omitempty"`    // sent to the instance, whether it is new or already running
	Update        *Event          `json:"update,omitempty"`   // sent in the same way, instead of an event; its id is the Idempotency-Key
	Wait          string          `json:"wait,omitempty"`     // how long to wait for the end, or for the answer to the update, such as 30s; at most 1m
	WaitFor       string          `json:"wait_for,omitempty"` // end (default), or started: the response is sent once the start has taken effect; 10s by default
}

// Event is an event or an update that is sent with a start.
type Event struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Actions is a list of the limits in use.
type Actions struct {
	Actions []QueueStats `json:"actions"`
	More    bool         `json:"more,omitempty"` // there are more than the limit of the request
}

// Waiters is a list of the waiters or holders at a limit.
type Waiters struct {
	Waiters []Waiter `json:"waiters"`
	More    bool     `json:"more,omitempty"`
}

// Cleared is the answer to the rejection of all waiters of a limit.
type Cleared struct {
	Cleared int `json:"cleared"` // waiters that were rejected
}

// LevelPolicy is a policy that was set at run time.
type LevelPolicy struct {
	Level  string `json:"level"` // action:NAME, group:NAME or global
	Policy Policy `json:"policy"`
}

// LevelPolicyOf converts a policy that was set at run time.
func LevelPolicyOf(l client.LevelPolicy) LevelPolicy {
	return LevelPolicy{Level: l.Level, Policy: PolicyOf(l.Policy)}
}

// Policies are the policies that were set at run time, by level.
type Policies struct {
	Policies []LevelPolicy `json:"policies"`
}

// Workers are the workers that answered.
type Workers struct {
	Workers []Worker `json:"workers"`
}
