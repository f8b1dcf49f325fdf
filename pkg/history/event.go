// Package history defines the record of an execution: the sealed sum of events, and what they are made of.
//
// A history is a dense list: the event with id n is element n, counted from one, and no event follows the event that ends the
// execution. Inputs (which make the execution proceed) and decisions (of its code) are recorded in the order in which they took
// effect, so that a replay sees them in the same order:
//
//	Started · decisions · input · decisions · input · decisions · end
//
// The types are plain data. A program reads histories with Client.History of pkg/client. New kinds of events, and new fields, may be added.
package history

import (
	"cmp"
	"slices"
	"time"

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
	// Meta returns the id and the time, which every event has.
	Meta() *Head
	// Input reports whether the event is an input, rather than a decision of the code.
	Input() bool
	// event is only implemented by the types of this package.
	event()
}

// Head contains the fields that all events have.
type Head struct {
	ID uint64 // place in the history, from 1; not encoded
	At int64  // Unix ms: the time of an input itself; for a decision, the execution's Now
}

// Meta returns the head itself.
func (h *Head) Meta() *Head { return h }

func (*Head) event() {}

// Input reports false: an event is a decision of the code unless its type is an input.
func (*Head) Input() bool { return false }

// Time returns At in UTC.
func (h *Head) Time() time.Time { return time.UnixMilli(h.At).UTC() }

// Payload is opaque bytes with a content type.
type Payload struct {
	Type string `json:"type,omitempty"` // content type of Data, such as TypeJSON; empty only if Data is empty
	Data []byte `json:"data,omitempty"`
}

// TypeJSON is the content type of Pawl's own codec.
const TypeJSON = "application/json"

// TypeSealed is the type of a payload that is compressed, encrypted or both: see package pawlcodec.
const TypeSealed = "pawl/sealed"

// Position is a position in the INPUTS stream. Sequence and time together distinguish two incarnations of a stream.
type Position struct {
	Seq  uint64 `json:"seq"`
	Time int64  `json:"time"` // set by the stream, Unix ns
}

// Before reports whether the stream accepted the input at p before the one at q. A stream that was recreated, or has lost its tail,
// assigns sequences a second time, so the time of p must not be later, either. Before is false for a position without a sequence.
func (p Position) Before(q Position) bool { return p.Seq != 0 && p.Seq < q.Seq && p.Time <= q.Time }

// Failure is an error as history records it. See pawl.Failure.
type Failure struct {
	Code      string   `json:"code,omitempty"`      // code of the sentinel that the error wraps; empty for a plain error
	Message   string   `json:"message"`             // text of the whole error
	Data      Payload  `json:"data,omitzero"`       // data that the author attached
	Permanent bool     `json:"permanent,omitempty"` // the call is never retried
	Stack     string   `json:"stack,omitempty"`     // stack of a panic
	Also      []string `json:"also,omitempty"`      // codes of further sentinels in the same error tree
}

// Codes of the failures that Pawl itself creates.
const (
	CodePanic        = "pawl.panic"
	CodeRunTimeout   = "pawl.run-timeout"    // the instance exceeded the timeout of its run
	CodePoison       = "pawl.poison"         // the activity exhausted its claims
	CodeTimeout      = "pawl.timeout"        // an attempt or a call timed out
	CodeCancelled    = "pawl.cancelled"      // the failure is a cancellation
	CodeUndecodable  = "pawl.undecodable"    // a payload cannot be decoded into its type
	CodeUnencodable  = "pawl.unencodable"    // a value or its type cannot be encoded as a payload
	CodeTooLarge     = "pawl.too-large"      // a payload or a history exceeds its maximum size
	CodeBlocked      = "pawl.blocked"        // orchestration code blocked three times
	CodeInboxFull    = "pawl.inbox-full"     // the inbox already has the maximum number of unread inputs
	CodeTurnTooLarge = "pawl.turn-too-large" // the turn has no room left for the call
	CodeTooMany      = "pawl.too-many"       // more outstanding activities and children than allowed
	CodeTooDeep      = "pawl.too-deep"       // the child would have too many ancestors
	CodeIDTaken      = "pawl.id-taken"       // the id of the child belongs to an instance that something else started
	CodeDiverged     = "pawl.diverged"       // the code does not match the history, and the instance is not to wait for other code

	CodeQueueFull    = "pawl.queue-full"    // the limit of the action already has its maximum number of waiters
	CodeQueueTimeout = "pawl.queue-timeout" // the caller waited at the limit for the maximum wait
	CodeQueueCleared = "pawl.queue-cleared" // an operator rejected the waiters of the limit
	CodeLimited      = "pawl.limited"       // the limit cannot admit the caller immediately, and its policy rejects callers instead of queueing them

	CodeEnded   = "pawl.ended"   // the instance ended before its code answered the update
	CodeExpired = "pawl.expired" // the deadline of the update passed before its code received it
)

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Started is the start of an execution. It is always event 1.
type Started struct {
	Head
	Name          string
	Version       string // version that governs the execution; in an input: the requested version, or empty
	Payload       Payload
	Origin        Position
	Execution     uint64
	By            string  // requester, as named by itself
	Parent        *Parent // nil: none
	StatusVersion uint64  // number of custom statuses that the previous executions have set
	Limit         *Limit  // limit that admitted the instance, or at which it waits; nil: none
	CustomStatus  Payload // left by the previous execution; empty: none
	// Cancel is a cancellation that arrived before the first turn of an execution that continues another: its code starts
	// cancelled. nil: none.
	Cancel  *CancelNote
	Headers Headers // headers of the start, which pass to the effects of the instance
	// Attributes is the text of the attributes, as requested or as the previous execution left them; empty: none.
	Attributes string

	StartAt  int64 // time of a delayed start, Unix ms; 0: immediately
	Timeout  int64 // timeout of the run, ms; 0: none
	Deadline int64 // end of the run, Unix ms; later executions have it, too; 0: none
	Reuse    Reuse // policy for an id that is already in use
	// MsgID is the message id of a start with a Reuse policy, by which the sender finds out what became of it.
	MsgID string
	// Recorded lists where the imported executions of the instance were recorded, in order.
	Recorded []Recorded
}

// Reuse is the policy of a start whose id belongs to an existing instance.
type Reuse uint8

// The policies of a start for an id that is already in use.
const (
	ReuseIgnore       Reuse = 0 // the start has no effect
	ReuseReject       Reuse = 1 // the start has no effect, and its sender receives an error
	ReuseAfterFailure Reuse = 2 // the start replaces an instance that has ended without completing
	ReuseTerminate    Reuse = 3 // the start replaces the instance, which is terminated first if it is running
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

// CancelNote is a cancellation that is part of the start of an execution.
type CancelNote struct {
	At     int64 // Unix ms
	Reason cancel.Reason
	By     string
	Text   string
}

// EventReceived is an event sent to the instance. It is recorded when it is taken from the inbox, whether or not code receives
// it.
type EventReceived struct {
	Head
	Name    string
	Payload Payload
	MsgID   string // message id set by the sender; empty: none
	By      string
	Headers Headers
}

// CancelRequested requests that the instance be cancelled.
type CancelRequested struct {
	Head
	By     string
	Text   string
	Reason cancel.Reason // zero: Requested
	Of     string        // effect id of the start that a parent cancels; empty: any start
}

// ActivityScheduled requests an activity. A lost task is published again from it.
type ActivityScheduled struct {
	Head
	Name    string
	Queue   string
	Payload Payload
	Effect  string // effect id: the same for each time that the turn is decided in the same way
	Attempt uint32 // attempt under the Retry policy, from 1; not the number of claims
	First   string // effect id of the first attempt; empty if this is the first
	Limit   *Limit // limit that admitted the activity, or at which it waits; nil: none
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
	Head
	Scheduled uint64 // id of the ActivityScheduled
	Result    Payload
	Worker    string
	Claims    uint32 // number of claims
	RanMS     uint32 // milliseconds that the handler ran, at least 1; 0: unknown
}

// ActivityFailed carries an activity's failure.
type ActivityFailed struct {
	Head
	Scheduled uint64
	Failure   Failure
	Worker    string
	Claims    uint32
	RanMS     uint32 // see ActivityCompleted
}

// ActivityCancelRequested cancels an activity whose result is no longer required. The commit that records it deletes the lease.
type ActivityCancelRequested struct {
	Head
	Scheduled uint64
	Reason    cancel.Reason
	By        string
	Text      string
}

// TimerScheduled sets a timer.
type TimerScheduled struct {
	Head
	// FireAt is in Unix milliseconds. The timeout of an attempt and the bound of detached work are counted from the owner's clock at
	// the time of the decision.
	FireAt           int64
	RetainsSlotOf    uint64 // id of the ActivityScheduled whose slot is retained until the timer fires; 0: none
	AttemptTimeoutOf uint64 // id of the ActivityScheduled whose attempt times out when the timer fires; 0: none
}

// TimerFired is the input of a due timer; its At is the FireAt of the timer.
type TimerFired struct {
	Head
	Timer uint64 // id of the TimerScheduled
}

// TimerCancelled removes a timer.
type TimerCancelled struct {
	Head
	Timer uint64
}

// Completed ends an execution with a result.
type Completed struct {
	Head
	Result Payload
}

// Failed ends an execution with a failure.
type Failed struct {
	Head
	Failure Failure
	Forced  bool // recorded by the owner instead of the code
}

// Cancelled ends an execution that was cancelled.
type Cancelled struct {
	Head
	Failure Failure // returned by the code
	By      string
	Text    string
	Forced  bool // recorded by the owner instead of the code
}

// SideEffectRecorded records the result of a side effect, or its failure.
type SideEffectRecorded struct {
	Head
	Result  Payload
	Failure *Failure // nil: the side effect returned a result
}

// Observed completes polls: every input that had arrived was applied before it. The owner records it only while the code polls.
// Its At is the execution's Now: observing does not advance time.
type Observed struct {
	Head
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
func (*ContinuedAsNew) Kind() Kind          { return KindContinuedAsNew }
func (*ChildScheduled) Kind() Kind          { return KindChildScheduled }
func (*ChildCompleted) Kind() Kind          { return KindChildCompleted }
func (*ChildFailed) Kind() Kind             { return KindChildFailed }
func (*ChildCancelRequested) Kind() Kind    { return KindChildCancelRequested }
func (*EventSent) Kind() Kind               { return KindEventSent }
func (*PatchMarked) Kind() Kind             { return KindPatchMarked }
func (*PurgeRequested) Kind() Kind          { return KindPurgeRequested }
func (*Granted) Kind() Kind                 { return KindGranted }
func (*Observed) Kind() Kind                { return KindObserved }
func (*Refused) Kind() Kind                 { return KindRefused }
func (*UpdateReceived) Kind() Kind          { return KindUpdateReceived }
func (*UpdateAnswered) Kind() Kind          { return KindUpdateAnswered }
func (*OperatorRequested) Kind() Kind       { return KindOperatorRequested }
func (*Paused) Kind() Kind                  { return KindPaused }
func (*Resumed) Kind() Kind                 { return KindResumed }
func (*Rewound) Kind() Kind                 { return KindRewound }
func (*Broadcast) Kind() Kind               { return KindBroadcast }

// The events that are inputs override the method of Head.

func (*Started) Input() bool           { return true }
func (*EventReceived) Input() bool     { return true }
func (*CancelRequested) Input() bool   { return true }
func (*ActivityCompleted) Input() bool { return true }
func (*ActivityFailed) Input() bool    { return true }
func (*TimerFired) Input() bool        { return true }
func (*ChildCompleted) Input() bool    { return true }
func (*ChildFailed) Input() bool       { return true }
func (*PurgeRequested) Input() bool    { return true }
func (*Granted) Input() bool           { return true }
func (*Observed) Input() bool          { return true }
func (*UpdateReceived) Input() bool    { return true }
func (*OperatorRequested) Input() bool { return true }
func (*Paused) Input() bool            { return true }
func (*Resumed) Input() bool           { return true }
func (*Rewound) Input() bool           { return true }
