package queue

// Headers of an input. All are optional, and headers that do not belong to the kind of the input are ignored.
const (
	HeaderContentType = "Content-Type" // content type of the body; default: application/json
	HeaderID          = "Pawl-Id"      // message id: a repeated id on the same subject has no effect
	HeaderReply       = "Pawl-Reply"   // subject for the reply to a start; an inbox, with a prefix that the orchestrators allow
	HeaderBy          = "Pawl-By"      // name of the sender, as stated by itself
	HeaderVersion     = "Pawl-Version" // version of these conventions; default: 1

	// HeaderDeclared is the prefix of headers that are passed on with an instance: at most 8, see history.Headers. traceparent, tracestate
	// and baggage are passed on, too. Malformed headers are dropped.
	HeaderDeclared = "Pawl-Header-"
)

// Headers of a start.
const (
	// HeaderAttributes contains the attributes of a start, as a JSON object:
	//
	//	{"due":{"time":"2026-11-22T08:00:00.000Z"},"items":5,"paid":true,"tenant":"acme"}
	HeaderAttributes = "Pawl-Attributes"
	// HeaderStartAt delays a start: a duration since its acceptance by the stream, such as 30s, or a time in RFC 3339.
	HeaderStartAt = "Pawl-Start-At"
	// HeaderRunTimeout ends an instance that has not ended within this duration after its start, such as 24h.
	HeaderRunTimeout = "Pawl-Run-Timeout"
	// HeaderReuse is the policy for a start whose id is in use: ignore (default), reject or after-failure. Set HeaderID, too: without it a
	// repeated message is another start. A start on operate.restart.<orchestration> has the policy terminate-existing.
	HeaderReuse = "Pawl-Id-Reuse"
	// HeaderOrchestrationVersion requests a version of the orchestration; default: the newest.
	HeaderOrchestrationVersion = "Pawl-Orchestration-Version"
	// HeaderEvent is the name of an event that the start carries. The body is its payload, and the orchestration's input is empty, unless
	// there is a HeaderSplit.
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
	// HeaderUpdate is the name of an update that a start carries, as HeaderEvent is the name of an event. In this case HeaderID is the id of
	// the update, and HeaderReply is the subject for its answer.
	HeaderUpdate = "Pawl-Update"
)
