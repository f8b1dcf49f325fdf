package request

import (
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Reply is the reply to a request: a pointer to one of the types of this package.
type Reply interface{ fields(c *wire.Codec) }

const (
	// MaxReply is the maximum of bytes of events or rows in one reply, so that it fits into a NATS message (1 MiB by default).
	MaxReply = 800 << 10
	// MaxLimitRows is the maximum of limits, waiters or holders in one reply.
	MaxLimitRows = 500
)

// Done is the reply to a request that has nothing to report.
type Done struct{}

func (*Done) fields(*wire.Codec) {}

// Answered is the reply to Await and Status.
type Answered struct{ Answer *Answer } // nil: not yet

func (r *Answered) fields(c *wire.Codec) {
	wire.Optional(c, &r.Answer, func(c *wire.Codec, a *Answer) { a.WireFields(c) })
}

// Summary is the row of an instance in a list. Times are Unix milliseconds, 0 if there is none.
type Summary struct {
	Instance, Orchestration, Version string
	Parent                           string // instance id; empty: not a child
	Status                           string
	Origin                           history.Position
	Execution                        uint64
	Started, Updated, Ended          int64
	StatusSince                      int64 // lists are in the order of this time
	Events                           uint64
	Stalled                          string // why the instance cannot take a turn
	Code                             string // code of the failure that ended the instance, if it has one
	Attributes                       string // encoded, see attribute.Set
	Error                            string // beginning of the text of the failure
}

func (s *Summary) fields(c *wire.Codec) {
	c.String(&s.Instance)
	c.String(&s.Orchestration)
	c.String(&s.Version)
	c.String(&s.Parent)
	c.String(&s.Status)
	eventcodec.PositionFields(c, &s.Origin)
	c.Uint(&s.Execution)
	c.Int(&s.Started)
	c.Int(&s.Updated)
	c.Int(&s.Ended)
	c.Int(&s.StatusSince)
	c.Uint(&s.Events)
	c.String(&s.Stalled)
	c.String(&s.Code)
	c.String(&s.Attributes)
	c.String(&s.Error)
}

// Description is the reply to Describe.
type Description struct {
	Summary

	Activities      []Activity // outstanding ones
	Children        []Child    // outstanding ones
	LimitWaits      []LimitWait
	AwaitedEvents   []string // names; also empty during a turn, and for an instance with a long history that is not resident
	Timers          uint64   // pending
	NextTimer       int64
	UnreadInputs    uint64
	PendingMessages uint64 // in the outbox
	CustomStatus    *CustomStatus
	Result          history.Payload
	Failure         *history.Failure
	OpenUpdates     []OpenUpdate           // updates without an answer; at most 100
	UnreadEvents    []history.UnreadEvents // events unread at the end: recorded ones, and those of the inbox, of which an owner reads 256 at a time
	Control         uint64                 // sequence in INPUTS of the last operator request that has taken effect
	PausedBy        string                 // operator who paused the instance; empty: it is not paused
	PausedFor       string                 // reason of the pause
	StartAt         int64                  // when a delayed start is due
	Deadline        int64                  // of the run
	AwaitedUpdates  []string               // names, as in AwaitedEvents
	Stopped         bool                   // the pause has stopped the activities
}

func (d *Description) fields(c *wire.Codec) {
	c.Record(d.Summary.fields)
	wire.List(c, &d.Activities, func(c *wire.Codec, a *Activity) { c.Record(a.fields) })
	wire.List(c, &d.Children, func(c *wire.Codec, x *Child) { c.Record(x.fields) })
	wire.List(c, &d.LimitWaits, func(c *wire.Codec, w *LimitWait) { c.Record(w.fields) })
	wire.List(c, &d.AwaitedEvents, (*wire.Codec).String)
	c.Uint(&d.Timers)
	c.Int(&d.NextTimer)
	c.Uint(&d.UnreadInputs)
	c.Uint(&d.PendingMessages)
	wire.Optional(c, &d.CustomStatus, func(c *wire.Codec, s *CustomStatus) { s.WireFields(c) })
	eventcodec.PayloadFields(c, &d.Result)
	wire.Optional(c, &d.Failure, eventcodec.FailureFields)
	wire.List(c, &d.UnreadEvents, func(c *wire.Codec, u *history.UnreadEvents) {
		c.Record(func(c *wire.Codec) { c.String(&u.Event); c.Uint(&u.Count) })
	})
	wire.List(c, &d.OpenUpdates, func(c *wire.Codec, u *OpenUpdate) { c.Record(u.fields) })
	c.Uint(&d.Control)
	c.String(&d.PausedBy)
	c.String(&d.PausedFor)
	c.Int(&d.StartAt)
	c.Int(&d.Deadline)
	wire.List(c, &d.AwaitedUpdates, (*wire.Codec).String)
	c.Bool(&d.Stopped)
}

// Activity is an activity that was scheduled and has not ended.
type Activity struct {
	Event               uint64 // id of the event that scheduled it
	Name, Queue, Worker string // Worker is empty without a claim
	Claims              uint32
	Scheduled           int64
}

func (a *Activity) fields(c *wire.Codec) {
	c.Uint(&a.Event)
	c.String(&a.Name)
	c.String(&a.Queue)
	c.String(&a.Worker)
	wire.Number(c, &a.Claims)
	c.Int(&a.Scheduled)
}

// Child is a child that has not ended.
type Child struct {
	Event          uint64 // id of the event that scheduled it
	Name, Instance string
	Scheduled      int64
}

func (x *Child) fields(c *wire.Codec) {
	c.Uint(&x.Event)
	c.String(&x.Name)
	c.String(&x.Instance)
	c.Int(&x.Scheduled)
}

// LimitWait is an activity of an instance, or the instance itself, that waits at a limit.
type LimitWait struct {
	Event        uint64 // id of the event that scheduled the activity; 1: the start of the instance
	Action, Key  string
	Position     uint64 // from 1; 0: not a waiter at present
	Admitted     bool   // the limit has admitted it, but the instance has not recorded that yet
	QueueLength  uint64
	Active       uint64
	Policy       history.Policy
	Since        int64
	LimitedUntil int64
	Deadlocked   bool
}

func (w *LimitWait) fields(c *wire.Codec) {
	c.Uint(&w.Event)
	c.String(&w.Action)
	c.String(&w.Key)
	c.Uint(&w.Position)
	c.Bool(&w.Admitted)
	c.Uint(&w.QueueLength)
	c.Uint(&w.Active)
	c.Record(func(c *wire.Codec) { eventcodec.PolicyFields(c, &w.Policy) })
	c.Int(&w.Since)
	c.Int(&w.LimitedUntil)
	c.Bool(&w.Deadlocked)
}

// HistoryPage is the reply to History.
type HistoryPage struct {
	Execution uint64
	Events    [][]byte // encoded as stored, in order; fewer than the limit at the end, or when MaxReply is reached
	More      bool
	Reports   []Report // about activities whose cancellations are among the events
}

func (r *HistoryPage) fields(c *wire.Codec) {
	c.Uint(&r.Execution)
	wire.List(c, &r.Events, (*wire.Codec).Bytes)
	c.Bool(&r.More)
	wire.List(c, &r.Reports, func(c *wire.Codec, x *Report) {
		c.Record(func(c *wire.Codec) { c.Uint(&x.Activity); c.String(&x.Text) })
	})
}

// Report describes how a cancelled activity ended; package lease defines the format of the text.
type Report struct {
	Activity uint64
	Text     string
}

// InstancePage is the reply to List and Stalled.
type InstancePage struct {
	Instances []Summary
	Cursor    string // for the next page; empty: this is the last one
	NotOwned  []int  // those of List.Partitions that the process does not own
}

func (r *InstancePage) fields(c *wire.Codec) {
	wire.List(c, &r.Instances, func(c *wire.Codec, s *Summary) { c.Record(s.fields) })
	c.String(&r.Cursor)
	wire.List(c, &r.NotOwned, (*wire.Codec).Count)
}

// Counts is the reply to Count.
type Counts struct {
	Groups   []Group
	Other    uint64 // instances that pass but are in no group, because their values were not read
	More     bool   // more instances may pass: the bound was reached before all candidates were read
	Stalled  uint64 // stalled instances; only without a filter
	NotOwned []int  // those of Count.Partitions that the process does not own
}

func (r *Counts) fields(c *wire.Codec) {
	wire.List(c, &r.Groups, func(c *wire.Codec, x *Group) {
		c.Record(func(c *wire.Codec) {
			c.String(&x.Value)
			c.Uint(&x.Count)
			wire.List(c, &x.Since, (*wire.Codec).Uint)
		})
	})
	c.Uint(&r.Other)
	c.Bool(&r.More)
	c.Uint(&r.Stalled)
	wire.List(c, &r.NotOwned, (*wire.Codec).Count)
}

// Group is the number of instances with a value.
type Group struct {
	Value string // empty: instances without a value
	Count uint64
	Since []uint64 // for an ended status, the number of instances that have ended since each time of Count.Since
}

// QueueDemand is the reply to Demand.
type QueueDemand struct {
	Unclaimed uint64 // tasks in the stream
	Claimed   uint64 // activities that run in the workers that answered
	Slots     uint64 // slots of these workers for the queue
	Workers   int    // workers that answered and read the queue
}

func (r *QueueDemand) fields(c *wire.Codec) {
	c.Uint(&r.Unclaimed)
	c.Uint(&r.Claimed)
	c.Uint(&r.Slots)
	c.Count(&r.Workers)
}

// OwnerVersions is the reply to Versions.
type OwnerVersions struct {
	Member, Build string
	Code          []Code
	Instances     []VersionCount
	More          bool // the partition has more instances than the owner counts
}

func (r *OwnerVersions) fields(c *wire.Codec) {
	c.String(&r.Member)
	c.String(&r.Build)
	wire.List(c, &r.Code, func(c *wire.Codec, x *Code) {
		c.Record(func(c *wire.Codec) {
			c.String(&x.Orchestration)
			wire.List(c, &x.Versions, (*wire.Codec).String)
		})
	})
	wire.List(c, &r.Instances, func(c *wire.Codec, x *VersionCount) {
		c.Record(func(c *wire.Codec) {
			c.String(&x.Orchestration)
			c.String(&x.Version)
			c.Uint(&x.Count)
		})
	})
	c.Bool(&r.More)
}

// Code lists the versions of an orchestration that an orchestrator has, the newest first. An orchestration without versions has the version "".
type Code struct {
	Orchestration string
	Versions      []string
}

// VersionCount is the number of instances of a version that have not ended.
type VersionCount struct {
	Orchestration, Version string
	Count                  uint64
}

// LimitPage is the reply to Limits and Limit.
type LimitPage struct {
	Limits []LimitStats
	Cursor string
}

func (r *LimitPage) fields(c *wire.Codec) {
	wire.List(c, &r.Limits, func(c *wire.Codec, s *LimitStats) { c.Record(s.fields) })
	c.String(&r.Cursor)
}

// LimitStats describes a limit. Times are Unix milliseconds by the clock of the limit, 0 if there is none.
type LimitStats struct {
	Action, Key     string
	Waiting, Active uint64
	OldestEnqueued  int64
	Enqueued        uint64 // admitted at once, or enqueued; without the rejected ones
	Completed       uint64
	Rejected        uint64
	TimedOut        uint64
	Withdrawn       uint64
	Cleared         uint64
	LimitedUntil    int64
	Deadlocked      bool
	Policy          history.Policy // in force
}

func (s *LimitStats) fields(c *wire.Codec) {
	c.String(&s.Action)
	c.String(&s.Key)
	for _, n := range [...]*uint64{&s.Waiting, &s.Active, &s.Enqueued, &s.Completed, &s.Rejected, &s.TimedOut, &s.Withdrawn, &s.Cleared} {
		c.Uint(n)
	}
	c.Int(&s.OldestEnqueued)
	c.Int(&s.LimitedUntil)
	c.Bool(&s.Deadlocked)
	c.Record(func(c *wire.Codec) { eventcodec.PolicyFields(c, &s.Policy) })
}

// WaiterPage is the reply to Waiters and Holders.
type WaiterPage struct {
	Waiters []Waiter
	Cursor  string
}

func (r *WaiterPage) fields(c *wire.Codec) {
	wire.List(c, &r.Waiters, func(c *wire.Codec, w *Waiter) { c.Record(w.fields) })
	c.String(&r.Cursor)
}

// Waiter is a waiter or a holder at a limit.
type Waiter struct {
	Position  uint64 // from 1; 0: a holder
	Instance  string
	Execution uint64
	Event     uint64 // id of the event that scheduled the activity; 1: the start of the instance; 0: a call that retains its slot between attempts
	Since     int64  // Unix milliseconds; 0 for a holder
}

func (w *Waiter) fields(c *wire.Codec) {
	c.Uint(&w.Position)
	c.String(&w.Instance)
	c.Uint(&w.Execution)
	c.Uint(&w.Event)
	c.Int(&w.Since)
}

// Cleared is the reply to Clear.
type Cleared struct{ Count int } // waiters that were rejected

func (r *Cleared) fields(c *wire.Codec) { c.Count(&r.Count) }

// PolicyList is the reply to Policies.
type PolicyList struct {
	Policies       []LevelPolicy // by level
	Orchestrations []string      // names that the owner registers
	Example        string        // JSON of the zero value of the input; empty: not requested, or unknown
}

func (r *PolicyList) fields(c *wire.Codec) {
	wire.List(c, &r.Policies, func(c *wire.Codec, l *LevelPolicy) {
		c.Record(func(c *wire.Codec) {
			c.String(&l.Level)
			c.Record(func(c *wire.Codec) { eventcodec.PolicyFields(c, &l.Policy) })
		})
	})
	wire.List(c, &r.Orchestrations, func(c *wire.Codec, name *string) { c.String(name) })
	c.String(&r.Example)
}

// LevelPolicy is a policy that was set at run time.
type LevelPolicy struct {
	Level  string
	Policy history.Policy
}
