// Package record defines the stored data of instances, and the requests of owners to the store, as plain data. Package store implements
// them in Redis, and package memstore in memory. It does no I/O.
package record

import (
	"errors"
	"strconv"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// Loaded is the stored state of an instance.
type Loaded struct {
	Record   *Record         // nil: none
	Events   []history.Event // history of the current execution; nil if it has ended
	Previous []history.Event // history of the ended execution with pending messages: the current or the previous one
	Unread   [][]byte        // the head of the inbox
}

// Truncated reports whether the inbox may contain more than this head, as returned by a load, a read or a commit: the head has the maximum
// number of elements, or is so large that the next element may not have fitted.
func Truncated(raw [][]byte) bool {
	size := 0
	for _, b := range raw {
		size += len(b)
	}
	return len(raw) >= UnreadBatch || size > UnreadBytes/2 // no element is nearly as large as the other half
}

// Status is the status of an instance.
type Status string

// The statuses. Each has an index of its instances.
const (
	Pending   Status = "pending" // it waits at the limit of its orchestration, and has not run
	Running   Status = "running"
	Paused    Status = "paused" // an operator has paused it: it takes no turn
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// Statuses lists the statuses in the order in which they are shown.
func Statuses() []Status { return []Status{Pending, Running, Paused, Completed, Failed, Cancelled} }

// Record holds the properties of an instance other than its history and inbox.
//
// In a Commit it holds the changes. With a Name the identity is written: Name, Version, Origin, Execution, Created and, if it is not
// nil, Parent. Other zero fields stay unchanged.
type Record struct {
	Name      string
	Version   string
	Origin    history.Position
	Execution uint64 // the current one; its history may still be empty
	Status    Status
	Head      string          // random, set by every commit
	Created   int64           // Unix ms: time of the start input
	Updated   int64           // Unix ms: last commit, by Redis TIME
	Events    uint64          // length of the history of Execution
	Ended     int64           // Unix ms; 0 while it runs
	End       []byte          // the event that ended it, encoded
	Parent    *history.Parent // nil: none

	Unread []history.UnreadEvents // the events that an ended instance had not received, as recorded by its owner

	Custom        history.Payload // the custom status
	CustomVersion uint64          // number of times that it was set, over all executions; 0: never, and then Custom is not written

	Stalled bool // it is in the list of stalled instances. It is only read: scripts write both

	Attributes string // encoding of attribute.Set; "": none were ever set

	// Unanswered is "true" if the code has received updates that it has not answered; "": unchanged, or never. It has no meaning for an
	// ended instance.
	Unanswered string

	Produced  Watermark // the last event that produced a message
	Published Watermark // the last event whose messages are in the inputs stream; before Produced: messages are pending

	// Control is the position in INPUTS of the last operator request that has taken effect. Earlier requests that are still unread have
	// no effect.
	Control history.Position

	// Retained are the tickets whose slots are retained from one attempt to the next, sorted. It is only read: Commit.Retain and
	// Commit.Release hold the changes. The sweep of a limit finds here that such a slot is required; see decision 14.
	Retained []string

	// Replaced: another instance had the id, and the ledger of updates, before the origin. It is only read: scripts write it.
	Replaced bool

	// NewIncarnation replaces an instance that has ended, in a Commit: its end, custom status, parent and watermark are cleared,
	// except what the same Record sets. It is never read back.
	NewIncarnation bool
}

// EndEvent returns the event that ends an execution, or nil.
func (r *Record) EndEvent() (history.Event, error) {
	if len(r.End) == 0 {
		return nil, nil //nolint:nilnil // no end is not an error
	}
	return eventcodec.Decode(r.Events, r.End)
}

// Watermark is a position in the events of an instance, over all its executions: that of the last event that produced a message, or of the
// last one whose messages are in the inputs stream. The zero Watermark is before all events.
type Watermark struct {
	Execution uint64
	Event     uint64 // id in the history of the execution
}

// Before reports whether m is before n.
func (m Watermark) Before(n Watermark) bool {
	return m.Execution < n.Execution || m.Execution == n.Execution && m.Event < n.Event
}

// String returns the text of the record's field, such as 3.17; "" for the zero Watermark.
func (m Watermark) String() string {
	if m == (Watermark{}) {
		return ""
	}
	return strconv.FormatUint(m.Execution, 10) + "." + strconv.FormatUint(m.Event, 10)
}

// HasPendingMessages reports whether the inputs stream may lack a message of the instance.
func (r *Record) HasPendingMessages() bool { return r.Published.Before(r.Produced) }

// Refusal describes a dropped input: of an unknown kind or a newer version, too large, malformed, over a bound, or refused. Its sender has
// received the acknowledgement of the stream, and may not wait for an answer.
type Refusal struct {
	Instance string `json:"instance"`
	Seq      uint64 `json:"seq"` // in the inputs stream
	At       int64  `json:"at"`  // Unix ms
	Reason   string `json:"reason"`
}

// The errors of scripts.
var (
	// ErrFenced is the error of a token that does not own the partition. Nothing was written.
	ErrFenced = errors.New("fenced: another process owns the partition, or the ownership has expired")
	// ErrConflict is the error of a call that was decided on other state than the stored one: Redis was rolled back, or the caller's memory
	// is stale. Nothing was written; load the instance again.
	ErrConflict = errors.New("conflict: the store has another state than its caller assumed")
	// ErrRolledBack is the error of a Redis that has lost acknowledged inputs. Nothing was written; the tenure is over.
	ErrRolledBack = errors.New("rolled back: the store lost inputs that it had acknowledged")
)

// ErrRefused is the error of a request that the store has refused as a whole, and would refuse again, such as for a key of another type.
var ErrRefused = errors.New("refused by the store")

// Unreadable reports whether this build cannot decode what is stored, so that a retry will not help.
func Unreadable(err error) bool {
	return errors.Is(err, eventcodec.ErrCorrupt) || errors.Is(err, eventcodec.ErrNewerVersion) || errors.Is(err, ErrRefused)
}

// Bounds of inboxes, of scripts and of replies.
const (
	InboxBound      = 100_000  // unread inputs of an instance
	InboxBytes      = 64 << 20 // memory of an inbox in Redis
	EarlyBytes      = 4 << 20  // bytes of the inputs of an instance before its start
	EarlyTotalBytes = 16 << 20 // bytes of the inputs before their starts, for all instances of a partition
	UnreadBatch     = 256      // unread elements in the reply to a commit or a read
	UnreadBytes     = 4 << 20  // bytes of the elements in the reply
	CommitBytes     = 16 << 20 // bytes of a commit
	IngestBytes     = 4 << 20  // bytes of the inputs that one script ingests
)

// Message is an input in transit to an inbox.
type Message struct {
	Instance string
	ID       string // message id of the sender; "": none, and a repeat is not recognized
	Kind     MessageKind
	Element  []byte // see eventcodec.Element
}

// MessageKind is the kind of a message for the ingest.
type MessageKind string

// The kinds.
const (
	StartMessage  MessageKind = "s" // goes in front of early inputs
	PlainStart    MessageKind = "i" // start of a client, without effect on an existing instance; dropped directly after another start
	CancelMessage MessageKind = "c" // dropped if the instance is unknown
	OtherMessage  MessageKind = ""  // waits for the start
	UpdateMessage MessageKind = "u" // waits for the start; its ID is the key of the update, and is recognized while the ledger contains it
)

// Ingested is the outcome of a message.
type Ingested struct {
	Repeat  bool // ingested before; dropped
	Full    bool // the inbox is full; dropped, and the instance must fail with that error
	Early   bool // before the start, and over the bound of such inputs; dropped, and an instance with other early inputs fails with that error when it starts
	Unknown bool // a cancel of an unknown instance; dropped
	Exists  bool // the instance has a record
	Unread  int  // length of the inbox, including the message
}

// DueSet lists the instances and the limits that are due.
type DueSet struct {
	Now       int64 // Redis TIME, Unix ms
	Instances []string
	Next      int64 // next wakeup of an instance, Unix ms; 0: none
	Limits    []string
	NextLimit int64 // next wakeup of a limit, Unix ms; 0: none
}
