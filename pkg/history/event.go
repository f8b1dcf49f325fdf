// Package history is the record of an execution: the sealed sum of events, their
// encoding, and the fold that tells what a history means.
//
// A history is a dense list: the event with id n stands at place n, counted from
// one, and nothing follows the event that ends it. Inputs (what moved the
// execution) and decisions (what its code did about it) stand in the order in
// which they took effect, so that a replay meets them in the same order:
//
//	Started · decisions · input · decisions · input · decisions · end
//
// The package does no I/O; pkg/history/store keeps histories in Redis. Its API may change.
package history

import (
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Kind numbers the events in their encoding. A number is never used again for something else.
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
)

// Event is one element of a history. The set of implementations is closed; a
// switch over them must handle every one (see Kind).
type Event interface {
	Kind() Kind
	// Meta gives the id and the time that all events share.
	Meta() *Head
	// Input reports whether the event moved the execution, rather than being decided by it.
	Input() bool
}

// Head is what all events share.
type Head struct {
	ID uint64 `msgpack:"-"` // place in the history, from 1; not encoded, for the place says it
	At int64  `msgpack:"-"` // Unix milliseconds: an input's own time; for a decision, the execution's Now
}

// Meta returns the head itself.
func (h *Head) Meta() *Head { return h }

// Time gives At as a time in UTC.
func (h *Head) Time() time.Time { return time.UnixMilli(h.At).UTC() }

// Payload is opaque bytes with a content type.
type Payload struct {
	Type string `json:"type,omitempty"` // of the data, such as TypeJSON; empty only when Data is empty
	Data []byte `json:"data,omitempty"`
}

// TypeJSON is the content type of what Pawl's own codec writes and reads.
const TypeJSON = "application/json"

// Position is a place in the inputs stream. Sequence and time together tell two
// incarnations of a stream apart.
type Position struct {
	Seq  uint64 `json:"seq"`
	Time int64  `json:"time"` // Unix nanoseconds, as the stream has it
}

// Failure is an error in the form that survives history. See pawl.Failure.
type Failure struct {
	Code      string   `json:"code,omitempty"`      // of the sentinel it came from; empty for a plain error
	Message   string   `json:"message"`             // the text of the whole error
	Data      Payload  `json:"data,omitzero"`       // what the author attached
	Permanent bool     `json:"permanent,omitempty"` // never retried
	Stack     string   `json:"stack,omitempty"`     // of a panic
	Also      []string `json:"also,omitempty"`      // codes of further sentinels in the same error tree
}

// Codes of failures that Pawl itself makes.
const (
	CodePanic        = "pawl.panic"
	CodePoison       = "pawl.poison"         // claimed too often without an end
	CodeTimeout      = "pawl.timeout"        // an attempt or a whole call took too long
	CodeCancelled    = "pawl.cancelled"      // the failure is a cancellation
	CodeUndecodable  = "pawl.undecodable"    // a payload does not decode into the type it is for
	CodeUnencodable  = "pawl.unencodable"    // a type or a value that cannot be a payload
	CodeTooLarge     = "pawl.too-large"      // a payload or a history over its limit
	CodeBlocked      = "pawl.blocked"        // orchestration code blocked three times
	CodeInboxFull    = "pawl.inbox-full"     // more unread inputs than an instance may have
	CodeTurnTooLarge = "pawl.turn-too-large" // a call that its turn has no room for
	CodeTooMany      = "pawl.too-many"       // more outstanding activities and children than allowed
	CodeTooDeep      = "pawl.too-deep"       // a child whose ancestors are as many as allowed
	CodeIDTaken      = "pawl.id-taken"       // a child's id belongs to an instance that somebody else has started
	CodeDiverged     = "pawl.diverged"       // the code does not do what the history says, and is not to wait for other code

	CodeQueueFull    = "pawl.queue-full"    // as many wait at the gate of the action as may
	CodeQueueTimeout = "pawl.queue-timeout" // it waited at the gate for as long as it may
	CodeQueueCleared = "pawl.queue-cleared" // somebody has cleared the queue it waited in
	CodeLimited      = "pawl.limited"       // the action is limited, and its policy is to refuse rather than to wait
)

// Error gives the message.
func (f *Failure) Error() string { return f.Message }

// Started is always event 1.
type Started struct {
	Head          `msgpack:"-"`
	Name          string
	Version       string // that governs the execution; in an input: that was asked for, or empty
	Payload       Payload
	Origin        Position
	Execution     uint64
	By            string  // who started it, as they named themselves
	Parent        *Parent // nil: nobody's child
	StatusVersion uint64  // how often the executions before have set the custom status
	Limit         *Limit  // that the instance has passed, or waits at; nil: none
	CustomStatus  Payload // the custom status as the execution before left it; empty: none
	// Cancel is the request to end that had arrived before the first turn of an execution that follows another: its code
	// begins cancelled. nil: none had.
	Cancel *CancelNote
}

// CancelNote is a cancellation of an instance, as a start has it.
type CancelNote struct {
	At     int64 // Unix ms
	Reason cancel.Reason
	By     string
	Text   string
}

// EventReceived is an event sent to the instance. It is recorded when it is taken
// from the inbox, whether or not somebody waits for it yet.
type EventReceived struct {
	Head    `msgpack:"-"`
	Name    string
	Payload Payload
	MsgID   string // the sender's id, if it gave one
	By      string
}

// CancelRequested says that somebody wants the instance to end.
type CancelRequested struct {
	Head   `msgpack:"-"`
	By     string
	Text   string
	Reason cancel.Reason // zero: Requested
	Of     string        // effect id of the start that a parent takes back; empty: whichever it was
}

// ActivityScheduled asks for an activity to be run. It is also what a lost task is sent again from.
type ActivityScheduled struct {
	Head    `msgpack:"-"`
	Name    string
	Queue   string
	Payload Payload
	Effect  string // the effect id: see package replay
	Attempt uint32 // of the author's Retry, from 1; not the number of claims
	First   string // effect id of the first attempt; empty if this is it
	Limit   *Limit // that it has passed, or waits at; nil: none
}

// CallKey is the same for all attempts of a call: the effect id of the first.
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
	Claims    uint32 // how often it was claimed
}

// ActivityFailed carries an activity's failure.
type ActivityFailed struct {
	Head      `msgpack:"-"`
	Scheduled uint64
	Failure   Failure
	Worker    string
	Claims    uint32
}

// ActivityCancelRequested says that nobody wants the activity's result any more.
// The commit that records it deletes the lease.
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
	FireAt           int64  // Unix milliseconds
	RetainsSlotOf    uint64 // id of the ActivityScheduled whose slot is kept until it fires; 0: none
	AttemptTimeoutOf uint64 // id of the ActivityScheduled whose attempt is over when it fires; 0: none. FireAt is by the owner's clock, then
}

// TimerFired is the input of a due timer; its At is the FireAt of the timer.
type TimerFired struct {
	Head  `msgpack:"-"`
	Timer uint64 // id of the TimerScheduled
}

// TimerCancelled drops a timer.
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
}

// Cancelled ends an execution that was asked to end, and did.
type Cancelled struct {
	Head    `msgpack:"-"`
	Failure Failure // what the code returned
	By      string
	Text    string
}

// SideEffectRecorded keeps what a side effect gave: a result, or a failure.
type SideEffectRecorded struct {
	Head    `msgpack:"-"`
	Result  Payload
	Failure *Failure // nil if it gave a result
}

// Observed is the input that completes polls: every input that had arrived was applied before it.
// The owner records it only while the code polls. Its At is the execution's Now: observing takes no time.
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

// Input is true of what moved the execution.
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
