package queue

import "github.com/pawlrun/pawl/internal/message"

func parseSender(token string) (message.Sender, bool) {
	for _, s := range [...]message.Sender{message.SenderClient, message.SenderOrchestrator} {
		if token == s.String() {
			return s, true
		}
	}
	return 0, false
}

func inputKinds() []message.InputKind {
	return []message.InputKind{message.KindStart, message.KindEvent, message.KindCancel, message.KindPurge, message.KindDone, message.KindUpdate, message.KindOperate}
}

// sends reports whether inputs of the kind are accepted from the sender.
func sends(s message.Sender, k message.InputKind) bool {
	switch k {
	case message.KindStart, message.KindEvent, message.KindCancel, message.KindPurge, message.KindOperate:
		return true
	case message.KindUpdate:
		return s == message.SenderClient
	case message.KindDone:
		return s == message.SenderOrchestrator
	default:
		return false
	}
}

// Headers of an input. All are optional, and headers that do not belong to the kind of the input are ignored.
const (
	HeaderContentType = "Content-Type" // content type of the body; default: application/json
	HeaderID          = "Pawl-Id"      // message id: a repeated id on the same subject has no effect
	HeaderReply       = "Pawl-Reply"   // subject for the reply to a start; an inbox, see Options.ReplyPrefixes
	HeaderBy          = "Pawl-By"      // name of the sender, as stated by itself
	HeaderVersion     = "Pawl-Version" // version of these conventions; default: 1
)

// HeaderDeclared is the prefix of headers that are passed on with an instance: at most 8, see history.Headers. traceparent, tracestate and
// baggage are passed on, too. Malformed headers are dropped.
const HeaderDeclared = "Pawl-Header-"

const headerSpan = "Pawl-Span" // on a task: the start span of its instance

// Headers of a start.
const (
	// HeaderAttributes contains the attributes of a start, as a JSON object: see history.Attributes.
	HeaderAttributes = "Pawl-Attributes"
	// HeaderStartAt delays a start: a duration since its acceptance by the stream, such as 30s, or a time in RFC 3339.
	HeaderStartAt = "Pawl-Start-At"
	// HeaderRunTimeout ends an instance that has not ended within this duration after its start, such as 24h.
	HeaderRunTimeout = "Pawl-Run-Timeout"
	// HeaderReuse is the policy for a start whose id is in use: ignore (default), reject or after-failure. Set Pawl-Id, too: without it a
	// repeated message is another start. A start on operate.restart.<orchestration> has the policy terminate-existing.
	HeaderReuse = "Pawl-Id-Reuse"
	// HeaderOrchestrationVersion requests a version of the orchestration; default: the newest.
	HeaderOrchestrationVersion = "Pawl-Orchestration-Version"
	// HeaderParent identifies the parent. It is accepted from orchestrators only. It contains, separated by spaces: instance, sequence and
	// time of its origin, execution, event id, effect id, depth, and the marks of the ancestors with which the child is cancelled ("-": none).
	HeaderParent = "Pawl-Parent"
	// HeaderHolds accompanies HeaderParent: the limits that the parent and its ancestors hold, in the format of history.Parent. It is a
	// separate header because a Pawl-Parent with more parts is malformed.
	HeaderHolds = "Pawl-Holds"
	// HeaderEvent is the name of an event that the start carries. The body is its payload, and the orchestration's input is empty, unless
	// there is a Pawl-Split.
	HeaderEvent = "Pawl-Event"
	// HeaderSplit is the number of bytes at the beginning of the body that are the orchestration's input; the rest is the payload of the
	// event.
	HeaderSplit = "Pawl-Split"
	// HeaderEventType is the content type of the event; default: that of the body.
	HeaderEventType = "Pawl-Event-Type"
)

// Headers of an update, alone or with a start.
const (
	// HeaderDeadline is when the update expires if code has not received it: a duration since its acceptance by the stream, such as 30s, or
	// a time in RFC 3339. Default: never.
	HeaderDeadline = "Pawl-Deadline"
	// HeaderUpdate is the name of an update that a start carries, as HeaderEvent is the name of an event. In this case Pawl-Id is the id of
	// the update, and Pawl-Reply is the subject for its answer.
	HeaderUpdate = "Pawl-Update"
)

// Headers of a cancel or a purge by a parent. They are accepted from orchestrators only.
const (
	HeaderOf     = "Pawl-Of"     // effect id of the start that is revoked
	HeaderReason = "Pawl-Reason" // name of the reason; default, and if unknown: requested
)
