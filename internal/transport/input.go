package transport

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

// Headers that any NATS client may set: package queue describes them.
const (
	HeaderContentType = "Content-Type"
	HeaderID          = "Pawl-Id"
	HeaderReply       = "Pawl-Reply"
	HeaderBy          = "Pawl-By"
	HeaderVersion     = "Pawl-Version"
	HeaderDeclared    = "Pawl-Header-"

	HeaderAttributes           = "Pawl-Attributes"
	HeaderStartAt              = "Pawl-Start-At"
	HeaderRunTimeout           = "Pawl-Run-Timeout"
	HeaderReuse                = "Pawl-Id-Reuse"
	HeaderOrchestrationVersion = "Pawl-Orchestration-Version"
	HeaderEvent                = "Pawl-Event"
	HeaderSplit                = "Pawl-Split"
	HeaderEventType            = "Pawl-Event-Type"

	HeaderDeadline = "Pawl-Deadline"
	HeaderUpdate   = "Pawl-Update"
)

const headerSpan = "Pawl-Span" // on a task: the start span of its instance

// Headers of the start of a child. They are accepted from orchestrators only.
const (
	// HeaderParent identifies the parent. It contains, separated by spaces: instance, sequence and time of its origin, execution, event id,
	// effect id, depth, and the marks of the ancestors with which the child is cancelled ("-": none).
	HeaderParent = "Pawl-Parent"
	// HeaderHolds accompanies HeaderParent: the limits that the parent and its ancestors hold, in the format of history.Parent. It is a
	// separate header because a Pawl-Parent with more parts is malformed.
	HeaderHolds = "Pawl-Holds"
)

// Headers of a cancel or a purge by a parent. They are accepted from orchestrators only.
const (
	HeaderOf     = "Pawl-Of"     // effect id of the start that is revoked
	HeaderReason = "Pawl-Reason" // name of the reason; default, and if unknown: requested
)
