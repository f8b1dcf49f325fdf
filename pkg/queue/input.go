package queue

func parseSender(token string) (Sender, bool) {
	for _, s := range [...]Sender{SenderClient, SenderOrchestrator} {
		if token == s.String() {
			return s, true
		}
	}
	return 0, false
}

func inputKinds() []InputKind {
	return []InputKind{KindStart, KindEvent, KindCancel, KindPurge, KindDone, KindUpdate, KindOperate}
}

// sends reports whether inputs of the kind are accepted from this sender.
func sends(s Sender, k InputKind) bool {
	switch k {
	case KindStart, KindEvent, KindCancel, KindPurge, KindOperate:
		return true
	case KindUpdate:
		return s == SenderClient
	case KindDone:
		return s == SenderOrchestrator
	default:
		return false
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

// HeaderDeclared begins the name of a header that travels with an instance: at most 8 of them, see history.Headers. So do traceparent,
// tracestate and baggage. What is not well-formed is dropped.
const HeaderDeclared = "Pawl-Header-"

const headerSpan = "Pawl-Span" // of a task: the start span of its instance

// Headers of a start.
const (
	// HeaderAttributes has the attributes of a start, as a JSON object: see history.Attributes.
	HeaderAttributes = "Pawl-Attributes"
	// HeaderStartAt delays a start: a duration since the stream has accepted it, such as 30s, or a time as of RFC 3339.
	HeaderStartAt = "Pawl-Start-At"
	// HeaderRunTimeout ends an instance that has not ended so long after its start, such as 24h.
	HeaderRunTimeout = "Pawl-Run-Timeout"
	// HeaderReuse is what a start does with an instance that has its id: ignore (default), reject, after-failure. Set Pawl-Id
	// with it: without one a repeated message is another start. A start on operate.restart.<orchestration> has terminate-existing.
	HeaderReuse = "Pawl-Id-Reuse"
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

// Headers of an update, alone or with a start.
const (
	// HeaderDeadline is when the update expires if code has not received it: a duration since the stream has accepted it, such as 30s,
	// or a time as of RFC 3339. Default: never.
	HeaderDeadline = "Pawl-Deadline"
	// HeaderUpdate is the name of an update that a start carries, as HeaderEvent is of an event. Pawl-Id is the id of the update then, and
	// Pawl-Reply is for its answer.
	HeaderUpdate = "Pawl-Update"
)

// Headers of a cancel, or a purge, by a parent. They are accepted from orchestrators only.
const (
	HeaderOf     = "Pawl-Of"     // effect id of the start that is revoked
	HeaderReason = "Pawl-Reason" // name of the reason; default, and if unknown: requested
)
