package api

import (
	"encoding/json"

	"github.com/pawlrun/pawl/internal/show"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
)

// Instance describes an instance. In a list, outstanding work, inbox, custom status, result and failure are left out.
type Instance struct {
	Instance      string `json:"instance"`
	Orchestration string `json:"orchestration,omitempty"`
	Version       string `json:"version,omitempty"`
	Parent        string `json:"parent,omitempty"` // instance id
	Status        string `json:"status"`           // pending, running, completed, failed or cancelled
	Execution     uint64 `json:"execution,omitempty"`
	Started       string `json:"started,omitempty"`
	StatusSince   string `json:"status_since,omitempty"` // latest change of status, by which lists are ordered; only in a list
	Updated       string `json:"updated,omitempty"`      // latest commit
	Ended         string `json:"ended,omitempty"`
	Code          string `json:"code,omitempty"`   // code of the failure that ended the instance
	Error         string `json:"error,omitempty"`  // beginning of the text of the failure
	Events        uint64 `json:"events,omitempty"` // length of the history of the latest execution
	Stalled       string `json:"stalled,omitempty"`

	Attributes json.RawMessage `json:"attributes,omitempty"` // as in a start

	UnreadInputs    uint64                  `json:"unread_inputs,omitempty"`
	PendingMessages uint64                  `json:"pending_messages,omitempty"` // messages in the outbox
	Timers          uint64                  `json:"timers,omitempty"`
	NextTimer       string                  `json:"next_timer,omitempty"`
	Activities      []Activity              `json:"activities,omitempty"`      // outstanding ones; at most 100
	Children        []Child                 `json:"children,omitempty"`        // outstanding ones; at most 100
	AwaitedEvents   []string                `json:"awaited_events,omitempty"`  // names; left out during a turn, and for an instance with more than 1,000 events that is not resident
	AwaitedUpdates  []string                `json:"awaited_updates,omitempty"` // names, under the same conditions
	OpenUpdates     []OpenUpdate            `json:"open_updates,omitempty"`    // updates without an answer; at most 100
	LimitWaits      []LimitWait             `json:"limit_waits,omitempty"`
	CustomStatus    *CustomStatus           `json:"custom_status,omitempty"`
	NamedStatuses   map[string]CustomStatus `json:"named_statuses,omitempty"`
	Result          json.RawMessage         `json:"result,omitempty"`
	Failure         any                     `json:"failure,omitempty"`       // see show.Failure
	UnreadEvents    []history.UnreadEvents  `json:"unread_events,omitempty"` // events unread at the end
	StartAt         string                  `json:"start_at,omitempty"`      // when a delayed start is due
	Deadline        string                  `json:"deadline,omitempty"`      // of the run
	PausedBy        string                  `json:"paused_by,omitempty"`
	PausedFor       string                  `json:"paused_for,omitempty"` // reason of the pause
	Stopped         bool                    `json:"stopped,omitempty"`    // the pause has stopped the activities
}

// Activity is an activity that has been scheduled and has not ended.
type Activity struct {
	Event     uint64 `json:"event"` // id of the event that scheduled it
	Name      string `json:"name"`
	Queue     string `json:"queue"`
	Worker    string `json:"worker,omitempty"` // left out: not claimed
	Claims    uint32 `json:"claims"`
	Scheduled string `json:"scheduled,omitempty"`
}

// Child is a child that has not ended.
type Child struct {
	Event     uint64 `json:"event"` // id of the event that scheduled it
	Name      string `json:"name"`
	Instance  string `json:"instance"`
	Scheduled string `json:"scheduled,omitempty"`
	Status    string `json:"status,omitempty"` // left out: not looked up, or the start has not arrived yet
	Stalled   string `json:"stalled,omitempty"`
}

// LimitWait is a wait for admission at a limit.
type LimitWait struct {
	Event        uint64 `json:"event"` // id of the event that scheduled the activity; 1: the start of the instance
	Action       string `json:"action"`
	Key          string `json:"key,omitempty"`
	Position     uint64 `json:"position,omitempty"` // from 1; left out: being admitted, or not a waiter at present
	QueueLength  uint64 `json:"queue_length"`
	ActiveCount  uint64 `json:"active_count"`
	Policy       Policy `json:"policy"`
	Since        string `json:"since,omitempty"`
	LimitedUntil string `json:"limited_until,omitempty"`
	Deadlocked   bool   `json:"deadlocked,omitempty"`
}

// CustomStatus is a custom status of an instance.
type CustomStatus struct {
	Version uint64          `json:"version"` // from 1, ascending
	Value   json.RawMessage `json:"value,omitempty"`
	Cleared bool            `json:"cleared,omitempty"`
}

// InstanceOf converts a description. lookup returns the summary of a child; it may be nil.
func InstanceOf(d client.Description, lookup func(instance string) client.Summary) Instance {
	i := SummaryOf(d.Summary)
	i.UnreadInputs, i.PendingMessages, i.Timers, i.NextTimer = d.UnreadInputs, d.PendingMessages, d.Timers, Timestamp(d.NextTimer)
	i.AwaitedEvents, i.AwaitedUpdates, i.StartAt, i.Deadline = d.AwaitedEvents, d.AwaitedUpdates, Timestamp(d.StartAt), Timestamp(d.Deadline)
	i.PausedBy, i.PausedFor, i.Stopped = d.PausedBy, d.PausedFor, d.Stopped
	for _, u := range d.OpenUpdates {
		i.OpenUpdates = append(i.OpenUpdates, OpenUpdate{
			Name: u.Name, ID: u.ID, By: u.By, At: Timestamp(u.At), Deadline: Timestamp(u.Deadline), Input: show.Payload(u.Input),
		})
	}
	i.CustomStatus, i.Result, i.UnreadEvents = CustomStatusOf(d.CustomStatus), show.Payload(d.Result), d.UnreadEvents
	for name, at := range d.NamedStatuses {
		if i.NamedStatuses == nil {
			i.NamedStatuses = make(map[string]CustomStatus, len(d.NamedStatuses))
		}
		i.NamedStatuses[name] = *CustomStatusOf(&at)
	}
	if d.Failure != nil {
		i.Failure = show.Failure(*d.Failure)
	}
	for _, a := range d.Activities {
		i.Activities = append(i.Activities, Activity{
			Event: a.Event, Name: a.Name, Queue: a.Queue, Worker: a.Worker, Claims: a.Claims, Scheduled: Timestamp(a.Scheduled),
		})
	}
	for _, w := range d.LimitWaits {
		i.LimitWaits = append(i.LimitWaits, limitWaitOf(w))
	}
	for _, c := range d.Children {
		child := Child{Event: c.Event, Name: c.Name, Instance: c.Instance, Scheduled: Timestamp(c.Scheduled)}
		if lookup != nil {
			known := lookup(c.Instance)
			child.Status, child.Stalled = string(known.Status), known.Stalled
		}
		i.Children = append(i.Children, child)
	}
	return i
}

// SummaryOf converts a row of a list.
func SummaryOf(s client.Summary) Instance {
	return Instance{
		Instance: s.Instance, Orchestration: s.Orchestration, Version: s.Version, Parent: s.Parent, Status: string(s.Status), Execution: s.Execution,
		Started: Timestamp(s.Started), StatusSince: Timestamp(s.StatusSince), Updated: Timestamp(s.Updated), Ended: Timestamp(s.Ended),
		Events: s.Events, Stalled: s.Stalled, Code: s.Code, Error: s.Error, Attributes: json.RawMessage(s.Attributes),
	}
}

func limitWaitOf(w client.LimitWait) LimitWait {
	return LimitWait{
		Event: w.Event, Action: w.Action, Key: w.Key, Position: w.Position, QueueLength: w.QueueLength, ActiveCount: w.Active,
		Policy: PolicyOf(w.Policy), Since: Timestamp(w.Since), LimitedUntil: Timestamp(w.LimitedUntil), Deadlocked: w.Deadlocked,
	}
}

// CustomStatusOf converts a custom status; nil stays nil.
func CustomStatusOf(c *client.StatusAt[history.Payload]) *CustomStatus {
	if c == nil {
		return nil
	}
	return &CustomStatus{Version: c.Version, Value: show.Payload(c.Value), Cleared: c.Cleared}
}
