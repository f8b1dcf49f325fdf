package client

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Status is the state of an instance. The value that an instance publishes about itself is its custom status: see
// CustomStatus.
type Status string

// The statuses.
const (
	Pending   Status = queue.StatusPending // waits at the limit of its orchestration, or for its start
	Running   Status = "running"
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
	Updated       time.Time // latest change of status
	Ended         time.Time
	Events        uint64 // of the history of the latest execution
	Stalled       string // why the instance cannot take a turn; empty: it can
}

// Description describes one instance.
type Description struct {
	Summary

	Activities      []Activity // outstanding; at most 100
	Children        []Child    // outstanding; at most 100
	AwaitedEvents   []string   // names; empty also for an instance that its owner does not have in memory
	LimitWaits      []LimitWait
	Timers          uint64 // pending
	NextTimer       time.Time
	UnreadInputs    uint64
	PendingMessages uint64 // in the outbox
	CustomStatus    *StatusAt[history.Payload]
	Result          history.Payload
	Failure         *history.Failure
	UnreadEvents    []history.UnreadEvents // at the end
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
	d, err := c.describe(ctx, id)
	if err != nil {
		return Description{}, err
	}
	return descriptionOf(d), nil
}

func (c *Client) describe(ctx context.Context, id string) (*queue.Described, error) {
	if err := pawl.ValidateID(id); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	r, err := c.ask(ctx, c.conn.PartitionOf(id), queue.Ask{Op: queue.OpDescribe, Instance: id})
	if err == nil && r.Described == nil {
		err = fmt.Errorf("client: the owner of %s gave no description", id)
	}
	return r.Described, err
}

func summaryOf(d *queue.Described) Summary {
	return Summary{
		Instance: d.Instance, Orchestration: d.Orchestration, Version: d.Version, Parent: d.Parent, Status: Status(d.Status), Execution: d.Execution,
		Started: timeOf(d.Created), Updated: timeOf(d.Updated), Ended: timeOf(d.Ended), Events: d.Events, Stalled: d.Stuck,
	}
}

func descriptionOf(d *queue.Described) Description {
	out := Description{
		Summary: summaryOf(d), Timers: d.Timers, NextTimer: timeOf(d.NextTimer), UnreadInputs: d.Inbox, PendingMessages: d.Owes,
		Result: d.Result, Failure: d.Failure, UnreadEvents: d.Unread, AwaitedEvents: d.Awaited,
	}
	if c := d.Custom; c != nil {
		out.CustomStatus = &StatusAt[history.Payload]{Value: c.Payload, Version: c.Version, Cleared: c.Cleared}
	}
	for _, a := range d.Outstanding {
		out.Activities = append(out.Activities, Activity{
			Event: a.Activity, Name: a.Name, Queue: a.Queue, Worker: a.Worker, Claims: a.Claims, Scheduled: timeOf(a.Since),
		})
	}
	for _, c := range d.Children {
		out.Children = append(out.Children, Child{Event: c.Event, Name: c.Name, Instance: c.Instance, Scheduled: timeOf(c.Since)})
	}
	for _, w := range d.Waits {
		out.LimitWaits = append(out.LimitWaits, LimitWait{
			Event: w.Event, Action: w.Action, Key: w.Key, Position: w.Position, Admitted: w.In, QueueLength: w.Length, Active: w.Holding,
			Policy: policyOf(w.Policy), Since: timeOf(w.Since), LimitedUntil: timeOf(w.LimitedUntil), Deadlocked: w.Deadlocked,
		})
	}
	return out
}

// timeOf is the time of Unix milliseconds, UTC; zero is zero.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
