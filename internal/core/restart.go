package core

import (
	"github.com/pawlrun/pawl/pkg/history"
)

// Restart: a start with the policy terminate-existing ends the instance that has its id, and takes the id.
//
//	ingested ──▶ in the inbox of an instance ──┬─ that has not ended ──▶ terminated by the owner, without its code; the start stays in the inbox
//	    │                                      │                            │
//	    └─ the id is free: an ordinary start   └─ that has ended ◀──────────┘
//	                                                 └── its outbox is empty ──▶ the next execution, with the origin of the start
//
// For an instance that has not ended, the start is a termination: it takes effect in the same situations (see operator.go), and the inputs
// before it are popped with the end of the instance, which answers the updates among them. For an ended instance it is a start that takes over
// the id: see duplicate_start.go. So there are two commits, and the second pops the start. The history of the terminated execution is
// kept as that of the previous execution.
//
// Orders that matter: the children of the terminated instance are cancelled, and its parent is notified, before the next execution begins,
// because it begins only with an empty outbox. Inputs accepted before the start belong to the terminated instance, inputs after it to the
// new one. An update that the terminated instance has left open is answered as ended even after that (Record.Replaced).
//
// A repeat of the message has no effect: ingest remembers its id for an hour. After that hour it has no effect on the instance that the
// message started, as long as that instance runs, because its history contains the id.
//
// Crash points: before the first commit the start is in the inbox, and nothing is written. Between the two commits the next owner finds an
// ended instance with a start that replaces it in its inbox. If the reply of the second commit was lost, its head is in the record.

// Restarts reports a start that terminates the instance that was started by mine.
func (u Unread) Restarts(mine *history.Started) bool {
	s, ok := u.Ev.(*history.Started)
	return ok && mine != nil && s.Parent == nil && s.Reuse == history.ReuseTerminate &&
		s.Origin != mine.Origin && (s.MsgID == "" || s.MsgID != mine.MsgID)
}

// startedBy returns the start of the execution, from its history or from the head of the inbox.
func startedBy(in *instance) *history.Started {
	if in.state != nil && in.state.Started != nil {
		return in.state.Started
	}
	s, _ := in.unread0().(*history.Started)
	return s
}

// requestOf returns the request of an operator, or the termination that a start requires; nil: the input is neither.
func requestOf(in *instance, u Unread) *history.OperatorRequested {
	if s, ok := u.Ev.(*history.Started); ok && !in.status().Ended() && u.Restarts(startedBy(in)) {
		return &history.OperatorRequested{Verb: history.VerbTerminate, By: s.By, Text: "replaced by another start of its id"}
	}
	return u.operator()
}
