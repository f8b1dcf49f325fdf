// Package message defines the messages between instances, clients and workers, as plain data. Package transport publishes them.
package message

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// InputKind is the operation that an input requests. It is a token of the subject.
type InputKind uint8

// The kinds of input.
const (
	KindStart  InputKind = 1 // start.<orchestration>
	KindEvent  InputKind = 2 // event.<name>
	KindCancel InputKind = 3 // cancel
	KindPurge  InputKind = 4 // purge
	KindDone   InputKind = 5 // done: the end of a child, for its parent
	KindUpdate InputKind = 6 // update.<name>

	KindOperate InputKind = 9 // operate.<verb>: the request of an operator, see history.Verb
)

// BatchName is the name of the orchestration that sends requests to all instances that pass a filter. Its start is an operator request: a
// client publishes it on operate.batch, and is refused on start.<orchestration>.
const BatchName = "pawl.batch"

// ImportName is the name of a start that imports an instance: see imported.Instance. It is an operator request, on operate.import.
const ImportName = "pawl.import"

// Sender is the role of the publisher of an input, as proved by its subject: messages between instances have a subject of
// their own, which NATS permissions reserve for orchestrators. It is the first token of the subject after the namespace.
type Sender uint8

// The senders.
const (
	SenderClient       Sender = 0 // to: any publisher with the permission; all kinds except done
	SenderOrchestrator Sender = 1 // own: an orchestrator, for an instance; all kinds except update
)

// String returns the token in the subject.
func (s Sender) String() string {
	if s == SenderOrchestrator {
		return "own"
	}
	return "to"
}

// String returns the token in the subject.
func (k InputKind) String() string {
	switch k {
	case KindStart:
		return "start"
	case KindEvent:
		return "event"
	case KindCancel:
		return "cancel"
	case KindPurge:
		return "purge"
	case KindDone:
		return "done"
	case KindUpdate:
		return "update"
	case KindOperate:
		return "operate"
	default:
		return "unknown"
	}
}

// Operate holds the parameters of an operator request: see history.OperatorRequested.
type Operate struct {
	Stop  bool   `json:"stop,omitempty"`       // for a pause
	Start bool   `json:"from_start,omitempty"` // for a retry
	To    uint64 `json:"to,omitempty"`         // for a rewind
}

// OutEvent is an event or an update that a start carries in the same message: both take effect together or not at all.
type OutEvent struct {
	Name    string
	Payload history.Payload
	Update  bool
}

// Done is the end of a child, for the parent that started it. A child that could not start ends with a failure, too.
type Done struct {
	Scheduled uint64           // event id of the parent's ChildScheduled
	Effect    string           // effect id of that start; of another start it is ignored
	Result    history.Payload  // if Failure is nil
	Failure   *history.Failure // the failure of the child, or the reason why it did not start
}

// Input is one message of the INPUTS stream.
type Input struct {
	Pos      history.Position
	Size     int // size of the body in bytes
	Instance string
	Sender   Sender
	Kind     InputKind       // zero if unknown; then Problem is set
	Name     string          // name of the orchestration, event or update, or verb of an operator request
	Payload  history.Payload // for a start, an event or an update
	ID       string          // the sender's id of the message; may be empty, except for an update
	Deadline int64           // for an update: Unix ms; 0: none
	Reply    string          // subject for the answer; empty: none is required
	Headers  history.Headers // for a start or an event
	By       string          // the sender: from the header, or from a cancel's body
	Text     string          // for a cancel or a purge; at most 8 KiB
	Force    bool            // for a purge: also if the instance runs
	Operate  Operate         // for an operator's request

	Version string          // for a start: the requested version of the orchestration; empty: the newest
	Attrs   string          // for a start: encoding of attribute.Set; empty: none
	StartAt int64           // for a start: Unix ms; 0: at once
	Timeout time.Duration   // for a start: timeout of the run; 0: none
	Reuse   history.Reuse   // for a start: policy if an instance has the id
	Parent  *history.Parent // for a start from an orchestrator: the parent; nil: none
	Event   *OutEvent       // for a start: the event or update that it carries; nil: none
	Of      string          // for a cancel or a purge from an orchestrator: effect id of the start that it is meant for; empty: any start
	Reason  cancel.Reason   // for a cancel from an orchestrator; zero: Requested
	Done    *Done           // for a done only

	// Problem is the reason why the input cannot be used: ErrBadInstance, ErrUnknownKind,
	// ErrBadName, ErrTooLarge, ErrMalformed or ErrNewer. Pos is valid nevertheless:
	// such an input is read, counted and skipped.
	Problem error
}

// Fitting returns how many inputs at the head of a batch fit into one script: at least one, or those with bodies of at most so many bytes
// together. A larger script could keep Redis, or a slow connection to it, busy until the request times out, and would be retried forever.
func Fitting(batch []Input, bytes int) int {
	n, size := 0, 0
	for n < len(batch) && (n == 0 || size+batch[n].Size <= bytes) {
		size += batch[n].Size
		n++
	}
	return n
}

// OutInput is an input to be published. Its fields are those of Input; fields that do not belong to the kind are not sent.
type OutInput struct {
	Instance string
	Sender   Sender // SenderOrchestrator only by an orchestrator, for one of its instances
	Kind     InputKind
	Name     string          // name of the orchestration, event or update, or the verb; empty for a cancel and a done
	Payload  history.Payload // for a start, an event or an update; at most MaxPayload
	Deadline time.Duration   // for an update, since its acceptance; 0: none
	ID       string          // makes a repeated publish safe; see PublishInput
	Reply    string
	Headers  history.Headers // for a start or an event
	By       string
	Text     string // for a cancel or a purge; cut at 8 KiB
	Force    bool   // for a purge: also if the instance runs
	Operate  Operate

	Version string
	Attrs   string          // for a start
	StartAt string          // for a start: a duration since its acceptance, or a time as of RFC 3339; empty: at once
	Timeout time.Duration   // for a start
	Reuse   history.Reuse   // for a start
	Parent  *history.Parent // SenderOrchestrator only, like Of, Reason and Done
	Event   *OutEvent       // its payload is also at most MaxPayload, and both must fit into one message of the server
	Of      string
	Reason  cancel.Reason
	Done    *Done // its payload is at most MaxPayload
}

// Accepted describes the inputs of a partition in INPUTS at one moment of its leader's clock.
type Accepted struct {
	At   time.Time        // by the clock of the stream's leader
	Last history.Position // the partition's last input in the stream; zero: it has none after the requested position
	End  history.Position // end of the stream at that time, or shortly before
}

// Change reports a change of an instance by a commit. It may be lost or forged: it is only a reason to read the instance
// again.
type Change struct {
	Instance      string `json:"instance"`
	Orchestration string `json:"orchestration,omitempty"`
	Status        string `json:"status"`        // pending, running, completed, failed, cancelled, purged
	Was           string `json:"was,omitempty"` // the previous status; omitted: unchanged, or there was no instance
	Execution     uint64 `json:"execution,omitempty"`
	Events        uint64 `json:"events,omitempty"`  // length of the execution's history
	Stalled       string `json:"stalled,omitempty"` // why the instance cannot continue
	At            string `json:"at"`                // RFC 3339, UTC, by the clock of Redis

	Version    string          `json:"version,omitempty"`
	Parent     string          `json:"parent,omitempty"`
	Code       string          `json:"code,omitempty"` // code of the failure that ended it
	Unanswered bool            `json:"unanswered,omitempty"`
	Attributes json.RawMessage `json:"attributes,omitempty"`
	Replaced   []string        `json:"replaced,omitempty"` // filter fields and attributes whose previous value may have been replaced
}

// Outcome is how an instance ended, or its current status.
type Outcome struct {
	Instance      string          `json:"instance"`
	Orchestration string          `json:"orchestration,omitempty"` // not in the reply to a request
	Status        string          `json:"status"`                  // completed, failed, cancelled; in a reply also running, not-found, and unavailable: repeat the request
	Execution     uint64          `json:"execution,omitempty"`
	Result        json.RawMessage `json:"result,omitempty"`  // as a base64 string, if the content type is not JSON
	Omitted       bool            `json:"omitted,omitempty"` // the result does not fit into a message of this server
	Error         string          `json:"error,omitempty"`
	Code          string          `json:"code,omitempty"` // of the failure
	At            string          `json:"at,omitempty"`
}

const liveTime = "2006-01-02T15:04:05.000Z"

// LiveTime formats Unix milliseconds for the At of a Change or an Outcome.
func LiveTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(liveTime) }

// Doorbell reports that an activity has ended and that its completion is in an inbox that was empty before.
type Doorbell struct {
	Instance string
	Effect   string // effect id of the activity
	Element  []byte // the pushed element; nil if it is larger than eventcodec.MaxDoorbellElement
	Proof    string // computed by Redis: see Tenure.Proves of package store
}

// Hint reports that a lease of the worker was deleted. The worker renews at once; only the result of the renewal cancels.
//
// A hint with a Token queries whether the worker holds the claim with that token. If it does not, it acknowledges or releases the claim again;
// only the script's comparison of the token decides.
type Hint struct {
	Instance            string
	Execution, Activity uint64
	Effect              string
	Reason              cancel.Reason
	By, Text            string
	At                  int64 // Unix milliseconds
	Token               string
}

// LimitNotice is a message to the owner of a member's instance: the limit has admitted or rejected the member. Without a Member, it is a
// message to the owner of the partition that the name of the limit hashes to, and requests a sweep. Any client with the permission may send
// one, so the owner queries the limit for the changes. The sweep of the limit repeats a lost notice.
type LimitNotice struct {
	Limit  string
	Member string // encoded by package limiter
	At     int64  // Unix ms, by the clock of the limit
}

// Errors of a publish. An error that does not match ErrUnknown means that the message was not accepted and will not be.
var (
	// ErrUnknown matches every error after which the message may have been accepted, or may still be: the
	// acknowledgement did not arrive, or cannot be read, or the connection was lost before it.
	ErrUnknown = errors.New("queue: unknown whether the message was accepted")
	// ErrNoStream is returned if no stream took the message: not accepted.
	ErrNoStream = errors.New("queue: no stream took the message: its leader is being elected, JetStream is not enabled, or the namespace is gone")
	// ErrStreamFull is returned if the stream is full until it is trimmed: not accepted.
	ErrStreamFull = errors.New("queue: the stream is full until orchestrators have read and trimmed it: publish again later, or raise --inputs-max-bytes")
	// ErrTimeout is returned if no acknowledgement, or no reply, arrived in time. For a publish it also matches ErrUnknown.
	ErrTimeout = errors.New("queue: no acknowledgement in time")
	// ErrBusy is returned if too many publishes are outstanding.
	ErrBusy = errors.New("queue: too many publishes in flight")
)

// Errors of a message.
var (
	ErrBadInstance = errors.New("queue: bad instance id")
	ErrBadName     = errors.New("queue: bad name")
	ErrUnknownKind = errors.New("queue: unknown kind of input")
	ErrTooLarge    = errors.New("queue: payload too large")
	ErrMalformed   = errors.New("queue: malformed message")
	ErrForged      = errors.New("queue: forged message") // a task whose content does not match its effect id
	// ErrNewer matches a *NewerError.
	ErrNewer = errors.New("queue: message of a newer version")
)
