package core

import (
	"github.com/pawlrun/pawl/pkg/history"
)

// Restart: a start with the policy terminate-existing ends the instance that has its id, and takes the id.
//
//	ingested ──▶ in the inbox of an instance ──┬─ that has not ended ──▶ terminated: by name, without its code; the start stays in the inbox
//	    │                                      │                            │
//	    └─ the id is free: an ordinary start   └─ that has ended ◀──────────┘
//	                                                 └── what it has to send is in INPUTS ──▶ the next execution, with the origin of the start
//
// To an instance that has not ended the start is a termination: it takes effect at the same places (see operator.go), and what is in front
// of it in the inbox is popped with the instance, which answers the updates among it. To one that has ended it is a start that replaces
// it: see duplicate_start.go. So there are two commits, and the start is popped by the second. The history of the terminated execution is
// kept as the one before the next.
//
// Orders that matter: the children of the terminated instance are cancelled, and its parent notified, before the next execution begins,
// because its outbox is empty then. Inputs that were accepted before the start are of the terminated instance, those behind it of the new
// one; an update that the former has left open is answered as ended also after that (Record.Replaced).
//
// A repeat of the message has no effect: ingest remembers its id for an hour. Later than that it has none on the instance that it has
// started, which has the id in its history, as long as that runs.
//
// Crash points: before the first commit the start is in the inbox, and nothing is written. Between the two the instance has ended, and the
// start is in its inbox: the next owner finds an ended instance with a start that replaces it. If the reply of the second was lost, its
// head is in the record.

// Restarts reports a start that terminates the instance that mine has started.
func (u Unread) Restarts(mine *history.Started) bool {
	s, ok := u.Ev.(*history.Started)
	return ok && mine != nil && s.Parent == nil && s.Reuse == history.ReuseTerminate &&
		s.Origin != mine.Origin && (s.MsgID == "" || s.MsgID != mine.MsgID)
}

// startedBy is the start of the execution: that in its history, or the one that is to begin it.
func startedBy(in *instance) *history.Started {
	if in.state != nil && in.state.Started != nil {
		return in.state.Started
	}
	s, _ := in.unread0().(*history.Started)
	return s
}

// requestOf is the request of an operator, or the termination that a start requires; nil: the input is neither.
func requestOf(in *instance, u Unread) *history.OperatorRequested {
	if s, ok := u.Ev.(*history.Started); ok && !in.status().Ended() && u.Restarts(startedBy(in)) {
		return &history.OperatorRequested{Verb: history.VerbTerminate, By: s.By, Text: "replaced by another start of its id"}
	}
	return u.operator()
}
