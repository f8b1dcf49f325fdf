package client

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
)

// Status is the state of an instance. The value that an instance publishes about itself is its custom status: see
// CustomStatus.
type Status string

// The statuses.
const (
	Pending   Status = request.StatusPending // waits at the limit of its orchestration, or for its start
	Running   Status = "running"
	Paused    Status = "paused"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Ended reports whether an instance of this status has ended.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Summary is what a listing contains of an instance. Times are UTC, and zero if they are not known or not reached yet.
type Summary struct {
	Instance      string
	Orchestration string
	Version       string
	Parent        string // instance id; empty: not a child
	Status        Status
	Execution     uint64 // the latest, from 1; 0: not begun
	Started       time.Time
	StatusSince   time.Time // latest change of status; in a list only
	Updated       time.Time // latest commit
	Ended         time.Time
	Events        uint64 // of the history of the latest execution
	Stalled       string // why the instance cannot take a turn; empty: it can
	Code          string // of the failure that ended it; empty also for a plain error
	Error         string // the text of that failure, at most 200 bytes and " …"; of one that is encrypted "encrypted"
	Attributes    string // a JSON object, as Attributes takes it; empty: none
}

// Description describes one instance.
type Description struct {
	Summary

	Activities      []Activity // outstanding; at most 100
	Children        []Child    // outstanding; at most 100
	AwaitedEvents   []string   // names; empty also in a turn, and for one with more than 1,000 events that its owner does not have in memory
	AwaitedUpdates  []string   // likewise; also those that Update.Handle takes in the background
	LimitWaits      []LimitWait
	Timers          uint64 // pending
	NextTimer       time.Time
	UnreadInputs    uint64
	PendingMessages uint64                               // in the outbox
	CustomStatus    *StatusAt[history.Payload]           // the one without a name
	NamedStatuses   map[string]StatusAt[history.Payload] // by name
	Result          history.Payload
	Failure         *history.Failure
	OpenUpdates     []OpenUpdate           // not answered; at most 100
	UnreadEvents    []history.UnreadEvents // at the end
	StartAt         time.Time              // of a delayed start that is not due; zero: none
	Deadline        time.Time              // of the run, see RunTimeout; zero: none
	PausedBy        string                 // of a paused instance: the operator, by its own name; may be empty
	PausedFor       string                 // and the reason; may be empty
	Stopped         bool                   // the pause has stopped its activities; they run again after it
}

// OpenUpdate is an update that the instance has not answered. AttachUpdate waits for its answer.
type OpenUpdate struct {
	Name, ID string
	By       string
	At       time.Time       // when INPUTS accepted it
	Deadline time.Time       // zero: none
	Input    history.Payload // empty if it is large
}

// Activity is an activity that was scheduled and has not ended.
type Activity struct {
	Event     uint64 // id of the history event that scheduled it
	Name      string
	Queue     string
	Worker    string // empty: not claimed
	Claims    uint32
	Scheduled time.Time
}

// Child is a child whose end its parent waits for.
type Child struct {
	Event     uint64 // id of the history event that scheduled it
	Name      string // of the orchestration
	Instance  string
	Scheduled time.Time
}

// LimitWait is an activity, or the instance itself, that waits at a limit.
type LimitWait struct {
	Event        uint64 // id of the history event that scheduled the activity; 1: the start of the instance
	Action       string
	Key          string
	Position     uint64 // from 1; 0: not known to the limit at present
	Admitted     bool   // admitted, and not yet recorded by the instance
	QueueLength  uint64
	Active       uint64 // holders
	Policy       Policy // in force
	Since        time.Time
	LimitedUntil time.Time // no admission before, by rate or quota
	Deadlocked   bool      // every holder waits for a waiter of this limit
}

// Describe requests the state of an instance from its owner. Errors: ErrNotFound, ErrNoOwner, queue.ErrTimeout.
func (c *Client) Describe(ctx context.Context, id string) (Description, error) {
	d, err := c.describe(ctx, id, 0)
	if err != nil {
		return Description{}, err
	}
	return descriptionOf(d), nil
}

// describe describes an instance behind an input that the stream has accepted; 0: as it is.
func (c *Client) describe(ctx context.Context, id string, accepted uint64) (*request.Description, error) {
	d := new(request.Description)
	err := c.requestInstance(ctx, id, &request.Describe{Instance: id, Accepted: accepted}, d)
	_ = c.openResult(c.small(ctx), id, &d.Result, &d.Failure) // what cannot be opened is shown as it is
	if s := d.CustomStatus; s != nil {
		s.Payload, _ = c.opts.Codec.Open(s.Payload)
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

// statuses are those in a custom status. One that cannot be read, sealed or too large for the reply, is shown as the one without a name.
func (d *Description) statuses(s *request.CustomStatus) {
	if s == nil {
		return
	}
	all, err := history.SplitStatus(s.Payload, s.Version)
	if err != nil {
		all = []history.NamedStatus{{Version: s.Version, Payload: s.Payload}}
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

// timeOf is the time of Unix milliseconds, UTC; zero is zero.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
