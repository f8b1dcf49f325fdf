package client

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// Status is the status of an instance. See CustomStatus for the value that an instance publishes about itself.
type Status string

// The statuses.
const (
	Pending   Status = "pending" // it waits at the limit of its orchestration, or for the end of a delay of its start
	Running   Status = "running"
	Paused    Status = "paused"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Ended reports whether an instance with this status has ended.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Summary describes an instance in a listing. Times are UTC, and zero if unknown or not reached yet.
type Summary struct {
	Instance      string
	Orchestration string
	Version       string
	Parent        string // id of the parent instance; empty: it is not a child
	Status        Status
	Execution     uint64 // number of the latest execution, from 1; 0: not started
	Started       time.Time
	StatusSince   time.Time // time of the latest change of status; in listings only
	Updated       time.Time // time of the latest commit
	Ended         time.Time
	Events        uint64 // number of events in the history of the latest execution
	Stalled       string // reason why the instance cannot take a turn; empty: it can
	Code          string // code of the failure that ended it; empty for a plain error, too
	Error         string // text of that failure, cut at 200 bytes and " …"; "encrypted" if it is encrypted
	Attributes    string // JSON object, in the format of the option Attributes; empty: none
}

// Description describes one instance.
type Description struct {
	Summary

	Activities []Activity // outstanding activities, at most 100
	Children   []Child    // outstanding children, at most 100

	// AwaitedEvents and AwaitedUpdates are the names of what the code waits for, including updates that Update.Handle receives in the
	// background. They are empty during a turn, and for an instance with more than 1,000 events that is not in its owner's memory.
	AwaitedEvents  []string
	AwaitedUpdates []string

	LimitWaits      []LimitWait
	Timers          uint64 // number of pending timers
	NextTimer       time.Time
	UnreadInputs    uint64
	PendingMessages uint64                               // number of messages in the outbox
	CustomStatus    *StatusAt[history.Payload]           // the custom status without a name; nil: none
	NamedStatuses   map[string]StatusAt[history.Payload] // other custom statuses, by name
	Result          history.Payload
	Failure         *history.Failure
	OpenUpdates     []OpenUpdate           // updates that are not answered, at most 100
	UnreadEvents    []history.UnreadEvents // events that the code had not received at the end
	StartAt         time.Time              // time of a delayed start that is not due; zero: none
	Deadline        time.Time              // end of the RunTimeout; zero: none
	PausedBy        string                 // of a paused instance: the operator; may be empty
	PausedFor       string                 // of a paused instance: the reason; may be empty
	Stopped         bool                   // the pause has cancelled its activities, which run again after it
}

// OpenUpdate is an update that the instance has not answered. Use AttachUpdate to wait for its answer.
type OpenUpdate struct {
	Name, ID string
	By       string
	At       time.Time       // time at which INPUTS accepted it
	Deadline time.Time       // zero: none
	Input    history.Payload // empty if it is too large for the reply
}

// Activity is an activity that was scheduled and has not ended.
type Activity struct {
	Event     uint64 // id of the history event that scheduled it
	Name      string
	Queue     string
	Worker    string // worker that has claimed it; empty: none
	Claims    uint32 // number of claims so far
	Scheduled time.Time
}

// Child is a child instance whose parent waits for its end.
type Child struct {
	Event     uint64 // id of the history event that scheduled it
	Name      string // name of the orchestration
	Instance  string
	Scheduled time.Time
}

// LimitWait describes an activity, or the instance itself, that waits at a limit.
type LimitWait struct {
	Event        uint64 // id of the history event that scheduled the activity; 1: the start of the instance
	Action       string
	Key          string
	Position     uint64 // from 1; 0: not known to the limit at present
	Admitted     bool   // it has been admitted, and the instance has not recorded that yet
	QueueLength  uint64 // number of waiters
	Active       uint64 // number of holders
	Policy       Policy // the policy in force
	Since        time.Time
	LimitedUntil time.Time // time until which rate or quota allow no admission; zero: they allow one now
	Deadlocked   bool      // every holder has a descendant among the waiters
}

// Describe returns the state of an instance, as reported by its owner. Errors: ErrNotFound, ErrNoOwner, queue.ErrTimeout, pawl.ErrBadID.
func (c *Client) Describe(ctx context.Context, id string) (Description, error) {
	d, err := c.describe(ctx, id, 0)
	if err != nil {
		return Description{}, err
	}
	return descriptionOf(d), nil
}

// describe returns the state of an instance after the input at the stream position accepted has been applied; 0: its current state.
func (c *Client) describe(ctx context.Context, id string, accepted uint64) (*request.Description, error) {
	d := new(request.Description)
	err := c.requestInstance(ctx, id, &request.Describe{Instance: id, Accepted: accepted}, d)
	_ = c.openResult(c.small(ctx), id, &d.Result, &d.Failure) // a payload that cannot be decoded is returned as stored
	if s := d.CustomStatus; s != nil {
		s.Payload, _ = c.codec().Open(s.Payload)
	}
	for i := range d.OpenUpdates {
		u := &d.OpenUpdates[i]
		u.Input, _ = c.small(ctx)(u.Input)
	}
	return d, err
}

func summaryOf(s *request.Summary) Summary {
	return Summary{
		Instance: s.Instance, Orchestration: s.Orchestration, Version: s.Version, Parent: s.Parent, Status: Status(s.Status), Execution: s.Execution,
		Started: timeOf(s.Started), StatusSince: timeOf(s.StatusSince), Updated: timeOf(s.Updated), Ended: timeOf(s.Ended), Events: s.Events, Stalled: s.Stalled, Code: s.Code,
		Error: s.Error, Attributes: s.Attributes,
	}
}

func descriptionOf(d *request.Description) Description {
	out := Description{
		Summary: summaryOf(&d.Summary), Timers: d.Timers, NextTimer: timeOf(d.NextTimer), UnreadInputs: d.UnreadInputs,
		PendingMessages: d.PendingMessages, Result: d.Result, Failure: d.Failure, UnreadEvents: d.UnreadEvents, AwaitedEvents: d.AwaitedEvents, AwaitedUpdates: d.AwaitedUpdates,
		StartAt: timeOf(d.StartAt), Deadline: timeOf(d.Deadline), PausedBy: d.PausedBy, PausedFor: d.PausedFor, Stopped: d.Stopped,
	}
	out.statuses(d.CustomStatus)
	for _, u := range d.OpenUpdates {
		out.OpenUpdates = append(out.OpenUpdates, OpenUpdate{Name: u.Name, ID: u.ID, By: u.By, At: timeOf(u.At), Deadline: timeOf(u.Deadline), Input: u.Input})
	}
	for _, a := range d.Activities {
		out.Activities = append(out.Activities, Activity{
			Event: a.Event, Name: a.Name, Queue: a.Queue, Worker: a.Worker, Claims: a.Claims, Scheduled: timeOf(a.Scheduled),
		})
	}
	for _, x := range d.Children {
		out.Children = append(out.Children, Child{Event: x.Event, Name: x.Name, Instance: x.Instance, Scheduled: timeOf(x.Scheduled)})
	}
	for _, w := range d.LimitWaits {
		out.LimitWaits = append(out.LimitWaits, LimitWait{
			Event: w.Event, Action: w.Action, Key: w.Key, Position: w.Position, Admitted: w.Admitted, QueueLength: w.QueueLength, Active: w.Active,
			Policy: PolicyOf(w.Policy), Since: timeOf(w.Since), LimitedUntil: timeOf(w.LimitedUntil), Deadlocked: w.Deadlocked,
		})
	}
	return out
}

// statuses sets the custom statuses. If they cannot be decoded (encrypted, or too large for the reply), they are returned as the one
// without a name.
func (d *Description) statuses(s *request.CustomStatus) {
	if s == nil {
		return
	}
	all, err := eventcodec.SplitStatus(s.Payload, s.Version)
	if err != nil {
		all = []eventcodec.NamedStatus{{Version: s.Version, Payload: s.Payload}}
	}
	for _, x := range all {
		at := StatusAt[history.Payload]{Value: x.Payload, Version: x.Version, Cleared: x.Cleared() && (s.Cleared || x.Name != "" || len(all) > 1)}
		if x.Name == "" {
			d.CustomStatus = &at
			continue
		}
		if d.NamedStatuses == nil {
			d.NamedStatuses = make(map[string]StatusAt[history.Payload], len(all))
		}
		d.NamedStatuses[x.Name] = at
	}
}

// timeOf converts Unix milliseconds to a UTC time; 0 is the zero time.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
