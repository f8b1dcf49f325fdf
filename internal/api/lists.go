package api

import (
	"encoding/json"

	"github.com/pawlrun/pawl/pkg/client"
)

// Instances is a page of a list.
type Instances struct {
	Instances  []Instance `json:"instances"`
	Next       string     `json:"next,omitempty"`       // the cursor of the next page; left out: this is the last
	Incomplete string     `json:"incomplete,omitempty"` // why instances are missing: partitions that did not answer
}

// Start is the body of a start.
type Start struct {
	Orchestration string          `json:"orchestration"`
	ID            string          `json:"id,omitempty"`          // of the instance; left out: made from the Idempotency-Key, or made up
	Version       string          `json:"version,omitempty"`     // left out: the newest that its orchestrator has
	Attributes    json.RawMessage `json:"attributes,omitempty"`  // of a new instance: {"tenant": "acme", "items": 5, "paid": true, "due": {"time": "2026-11-22T08:00:00Z"}}
	StartAt       string          `json:"start_at,omitempty"`    // a duration from now, such as 30s, or a time as of RFC 3339
	RunTimeout    string          `json:"run_timeout,omitempty"` // fails the instance if it has not ended so long after its start, such as 24h
	IDReuse       string          `json:"id_reuse,omitempty"`    // ignore (default), reject, after-failure, terminate-existing: of an instance that has the id
	Input         json.RawMessage `json:"input,omitempty"`
	Event         *Event          `json:"event,omitempty"`    // delivered to the instance, whether it is started now or running
	Update        *Event          `json:"update,omitempty"`   // likewise, in place of an event; its id is the Idempotency-Key
	Wait          string          `json:"wait,omitempty"`     // wait so long for the end, or for the answer to the update, such as 30s; at most 1m
	WaitFor       string          `json:"wait_for,omitempty"` // end (default), started: answer when the start has taken effect, within 10s without wait
}

// Event is an event or an update that is sent with a start.
type Event struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Actions is a list of the limits in use.
type Actions struct {
	Actions []QueueStats `json:"actions"`
	More    bool         `json:"more,omitempty"` // there are more than limit
}

// Waiters is a list of the waiters or holders at a limit.
type Waiters struct {
	Waiters []Waiter `json:"waiters"`
	More    bool     `json:"more,omitempty"`
}

// Cleared is the answer to a clear.
type Cleared struct {
	Cleared int `json:"cleared"` // waiters that were rejected
}

// LevelPolicy is a policy that was set at run time.
type LevelPolicy struct {
	Level  string `json:"level"` // action:NAME, group:NAME or global
	Policy Policy `json:"policy"`
}

// LevelPolicyOf describes a policy that was set at run time.
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
