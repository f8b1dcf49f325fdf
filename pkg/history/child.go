package history

import "github.com/pawlrun/pawl/pkg/cancel"

// Parent says whose child an instance is: the place that started it, and the effect
// id of that start. Two starts from one place with different effect ids are two
// decisions of which the store has forgotten one.
type Parent struct {
	Instance  string
	Born      Position
	Execution uint64
	Event     uint64 // id of the ChildScheduled
	Effect    string
	Holds     string // gates that the parent and its own ancestors hold: gate=ticket, with spaces between them
	Depth     uint64 // of the child: 1 if its parent is nobody's child
	Above     string // what the child is cancelled with: see Line
}

// SamePlace reports whether both were started by one place.
func (p *Parent) SamePlace(q *Parent) bool {
	return p != nil && q != nil && p.Instance == q.Instance && p.Born == q.Born && p.Execution == q.Execution && p.Event == q.Event
}

// ChildScheduled starts another instance. A detached one is nobody's child: its end is
// told to nobody, and it is outstanding no longer than it takes to say so.
type ChildScheduled struct {
	Head     `msgpack:"-"`
	Name     string
	Version  string // asked for; empty: the newest that its orchestrator has
	Instance string
	Payload  Payload
	Effect   string
	Abandon  bool // it outlives its parent
	Detached bool
	Apart    bool // it was started in a detached scope: the cancellation of its parent leaves it alone
}

// ChildCompleted carries a child's result.
type ChildCompleted struct {
	Head      `msgpack:"-"`
	Scheduled uint64 // id of the ChildScheduled
	Effect    string // of it; another one is no answer to it
	Result    Payload
}

// ChildFailed carries the failure that a child ended with, or the one that kept it
// from starting.
type ChildFailed struct {
	Head      `msgpack:"-"`
	Scheduled uint64
	Effect    string
	Failure   Failure
}

// ChildCancelRequested says that nobody wants the child's result any more, and asks it to end.
type ChildCancelRequested struct {
	Head      `msgpack:"-"`
	Scheduled uint64
	Reason    cancel.Reason
	By        string
	Text      string
}

// EventSent sends an event to an instance.
type EventSent struct {
	Head     `msgpack:"-"`
	Instance string
	Name     string
	Payload  Payload
	Effect   string
	Start    *SentStart // of the instance, if the id is free; nil: none
}

// SentStart is a start that travels with an event, in one message. The instance is nobody's child.
type SentStart struct {
	Name    string // of the orchestration
	Version string // asked for; empty: the newest that its orchestrator has
	Payload Payload
}

// ContinuedAsNew ends an execution; the next one of the same instance begins with the payload.
type ContinuedAsNew struct {
	Head    `msgpack:"-"`
	Payload Payload
	Version string // of the next; empty: the newest that its orchestrator has
}

// PatchMarked says that the code has taken the new branch of a change.
type PatchMarked struct {
	Head `msgpack:"-"`
	Name string
}

// Refused says that a limit has kept the code from a decision, which has got the failure instead.
type Refused struct {
	Head    `msgpack:"-"`
	Of      Kind   // of the decision
	Name    string // of the activity, the orchestration or the event
	Failure Failure
}

// PurgeRequested asks for an instance to be removed with all that it has. It is an input that
// waits in the inbox behind what came before it, and stands in no history: there is none
// once it has taken effect.
type PurgeRequested struct {
	Head  `msgpack:"-"`
	By    string
	Text  string
	Force bool   // also if the instance runs: it is cancelled, and its children are
	Reply string // subject for the answer; empty if none is wanted
}

func (*PurgeRequested) Kind() Kind       { return KindPurgeRequested }
func (*PurgeRequested) Input() bool      { return true }
func (*ContinuedAsNew) Kind() Kind       { return KindContinuedAsNew }
func (*ChildScheduled) Kind() Kind       { return KindChildScheduled }
func (*ChildCompleted) Kind() Kind       { return KindChildCompleted }
func (*ChildFailed) Kind() Kind          { return KindChildFailed }
func (*ChildCancelRequested) Kind() Kind { return KindChildCancelRequested }
func (*EventSent) Kind() Kind            { return KindEventSent }
func (*PatchMarked) Kind() Kind          { return KindPatchMarked }
func (*Refused) Kind() Kind              { return KindRefused }

func (*ContinuedAsNew) Input() bool       { return false }
func (*ChildScheduled) Input() bool       { return false }
func (*ChildCompleted) Input() bool       { return true }
func (*ChildFailed) Input() bool          { return true }
func (*ChildCancelRequested) Input() bool { return false }
func (*EventSent) Input() bool            { return false }
func (*PatchMarked) Input() bool          { return false }
func (*Refused) Input() bool              { return false }
