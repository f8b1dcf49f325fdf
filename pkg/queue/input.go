package queue

import (
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
)

// Sender is the role of the publisher of an input, which its subject proves: messages between instances have a subject of
// their own, which NATS permissions reserve for orchestrators. It is the first token of the subject after the namespace.
type Sender uint8

// The senders.
const (
	SenderClient       Sender = 0 // to: any publisher with the permission; all kinds except done
	SenderOrchestrator Sender = 1 // own: an orchestrator, for an instance; all kinds except purge
)

// String returns the token in the subject.
func (s Sender) String() string {
	if s == SenderOrchestrator {
		return "own"
	}
	return "to"
}

func parseSender(token string) (Sender, bool) {
	for _, s := range [...]Sender{SenderClient, SenderOrchestrator} {
		if token == s.String() {
			return s, true
		}
	}
	return 0, false
}

// sends reports whether inputs of the kind are accepted from this sender.
func (s Sender) sends(k InputKind) bool {
	switch k {
	case KindStart, KindEvent, KindCancel:
		return true
	case KindPurge:
		return s == SenderClient
	case KindDone:
		return s == SenderOrchestrator
	default:
		return false
	}
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
	default:
		return "unknown"
	}
}

// Headers of an input. All are optional, and those that do not belong to the kind of the
// input are ignored.
const (
	HeaderContentType = "Content-Type" // of the body; default: application/json
	HeaderID          = "Pawl-Id"      // id of the message: a repeat on the same subject has no effect
	HeaderReply       = "Pawl-Reply"   // subject for the answer to a start; an inbox, see Options.ReplyPrefixes
	HeaderBy          = "Pawl-By"      // name of the sender, as given by itself
	HeaderVersion     = "Pawl-Version" // of these conventions; default: 1
)

// Headers of a start.
const (
	// HeaderOrchestrationVersion requests a version of the orchestration; default: the newest.
	HeaderOrchestrationVersion = "Pawl-Orchestration-Version"
	// HeaderParent identifies the parent. It is accepted from orchestrators only. It has instance, sequence and time of its origin,
	// execution, event id, effect id, depth, and the marks of the ancestors that it is cancelled with ("-": none), with a space between.
	HeaderParent = "Pawl-Parent"
	// HeaderHolds accompanies HeaderParent: the limits that the parent and its ancestors hold,
	// as history.Parent has them. It is a separate header because a Pawl-Parent with more parts
	// is malformed.
	HeaderHolds = "Pawl-Holds"
	// HeaderEvent is the name of an event that the start carries. The body is its
	// payload, and the orchestration's input is empty, unless there is a Pawl-Split.
	HeaderEvent = "Pawl-Event"
	// HeaderSplit is the number of bytes at the beginning of the body that are the
	// orchestration's input; the event's payload is the rest.
	HeaderSplit = "Pawl-Split"
	// HeaderEventType is the content type of the event; default: that of the body.
	HeaderEventType = "Pawl-Event-Type"
)

// Headers of a cancel by a parent. They are accepted from orchestrators only.
const (
	HeaderOf     = "Pawl-Of"     // effect id of the start that is revoked
	HeaderReason = "Pawl-Reason" // name of the reason; default, and if unknown: requested
)

// OutEvent is an event that a start carries in the same message: both take effect together or not at all.
type OutEvent struct {
	Name    string
	Payload history.Payload
}

// Done is the end of a child, for the parent that started it. A child that could not start ends with a failure, too.
type Done struct {
	Scheduled uint64           // event id of the parent's ChildScheduled
	Effect    string           // effect id of that start; of another start it is ignored
	Result    history.Payload  // if Failure is nil
	Failure   *history.Failure // of the child, or why it did not start
}

// Input is one message of the INPUTS stream.
type Input struct {
	Pos      history.Position
	Size     int // bytes of the body
	Instance string
	Sender   Sender
	Kind     InputKind       // zero if unknown; then there is a Problem
	Name     string          // of the orchestration or the event
	Payload  history.Payload // of a start or an event
	ID       string          // the sender's id of the message; may be empty
	Reply    string          // subject for the answer; empty: none is required
	By       string          // the sender: from the header, or from a cancel's body
	Text     string          // of a cancel or a purge; at most 8 KiB
	Force    bool            // of a purge: also if the instance runs

	Version string          // of a start: the requested version of the orchestration; empty: the newest
	Parent  *history.Parent // of a start from an orchestrator: the parent; nil: none
	Event   *OutEvent       // of a start: the event that it carries; nil: none
	Of      string          // of a cancel from an orchestrator: effect id of the start that a parent revokes; empty: of any start
	Reason  cancel.Reason   // of a cancel from an orchestrator; zero: Requested
	Done    *Done           // of a done only

	// Problem is why the input cannot be used: ErrBadInstance, ErrUnknownKind,
	// ErrBadName, ErrTooLarge, ErrMalformed or ErrNewer. Pos is valid nevertheless:
	// such an input is read, counted and skipped.
	Problem error
}

// OutInput is an input to be published. Its fields are those of Input; fields that do not belong to the kind are not sent.
type OutInput struct {
	Instance string
	Sender   Sender // SenderOrchestrator only by an orchestrator, for one of its instances
	Kind     InputKind
	Name     string          // of the orchestration or the event; empty for a cancel and a done
	Payload  history.Payload // of a start or an event; at most MaxPayload
	ID       string          // makes it safe to publish again; see PublishInput
	Reply    string
	By       string
	Text     string // of a cancel or a purge; cut at 8 KiB
	Force    bool   // of a purge: also if the instance runs

	Version string
	Parent  *history.Parent // SenderOrchestrator only, as Of, Reason and Done
	Event   *OutEvent       // its payload is at most MaxPayload too, and both fit into one message of the server
	Of      string
	Reason  cancel.Reason
	Done    *Done // its payload is at most MaxPayload
}
