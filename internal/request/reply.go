package request

import (
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

// Statuses of an instance beside those in its record.
const (
	StatusPending = "pending" // waits at a limit for its first turn, or is known by its inputs only
	StatusPurged  = "purged"  // the purge that is answered has removed the instance
)

// Problem is why a request has failed.
type Problem struct {
	Code    string // one of the constants below
	Message string
}

// Error is the message.
func (p *Problem) Error() string { return p.Message }

func (p *Problem) fields(c *wire.Codec) { c.String(&p.Code); c.String(&p.Message) }

// Codes of problems.
const (
	ProblemNotFound   = "not-found"   // no such instance, limit or policy
	ProblemNotOwner   = "not-owner"   // the partition is being handed over: repeat the request
	ProblemBadRequest = "bad-request" // the request cannot be understood
	ProblemRefused    = "refused"     // the input or the policy cannot take effect; the message reports why
	ProblemInternal   = "internal"    // the owner failed; its log has more
)

// Done is the reply to a request that has nothing to report.
type Done struct{}

func (*Done) fields(*wire.Codec) {}

// Answer reports the end of an instance, its custom status, or why they cannot be reported.
type Answer struct {
	Instance  string
	Origin    history.Position
	Execution uint64
	Status    string           // completed, failed, cancelled; of a custom status also running; of a purge StatusPurged
	Result    history.Payload  // of Await
	Failure   *history.Failure // of Await
	Problem   *Problem         // if set, nothing else is
	Custom    *CustomStatus    // of Status: the latest; nil: none was ever set
}

func (a *Answer) fields(c *wire.Codec) {
	c.String(&a.Instance)
	a.Origin.WireFields(c)
	c.Uint(&a.Execution)
	c.String(&a.Status)
	a.Result.WireFields(c)
	wire.Optional(c, &a.Failure, func(c *wire.Codec, f *history.Failure) { f.WireFields(c) })
	wire.Optional(c, &a.Problem, func(c *wire.Codec, p *Problem) { p.fields(c) })
	wire.Optional(c, &a.Custom, func(c *wire.Codec, s *CustomStatus) { s.fields(c) })
}

// Answered is the reply to Await and Status.
type Answered struct{ Answer *Answer } // nil: not yet

func (r *Answered) fields(c *wire.Codec) {
	wire.Optional(c, &r.Answer, func(c *wire.Codec, a *Answer) { a.fields(c) })
}

// CustomStatus is the custom status of an instance.
type CustomStatus struct {
	Version uint64 // from 1, ascending over all executions
	Payload history.Payload
	Cleared bool // an empty Payload alone may be one that does not fit into the reply
}

func (s *CustomStatus) fields(c *wire.Codec) {
	c.Uint(&s.Version)
	s.Payload.WireFields(c)
	c.Bool(&s.Cleared)
}

// Summary is what a list contains of an instance. Times are Unix milliseconds, 0 if there is none.
type Summary struct {
	Instance, Orchestration, Version string
	Parent                           string // instance id; empty: not a child
	Status                           string
	Origin                           history.Position
	Execution                        uint64
	Started, Updated, Ended          int64
	StatusSince                      int64 // the order of a list
	Events                           uint64
	Stalled                          string // why it cannot take a turn
	Code                             string // of the failure that ended it; empty also for one without
}

func (s *Summary) fields(c *wire.Codec) {
	c.String(&s.Instance)
	c.String(&s.Orchestration)
	c.String(&s.Version)
	c.String(&s.Parent)
	c.String(&s.Status)
	s.Origin.WireFields(c)
	c.Uint(&s.Execution)
	c.Int(&s.Started)
	c.Int(&s.Updated)
	c.Int(&s.Ended)
	c.Int(&s.StatusSince)
	c.Uint(&s.Events)
	c.String(&s.Stalled)
	c.String(&s.Code)
}

// Description is the reply to Describe.
type Description struct {
	Summary

	Activities      []Activity // outstanding
	Children        []Child    // outstanding
	LimitWaits      []LimitWait
	AwaitedEvents   []string // names; empty also for an instance that is not in the memory of its owner
	Timers          uint64   // pending
	NextTimer       int64
	UnreadInputs    uint64
	PendingMessages uint64 // in the outbox
	CustomStatus    *CustomStatus
	Result          history.Payload
	Failure         *history.Failure
	UnreadEvents    []history.UnreadEvents // at the end: received, and those of its inbox, of which an owner reads 256 at a time
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
	wire.Optional(c, &d.CustomStatus, func(c *wire.Codec, s *CustomStatus) { s.fields(c) })
	d.Result.WireFields(c)
	wire.Optional(c, &d.Failure, func(c *wire.Codec, f *history.Failure) { f.WireFields(c) })
	wire.List(c, &d.UnreadEvents, func(c *wire.Codec, u *history.UnreadEvents) {
		c.Record(func(c *wire.Codec) { c.String(&u.Event); c.Uint(&u.Count) })
	})
}

// Activity is an activity that was scheduled and has not ended.
type Activity struct {
	Event               uint64 // that scheduled it
	Name, Queue, Worker string // Worker is empty if it is not claimed
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

// Child is a child whose end its parent waits for.
type Child struct {
	Event          uint64 // that scheduled it
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
	Event        uint64 // that scheduled the activity; 1: the start of the instance
	Action, Key  string
	Position     uint64 // from 1; 0: not a waiter at present
	Admitted     bool   // admitted, and not yet recorded by the instance
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
	c.Record(w.Policy.WireFields)
	c.Int(&w.Since)
	c.Int(&w.LimitedUntil)
	c.Bool(&w.Deadlocked)
}

// HistoryPage is the reply to History.
type HistoryPage struct {
	Execution uint64
	Events    [][]byte // as stored, in order; fewer than the limit at the end, or when MaxReply is reached
	More      bool
	Reports   []Report // of the activities whose cancellations are among the events
}

func (r *HistoryPage) fields(c *wire.Codec) {
	c.Uint(&r.Execution)
	wire.List(c, &r.Events, (*wire.Codec).Bytes)
	c.Bool(&r.More)
	wire.List(c, &r.Reports, func(c *wire.Codec, x *Report) {
		c.Record(func(c *wire.Codec) { c.Uint(&x.Activity); c.String(&x.Text) })
	})
}

// Report is how a cancelled activity ended; package lease describes the text.
type Report struct {
	Activity uint64
	Text     string
}

// InstancePage is the reply to List and Stalled.
type InstancePage struct {
	Instances []Summary
	Cursor    string // of the next page; empty: this is the last
}

func (r *InstancePage) fields(c *wire.Codec) {
	wire.List(c, &r.Instances, func(c *wire.Codec, s *Summary) { c.Record(s.fields) })
	c.String(&r.Cursor)
}

// Counts is the reply to Count.
type Counts struct {
	Status  []StatusCount
	Stalled uint64
}

func (r *Counts) fields(c *wire.Codec) {
	wire.List(c, &r.Status, func(c *wire.Codec, x *StatusCount) {
		c.Record(func(c *wire.Codec) {
			c.String(&x.Status)
			c.Uint(&x.Count)
			wire.List(c, &x.Since, (*wire.Codec).Uint)
		})
	})
	c.Uint(&r.Stalled)
}

// StatusCount is the number of instances of a status.
type StatusCount struct {
	Status string
	Count  uint64
	Since  []uint64 // of an end: those that have ended since each of the times
}

// QueueDemand is the reply to Demand.
type QueueDemand struct {
	Unclaimed uint64 // tasks in the stream
	Claimed   uint64 // activities that run in the workers that answered
	Slots     uint64 // of these workers, for the queue
	Workers   int    // that read the queue
}

func (r *QueueDemand) fields(c *wire.Codec) {
	c.Uint(&r.Unclaimed)
	c.Uint(&r.Claimed)
	c.Uint(&r.Slots)
	c.Count(&r.Workers)
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
	Enqueued        uint64 // admitted at once or enqueued, without the rejected ones
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
	c.Record(s.Policy.WireFields)
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
	Event     uint64 // that scheduled the activity; 1: the start of the instance; 0: a call that keeps its slot between attempts
	Since     int64  // Unix milliseconds; 0 of a holder
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
}

func (r *PolicyList) fields(c *wire.Codec) {
	wire.List(c, &r.Policies, func(c *wire.Codec, l *LevelPolicy) {
		c.Record(func(c *wire.Codec) { c.String(&l.Level); c.Record(l.Policy.WireFields) })
	})
	wire.List(c, &r.Orchestrations, func(c *wire.Codec, name *string) { c.String(name) })
}

// LevelPolicy is a policy that was set at run time.
type LevelPolicy struct {
	Level  string
	Policy history.Policy
}
