package history

import (
	"strings"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Parent says whose child an instance is: the place that started it, and the effect
// id of that start. Two starts from one place with different effect ids are two
// decisions of which the store has forgotten one.
type Parent struct {
	Instance      string
	Origin        Position
	Execution     uint64
	Event         uint64 // id of the ChildScheduled
	Effect        string
	HeldLimits    string // gates that the parent and its own ancestors hold: gate=ticket, with spaces between them
	Depth         uint64 // of the child: 1 if its parent is nobody's child
	AncestorMarks string // marks of the starts that the child is cancelled with, beside its own: see Marks
}

// SamePlace reports whether both were started by one place.
func (p *Parent) SamePlace(q *Parent) bool {
	return p != nil && q != nil && p.Instance == q.Instance && p.Origin == q.Origin && p.Execution == q.Execution && p.Event == q.Event
}

// Children are cancelled level by level, and code that starts further children is as fast as that. So each child knows, from the
// third level on, the starts that it is cancelled with: its own, and those of its ancestors, up to one that was abandoned or that was
// started in a detached scope. Where one of them is known to be cancelled, the child does not begin. A start is known by a mark, the
// beginning of its effect id; Above has the marks of the ancestors, the nearest last.
const (
	markBytes        = 11 // 66 bits
	minMarkDepth     = 3  // depth
	maxAncestorMarks = 8 << 10
	markSep          = ","
)

// Mark is the mark of a child's start; "" for one of the first levels, which has none.
func Mark(depth uint64, effect string) string {
	if depth < minMarkDepth {
		return ""
	}
	return effect[:min(len(effect), markBytes)]
}

// Below gives what the parent of a new child is: p is whose child the parent is, nil if nobody's, and child the decision to start it.
func (p *Parent) Lineage(child *ChildScheduled) (depth uint64, above string) {
	if p == nil {
		return 1, ""
	}
	depth = p.Depth + 1
	if child.Abandon || child.InDetachedScope {
		return depth, ""
	}
	above = p.AncestorMarks
	if mark := Mark(p.Depth, p.Effect); mark != "" {
		if above != "" {
			above += markSep
		}
		above += mark
	}
	for len(above) > maxAncestorMarks {
		_, above, _ = strings.Cut(above, markSep)
	}
	return depth, above
}

// Marks gives the marks of the starts that a child is cancelled with.
func (p *Parent) Marks(yield func(string) bool) {
	if mark := Mark(p.Depth, p.Effect); mark != "" && !yield(mark) || p.AncestorMarks == "" {
		return
	}
	for mark := range strings.SplitSeq(p.AncestorMarks, markSep) {
		if !yield(mark) {
			return
		}
	}
}

// ChildScheduled starts another instance. A detached one is nobody's child: its end is
// told to nobody, and it is outstanding no longer than it takes to say so.
type ChildScheduled struct {
	Head            `msgpack:"-"`
	Name            string
	Version         string // asked for; empty: the newest that its orchestrator has
	Instance        string
	Payload         Payload
	Effect          string
	Abandon         bool // it outlives its parent
	Detached        bool
	InDetachedScope bool // it was started in a detached scope: the cancellation of its parent leaves it alone
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
