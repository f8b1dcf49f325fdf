package queue

import (
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// InputKind is what an input asks for. It is a token of the subject.
type InputKind uint8

// The kinds of input.
const (
	KindStart  InputKind = 1 // start.<orchestration>
	KindEvent  InputKind = 2 // event.<name>
	KindCancel InputKind = 3 // cancel
	KindPurge  InputKind = 4 // purge
	KindDone   InputKind = 5 // done: a child tells its parent how it has ended
)

// Sender is who published an input, as its subject tells: what orchestrators send to each other's instances has a subject
// of its own, which NATS permissions keep from everyone else. It is the first token of the subject behind the namespace.
type Sender uint8

// The senders.
const (
	SenderClient       Sender = 0 // to: whoever may publish there; all kinds but a done
	SenderOrchestrator Sender = 1 // own: an orchestrator, for an instance; all kinds but a purge
)

// String is the sender's token in the subject.
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

// sends reports whether inputs of the kind are believed from this sender.
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

// String is the kind's token in the subject.
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

// Headers of an input. All are optional, and one that does not belong to the kind of the
// input is passed over.
const (
	HeaderContentType = "Content-Type" // of the body; absent: application/json
	HeaderID          = "Pawl-Id"      // the message's id: a repeat of it on the same subject takes no effect
	HeaderReply       = "Pawl-Reply"   // subject for the answer to a start; an inbox, see Options.ReplyPrefixes
	HeaderBy          = "Pawl-By"      // who sends, as they name themselves
	HeaderVersion     = "Pawl-Version" // of these conventions; absent: 1
)

// Headers of a start.
const (
	// HeaderOrchestrationVersion asks for a version of the orchestration; absent: the newest.
	HeaderOrchestrationVersion = "Pawl-Orchestration-Version"
	// HeaderParent reports whose child it is, of a start from an orchestrator; from anyone else it is passed over. It has instance, sequence and time of its birth,
	// execution, event id, effect id, depth, and the marks of the ancestors that it is cancelled with ("-": none), with a space between.
	HeaderParent = "Pawl-Parent"
	// HeaderHolds goes with HeaderParent: the gates that the parent and its ancestors hold,
	// as history.Parent has them. It is a header of its own because builds that knew no gates
	// refuse a Pawl-Parent of more parts, and pass over a header that they do not know.
	HeaderHolds = "Pawl-Holds"
	// HeaderEvent is the name of an event that comes with the start. The body is its
	// payload, and the orchestration's input is empty, unless there is a Pawl-Split.
	HeaderEvent = "Pawl-Event"
	// HeaderSplit is how many bytes at the beginning of the body are the
	// orchestration's input; the event's payload is the rest.
	HeaderSplit = "Pawl-Split"
	// HeaderEventType is the content type of the event; absent: that of the body.
	HeaderEventType = "Pawl-Event-Type"
)

// Headers of a cancel by a parent, which is a cancel from an orchestrator; from anyone else they are passed over.
const (
	HeaderOf     = "Pawl-Of"     // effect id of the start that is taken back
	HeaderReason = "Pawl-Reason" // the reason's word; absent or unknown: requested
)

// OutEvent is an event that comes with a start, in one message: the two take effect
// together or not at all.
type OutEvent struct {
	Name    string
	Payload history.Payload
}

// Done tells a parent how the child has ended that one of its events started. A child
// that could not start ends with a failure, too.
type Done struct {
	Scheduled uint64           // event id of the parent's ChildScheduled
	Effect    string           // effect id of that start; another one is no answer to it
	Result    history.Payload  // if Failure is nil
	Failure   *history.Failure // what the child ended with, or why it has not started
}

// Input is one message of the INPUTS stream.
type Input struct {
	Pos      history.Position
	Size     int // bytes of the body, whatever is in it
	Instance string
	Sender   Sender
	Kind     InputKind       // zero if unknown; then Problem says so
	Name     string          // of the orchestration or the event
	Payload  history.Payload // of a start or an event
	ID       string          // the sender's id of the message; empty if it gave none
	Reply    string          // subject for the answer; empty if none is wanted
	By       string          // who sent it: of the header, or of a cancel's body
	Text     string          // of a cancel or a purge; at most 8 KiB
	Force    bool            // of a purge: also if the instance runs

	Version string          // of a start: the version of the orchestration that is asked for; empty: the newest
	Parent  *history.Parent // of a start from an orchestrator: whose child it is; nil: nobody's
	Event   *OutEvent       // of a start: the event that comes with it; nil: none
	Of      string          // of a cancel from an orchestrator: effect id of the start that a parent takes back; empty: whichever it was
	Reason  cancel.Reason   // of a cancel from an orchestrator; zero: Requested
	Done    *Done           // of a done, and of nothing else

	// Problem says why the input can not be used: ErrBadInstance, ErrUnknownKind,
	// ErrBadName, ErrTooLarge, ErrMalformed or ErrNewer. Pos is valid all the same,
	// for such an input is read, counted and passed.
	Problem error
}

// OutInput is an input to be published. Its fields are those of Input; what does not
// belong to the kind is not sent.
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
