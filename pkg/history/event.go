// Package history defines the record of an execution: the sealed sum of events, their encoding, and the fold of a history.
//
// A history is a dense list: the event with id n is at place n, counted from one, and nothing follows the event that ends it.
// Inputs (which moved the execution) and decisions (of its code) are in the order in which they took effect, so that a replay
// meets them in the same order:
//
//	Started · decisions · input · decisions · input · decisions · end
//
// The package does no I/O; pkg/history/store keeps histories in Redis. Its API may change.
package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Kind is the number of an event type in the encoding. A number is never reused.
type Kind uint8

// The kinds.
const (
	KindStarted                 Kind = 1
	KindEventReceived           Kind = 2
	KindCancelRequested         Kind = 3
	KindActivityScheduled       Kind = 4
	KindActivityCompleted       Kind = 5
	KindActivityFailed          Kind = 6
	KindActivityCancelRequested Kind = 7
	KindTimerScheduled          Kind = 8
	KindTimerFired              Kind = 9
	KindTimerCancelled          Kind = 10
	KindCompleted               Kind = 11
	KindFailed                  Kind = 12
	KindCancelled               Kind = 13
	KindSideEffectRecorded      Kind = 14
	KindContinuedAsNew          Kind = 15
	KindChildScheduled          Kind = 16
	KindChildCompleted          Kind = 17
	KindChildFailed             Kind = 18
	KindChildCancelRequested    Kind = 19
	KindEventSent               Kind = 20
	KindPatchMarked             Kind = 21
	KindPurgeRequested          Kind = 22
	KindGranted                 Kind = 23
	KindObserved                Kind = 24
	KindRefused                 Kind = 25
	KindUpdateReceived          Kind = 26
	KindUpdateAnswered          Kind = 27
	KindOperatorRequested       Kind = 32
	KindPaused                  Kind = 33
	KindResumed                 Kind = 34
	KindRewound                 Kind = 35
	KindBroadcast               Kind = 36
)

// Event is one element of a history. The set of implementations is closed; a
// switch over them must handle every one (see Kind).
type Event interface {
	Kind() Kind
	// Meta returns the id and the time, which all events have.
	Meta() *Head
	// Input reports whether the event moved the execution, rather than being decided by it.
	Input() bool
	// fields describes the encoding, for writing and reading.
	fields(c *wire.Codec)
}

// Head has the fields of all events.
type Head struct {
	ID uint64 `msgpack:"-"` // place in the history, from 1; not encoded
	At int64  `msgpack:"-"` // Unix milliseconds: an input's own time; for a decision, the execution's Now
}

// Meta returns the head itself.
func (h *Head) Meta() *Head { return h }

// Time returns At in UTC.
func (h *Head) Time() time.Time { return time.UnixMilli(h.At).UTC() }

// Payload is opaque bytes with a content type.
type Payload struct {
	Type string `json:"type,omitempty"` // of the data, such as TypeJSON; empty only when Data is empty
	Data []byte `json:"data,omitempty"`
}

// TypeJSON is the content type of Pawl's own codec.
const TypeJSON = "application/json"

// TypeSealed is the type of a payload that is compressed, encrypted or both: see package pawlcodec.
const TypeSealed = "pawl/sealed"

// Position is a place in the inputs stream. Sequence and time together distinguish two incarnations of a stream.
type Position struct {
	Seq  uint64 `json:"seq"`
	Time int64  `json:"time"` // Unix nanoseconds, of the stream
}

// Before reports an input that the stream had accepted before the one at q. A stream that was created again, or has lost its tail, gives
// sequences a second time, so the time must not be later, either. Nothing is known of one without a sequence.
func (p Position) Before(q Position) bool { return p.Seq != 0 && p.Seq < q.Seq && p.Time <= q.Time }

// Failure is an error as history records it. See pawl.Failure.
type Failure struct {
	Code      string   `json:"code,omitempty"`      // of the sentinel it came from; empty for a plain error
	Message   string   `json:"message"`             // the text of the whole error
	Data      Payload  `json:"data,omitzero"`       // data of the author
	Permanent bool     `json:"permanent,omitempty"` // never retried
	Stack     string   `json:"stack,omitempty"`     // of a panic
	Also      []string `json:"also,omitempty"`      // codes of further sentinels in the same error tree
}

// Codes of the failures that Pawl makes.
const (
	CodePanic        = "pawl.panic"
	CodeRunTimeout   = "pawl.run-timeout"    // the instance exceeded the timeout of its run
	CodePoison       = "pawl.poison"         // claims exhausted
	CodeTimeout      = "pawl.timeout"        // an attempt or a call timed out
	CodeCancelled    = "pawl.cancelled"      // the failure is a cancellation
	CodeUndecodable  = "pawl.undecodable"    // a payload does not decode into the type it is for
	CodeUnencodable  = "pawl.unencodable"    // a type or a value that cannot be a payload
	CodeTooLarge     = "pawl.too-large"      // a payload or a history over its limit
	CodeBlocked      = "pawl.blocked"        // orchestration code blocked three times
	CodeInboxFull    = "pawl.inbox-full"     // more unread inputs than an instance may have
	CodeTurnTooLarge = "pawl.turn-too-large" // a call that its turn has no room for
	CodeTooMany      = "pawl.too-many"       // more outstanding activities and children than allowed
	CodeTooDeep      = "pawl.too-deep"       // a child whose ancestors are as many as allowed
	CodeIDTaken      = "pawl.id-taken"       // the id of a child belongs to an instance that something else started
	CodeDiverged     = "pawl.diverged"       // the code does not match the history, and is not to wait for other code

	CodeQueueFull    = "pawl.queue-full"    // the limit of the action has its maximum number of waiters
	CodeQueueTimeout = "pawl.queue-timeout" // it waited at the limit for the maximum wait
	CodeQueueCleared = "pawl.queue-cleared" // the waiters of the limit were cleared
	CodeLimited      = "pawl.limited"       // the action is limited, and its policy rejects callers instead of queueing them

	CodeEnded   = "pawl.ended"   // the instance ended before its code answered the update
	CodeExpired = "pawl.expired" // the deadline of the update passed before its code received it
)

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Started is always event 1.
type Started struct {
	Head          `msgpack:"-"`
	Name          string
	Version       string // that governs the execution; of an input: the requested one, or empty
	Payload       Payload
	Origin        Position
	Execution     uint64
	By            string  // requester, by its own name
	Parent        *Parent // nil: none
	StatusVersion uint64  // number of custom statuses that the previous executions have set
	Limit         *Limit  // that admitted the instance, or at which it waits; nil: none
	CustomStatus  Payload // as the previous execution left it; empty: none
	// Cancel is the cancellation that had arrived before the first turn of an execution that follows another: its code begins
	// cancelled. nil: none.
	Cancel  *CancelNote
	Headers Headers // of the start, and of what follows from it
	// Attributes is the text of Attributes: as requested, or as the previous execution left them; empty: none.
	Attributes string

	StartAt  int64 // of a delayed start: Unix ms; 0: at once
	Timeout  int64 // of the run, ms; 0: none
	Deadline int64 // of the run: Unix ms; the executions that follow receive it; 0: none
	Reuse    Reuse // of an id that an instance has
	// MsgID is the sender's id of the message of a start with a policy for its id, by which its sender finds what has become of it.
	MsgID string
	// Recorded is where executions were recorded that the instance was imported with, in order.
	Recorded []Recorded
}

// Reuse is what a start does with an instance that has its id.
type Reuse uint8

// The policies.
const (
	ReuseIgnore       Reuse = 0 // nothing, and the start has no effect
	ReuseReject       Reuse = 1 // the same, and it is reported to its sender
	ReuseAfterFailure Reuse = 2 // it is replaced if it has ended, and was not completed
	ReuseTerminate    Reuse = 3 // it is replaced, and terminated before if it has not ended
)

var reuses = [...]string{ReuseIgnore: "ignore", ReuseReject: "reject", ReuseAfterFailure: "after-failure", ReuseTerminate: "terminate-existing"}

// String returns the name of the policy.
func (r Reuse) String() string {
	if int(r) < len(reuses) {
		return reuses[r]
	}
	return "unknown"
}

// ParseReuse reads the name of a policy; "" is ReuseIgnore.
func ParseReuse(name string) (Reuse, bool) {
	i := slices.Index(reuses[:], cmp.Or(name, reuses[ReuseIgnore]))
	return Reuse(max(i, 0)), i >= 0 //nolint:gosec // an index of a short list
}

// CancelNote is a cancellation of an instance, as part of a start.
type CancelNote struct {
	At     int64 // Unix ms
	Reason cancel.Reason
	By     string
	Text   string
}

// EventReceived is an event sent to the instance. It is recorded when it is taken from the inbox, whether or not code receives
// it.
type EventReceived struct {
	Head    `msgpack:"-"`
	Name    string
	Payload Payload
	MsgID   string // message id of the sender; empty: none
	By      string
	Headers Headers
}

// CancelRequested requests the end of the instance.
type CancelRequested struct {
	Head   `msgpack:"-"`
	By     string
	Text   string
	Reason cancel.Reason // zero: Requested
	Of     string        // effect id of the start that a parent cancels; empty: any
}

// ActivityScheduled requests an activity. Lost tasks are published again from it.
type ActivityScheduled struct {
	Head    `msgpack:"-"`
	Name    string
	Queue   string
	Payload Payload
	Effect  string // the effect id: see package replay
	Attempt uint32 // of the Retry policy, from 1; not the number of claims
	First   string // effect id of the first attempt; empty if this is it
	Limit   *Limit // that admitted it, or at which it waits; nil: none
}

// CallKey identifies all attempts of a call: the effect id of the first.
func (e *ActivityScheduled) CallKey() string {
	if e.First == "" {
		return e.Effect
	}
	return e.First
}

// ActivityCompleted carries an activity's result.
type ActivityCompleted struct {
	Head      `msgpack:"-"`
	Scheduled uint64 // id of the ActivityScheduled
	Result    Payload
	Worker    string
	Claims    uint32 // number of claims
	RanMS     uint32 // milliseconds that the handler ran, at least 1; 0: not known
}

// ActivityFailed carries an activity's failure.
type ActivityFailed struct {
	Head      `msgpack:"-"`
	Scheduled uint64
	Failure   Failure
	Worker    string
	Claims    uint32
	RanMS     uint32 // as of ActivityCompleted
}

// ActivityCancelRequested cancels an activity whose result is no longer required. The commit that records it deletes the lease.
type ActivityCancelRequested struct {
	Head      `msgpack:"-"`
	Scheduled uint64
	Reason    cancel.Reason
	By        string
	Text      string
}

// TimerScheduled sets a timer.
type TimerScheduled struct {
	Head             `msgpack:"-"`
	FireAt           int64  // Unix milliseconds. The timeout of an attempt and the bound of detached work count from the owner's clock when they were decided
	RetainsSlotOf    uint64 // id of the ActivityScheduled whose slot is retained until the timer fires; 0: none
	AttemptTimeoutOf uint64 // id of the ActivityScheduled whose attempt times out when the timer fires; 0: none
}

// TimerFired is the input of a due timer; its At is the FireAt of the timer.
type TimerFired struct {
	Head  `msgpack:"-"`
	Timer uint64 // id of the TimerScheduled
}

// TimerCancelled removes a timer.
type TimerCancelled struct {
	Head  `msgpack:"-"`
	Timer uint64
}

// Completed ends an execution with a result.
type Completed struct {
	Head   `msgpack:"-"`
	Result Payload
}

// Failed ends an execution with a failure.
type Failed struct {
	Head    `msgpack:"-"`
	Failure Failure
	Forced  bool // recorded by the owner, without the code
}

// Cancelled ends an execution that was cancelled.
type Cancelled struct {
	Head    `msgpack:"-"`
	Failure Failure // returned by the code
	By      string
	Text    string
	Forced  bool // recorded by the owner, without the code
}

// SideEffectRecorded has the result of a side effect, or its failure.
type SideEffectRecorded struct {
	Head    `msgpack:"-"`
	Result  Payload
	Failure *Failure // nil: it returned a result
}

// Observed completes polls: every input that had arrived was applied before it. The owner records it only while the code polls.
// Its At is the execution's Now: observing takes no time.
type Observed struct {
	Head `msgpack:"-"`
}

func (*Started) Kind() Kind                 { return KindStarted }
func (*EventReceived) Kind() Kind           { return KindEventReceived }
func (*CancelRequested) Kind() Kind         { return KindCancelRequested }
func (*ActivityScheduled) Kind() Kind       { return KindActivityScheduled }
func (*ActivityCompleted) Kind() Kind       { return KindActivityCompleted }
func (*ActivityFailed) Kind() Kind          { return KindActivityFailed }
func (*ActivityCancelRequested) Kind() Kind { return KindActivityCancelRequested }
func (*TimerScheduled) Kind() Kind          { return KindTimerScheduled }
func (*TimerFired) Kind() Kind              { return KindTimerFired }
func (*TimerCancelled) Kind() Kind          { return KindTimerCancelled }
func (*Completed) Kind() Kind               { return KindCompleted }
func (*Failed) Kind() Kind                  { return KindFailed }
func (*Cancelled) Kind() Kind               { return KindCancelled }
func (*SideEffectRecorded) Kind() Kind      { return KindSideEffectRecorded }
func (*Observed) Kind() Kind                { return KindObserved }

// Input reports whether the event moved the execution.
func (*Started) Input() bool                 { return true }
func (*EventReceived) Input() bool           { return true }
func (*CancelRequested) Input() bool         { return true }
func (*ActivityScheduled) Input() bool       { return false }
func (*ActivityCompleted) Input() bool       { return true }
func (*ActivityFailed) Input() bool          { return true }
func (*ActivityCancelRequested) Input() bool { return false }
func (*TimerScheduled) Input() bool          { return false }
func (*TimerFired) Input() bool              { return true }
func (*TimerCancelled) Input() bool          { return false }
func (*Completed) Input() bool               { return false }
func (*Failed) Input() bool                  { return false }
func (*Cancelled) Input() bool               { return false }
func (*SideEffectRecorded) Input() bool      { return false }
func (*Observed) Input() bool                { return true }
