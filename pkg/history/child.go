package history

import (
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Parent identifies the parent of an instance: the event that started it, and the effect id of that start. Two starts from the same
// event with different effect ids come from two decisions, one of which Redis has lost.
type Parent struct {
	Instance      string
	Origin        Position
	Execution     uint64
	Event         uint64 // id of the ChildScheduled
	Effect        string
	HeldLimits    string // limits that the parent and its ancestors hold: pairs limit=ticket, separated by spaces
	Depth         uint64 // depth of the child: 1 if its parent has no parent
	AncestorMarks string // marks of the ancestors' starts that the child is cancelled with, separated by commas
}

// ChildScheduled starts another instance. A detached child has no parent: its end is not reported, and it is outstanding only until its
// start is published.
type ChildScheduled struct {
	Head
	Name            string
	Version         string // requested version; empty: the newest that the orchestrator of the child has
	Instance        string
	Payload         Payload
	Effect          string
	Abandon         bool // the child outlives its parent
	Detached        bool
	InDetachedScope bool // started in a detached scope: not cancelled with its parent
}

// ChildCompleted carries a child's result.
type ChildCompleted struct {
	Head
	Scheduled uint64 // id of the ChildScheduled
	Effect    string // effect id of the ChildScheduled; a completion with another one is dropped
	Result    Payload
}

// ChildFailed carries the failure with which a child ended, or that prevented its start.
type ChildFailed struct {
	Head
	Scheduled uint64
	Effect    string
	Failure   Failure
}

// ChildCancelRequested cancels a child whose result is no longer required.
type ChildCancelRequested struct {
	Head
	Scheduled uint64
	Reason    cancel.Reason
	By        string
	Text      string
}

// EventSent sends an event to an instance.
type EventSent struct {
	Head
	Instance string
	Name     string
	Payload  Payload
	Effect   string
	Start    *SentStart // starts the instance if the id is unused; nil: no start
}

// SentStart is a start that is sent with an event, in one message. The instance has no parent.
type SentStart struct {
	Name    string // name of the orchestration
	Version string // requested version; empty: the newest that the orchestrator of the instance has
	Payload Payload
}

// ContinuedAsNew ends an execution; the next execution of the same instance starts with the payload.
type ContinuedAsNew struct {
	Head
	Payload Payload
	Version string // version of the next execution; empty: the newest that its orchestrator has
}

// PatchMarked records that the code took the new branch of a patch.
type PatchMarked struct {
	Head
	Name string
}

// Refused records that a bound prevented a decision of the code, which received the failure instead.
type Refused struct {
	Head
	Of      Kind   // kind of the decision
	Name    string // name of the activity, the orchestration or the event
	Failure Failure
}

// PurgeRequested removes an instance with all its data. It is an input that is queued in the inbox like any other, and never part of a
// history: the history is gone once it has taken effect.
type PurgeRequested struct {
	Head
	By    string
	Text  string
	Force bool   // purge a running instance, too: it is cancelled, with its children
	Reply string // subject for the reply; empty: none
	Of    string // effect id of the start of the instance to remove, if a parent requests it; empty: any instance with the id
}
