package history

import (
	"strings"

	"github.com/pawlrun/pawl/pkg/cancel"
)

// Parent identifies the parent of an instance: the place that started it, and the effect id of that start. Two starts from one
// place with different effect ids are two decisions, of which Redis has lost one.
type Parent struct {
	Instance      string
	Origin        Position
	Execution     uint64
	Event         uint64 // id of the ChildScheduled
	Effect        string
	HeldLimits    string // limits that the parent and its ancestors hold: limit=ticket, separated by spaces
	Depth         uint64 // of the child: 1 if its parent has no parent
	AncestorMarks string // marks of the ancestors' starts that the child is cancelled with: see Marks
}

// SamePlace reports whether one place started both.
func (p *Parent) SamePlace(q *Parent) bool {
	return p != nil && q != nil && p.Instance == q.Instance && p.Origin == q.Origin && p.Execution == q.Execution && p.Event == q.Event
}

// Children are cancelled level by level, and code that starts further children is as fast. So each child has, from the third
// level on, the marks of the starts that it is cancelled with: its own, and those of its ancestors, up to one that was abandoned
// or started in a detached scope. A child does not begin if one of them was cancelled. A mark is the beginning of an effect id;
// AncestorMarks has those of the ancestors, the nearest last.
const (
	markBytes        = 11 // 66 bits
	minMarkDepth     = 3  // depth
	maxAncestorMarks = 8 << 10
	markSep          = ","
)

// Mark returns the mark of a child's start; "" for one of the first levels, which has none.
func Mark(depth uint64, effect string) string {
	if depth < minMarkDepth {
		return ""
	}
	return effect[:min(len(effect), markBytes)]
}

// Lineage returns the depth and the ancestor marks of a new child. p is the parent of the instance that starts it, nil if it has
// none; child is the decision to start it.
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

// Marks yields the marks of the starts that a child is cancelled with.
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

// ChildScheduled starts another instance. A detached one has no parent: its end is reported to no instance, and it is outstanding
// only until its start is published.
type ChildScheduled struct {
	Head            `msgpack:"-"`
	Name            string
	Version         string // requested; empty: the newest that its orchestrator has
	Instance        string
	Payload         Payload
	Effect          string
	Abandon         bool // it outlives its parent
	Detached        bool
	InDetachedScope bool // started in a detached scope: it is not cancelled with its parent
}

// ChildCompleted carries a child's result.
type ChildCompleted struct {
	Head      `msgpack:"-"`
	Scheduled uint64 // id of the ChildScheduled
	Effect    string // of the ChildScheduled; a completion with another one is dropped
	Result    Payload
}

// ChildFailed carries the failure that a child ended with, or that kept it from starting.
type ChildFailed struct {
	Head      `msgpack:"-"`
	Scheduled uint64
	Effect    string
	Failure   Failure
}

// ChildCancelRequested cancels a child whose result is no longer required.
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

// SentStart is a start that travels with an event, in one message. The instance has no parent.
type SentStart struct {
	Name    string // of the orchestration
	Version string // requested; empty: the newest that its orchestrator has
	Payload Payload
}

// ContinuedAsNew ends an execution; the next one of the same instance begins with the payload.
type ContinuedAsNew struct {
	Head    `msgpack:"-"`
	Payload Payload
	Version string // of the next; empty: the newest that its orchestrator has
}

// PatchMarked records that the code took the new branch of a change.
type PatchMarked struct {
	Head `msgpack:"-"`
	Name string
}

// Refused records that a bound kept the code from a decision, which received the failure instead.
type Refused struct {
	Head    `msgpack:"-"`
	Of      Kind   // of the decision
	Name    string // of the activity, the orchestration or the event
	Failure Failure
}

// PurgeRequested removes an instance with all its data. It is an input that waits in the inbox behind earlier inputs, and is part
// of no history: there is none after it has taken effect.
type PurgeRequested struct {
	Head  `msgpack:"-"`
	By    string
	Text  string
	Force bool   // also a running instance: it is cancelled, with its children
	Reply string // subject for the reply; empty: none
	Of    string // effect id of the start of the only instance that a parent removes; empty: any
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
