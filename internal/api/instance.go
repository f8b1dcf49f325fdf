package api

import (
	"encoding/json"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Instance describes an instance. In a list it has no outstanding work, inbox, custom status, result and failure.
type Instance struct {
	Instance      string `json:"instance"`
	Orchestration string `json:"orchestration,omitempty"`
	Version       string `json:"version,omitempty"`
	Parent        string `json:"parent,omitempty"` // instance id
	Status        string `json:"status"`           // pending, running, completed, failed or cancelled
	Execution     uint64 `json:"execution,omitempty"`
	Started       string `json:"started,omitempty"`
	Updated       string `json:"updated,omitempty"` // latest change of status
	Ended         string `json:"ended,omitempty"`
	Events        uint64 `json:"events,omitempty"` // of the latest execution's history
	Stalled       string `json:"stalled,omitempty"`

	UnreadInputs    uint64                 `json:"unread_inputs,omitempty"`
	PendingMessages uint64                 `json:"pending_messages,omitempty"` // in the outbox
	Timers          uint64                 `json:"timers,omitempty"`
	NextTimer       string                 `json:"next_timer,omitempty"`
	Activities      []Activity             `json:"activities,omitempty"` // outstanding; at most 100
	Children        []Child                `json:"children,omitempty"`   // outstanding; at most 100
	LimitWaits      []LimitWait            `json:"limit_waits,omitempty"`
	CustomStatus    *CustomStatus          `json:"custom_status,omitempty"`
	Result          json.RawMessage        `json:"result,omitempty"`
	Failure         any                    `json:"failure,omitempty"`       // a Failure
	UnreadEvents    []history.UnreadEvents `json:"unread_events,omitempty"` // at the end
}

// Activity is an activity that has been scheduled and has not ended.
type Activity struct {
	Event     uint64 `json:"event"` // of its schedule
	Name      string `json:"name"`
	Queue     string `json:"queue"`
	Worker    string `json:"worker,omitempty"` // empty: not claimed
	Claims    uint32 `json:"claims"`
	Scheduled string `json:"scheduled,omitempty"`
}

// Child is a child whose end its parent waits for.
type Child struct {
	Event     uint64 `json:"event"` // of its schedule
	Name      string `json:"name"`
	Instance  string `json:"instance"`
	Scheduled string `json:"scheduled,omitempty"`
	Status    string `json:"status,omitempty"` // empty: not looked up, or the start has not arrived yet
	Stalled   string `json:"stalled,omitempty"`
}

// LimitWait is a wait for admission at a limit.
type LimitWait struct {
	Event        uint64        `json:"event"` // of the activity's schedule; 1: the start of the instance
	Action       string        `json:"action"`
	Key          string        `json:"key,omitempty"`
	Position     uint64        `json:"position,omitempty"` // from 1; left out: being admitted, or not known to the limit
	QueueLength  uint64        `json:"queue_length"`
	ActiveCount  uint64        `json:"active_count"`
	Policy       client.Policy `json:"policy"`
	Since        string        `json:"since,omitempty"`
	LimitedUntil string        `json:"limited_until,omitempty"`
	Deadlocked   bool          `json:"deadlocked,omitempty"`
}

// CustomStatus is the status that an instance has set for itself.
type CustomStatus struct {
	Version uint64          `json:"version"` // from 1, ascending
	Value   json.RawMessage `json:"value,omitempty"`
	Cleared bool            `json:"cleared,omitempty"`
}

// InstanceOf describes an instance. lookup returns what is known of a child; nil: nothing.
func InstanceOf(d client.Description, lookup func(instance string) client.Description) Instance {
	i := Instance{
		Instance: d.Instance, Orchestration: d.Orchestration, Version: d.Version, Parent: d.Parent, Status: d.Status, Execution: d.Execution,
		Started: Timestamp(d.Created), Updated: Timestamp(d.Updated), Ended: Timestamp(d.Ended), Events: d.Events, Stalled: d.Stuck,
		UnreadInputs: d.Inbox, PendingMessages: d.Owes, Timers: d.Timers, NextTimer: Timestamp(d.NextTimer),
		CustomStatus: CustomStatusOf(d.Custom), Result: show.Payload(d.Result), UnreadEvents: d.Unread,
	}
	if d.Failure != nil {
		i.Failure = show.Failure(*d.Failure)
	}
	for _, o := range d.Outstanding {
		i.Activities = append(i.Activities, Activity{
			Event: o.Activity, Name: o.Name, Queue: o.Queue, Worker: o.Worker, Claims: o.Claims, Scheduled: Timestamp(o.Since),
		})
	}
	for _, g := range d.Waits {
		i.LimitWaits = append(i.LimitWaits, limitWaitOf(g))
	}
	for _, c := range d.Children {
		child := Child{Event: c.Event, Name: c.Name, Instance: c.Instance, Scheduled: Timestamp(c.Since)}
		if lookup != nil {
			known := lookup(c.Instance)
			child.Status, child.Stalled = known.Status, known.Stuck
		}
		i.Children = append(i.Children, child)
	}
	return i
}

func limitWaitOf(g queue.GateWait) LimitWait {
	return LimitWait{
		Event: g.Event, Action: g.Action, Key: g.Key, Position: g.Position, QueueLength: g.Length, ActiveCount: g.Holding, Policy: g.Policy,
		Since: Timestamp(g.Since), LimitedUntil: Timestamp(g.LimitedUntil), Deadlocked: g.Deadlocked,
	}
}

// CustomStatusOf is nil for an instance that has not set a status.
func CustomStatusOf(c *queue.Custom) *CustomStatus {
	if c == nil {
		return nil
	}
	return &CustomStatus{Version: c.Version, Value: show.Payload(c.Payload), Cleared: c.Cleared}
}
