package core

import (
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// The boundary between two executions of an instance.
//
// Continue-as-new puts the start of the next execution in front of the inbox, and what came meanwhile stays behind it. Code that
// continues at once never reaches that. So what is to end the instance is looked for before the first turn of each execution after the
// first, wherever it is in the inbox:
//
//	commit of ContinuedAsNew ──▶ boundary ──nothing──▶ (pace) ──▶ the start is turned
//	                               ├── a cancellation ──▶ noted in the start: the code begins cancelled, and cannot continue as new
//	                               └── a forced purge ──▶ ended by name, without its code; the inputs before the purge are dropped
//
// A cancellation is not popped: it stays in its place, and is dropped as a repeat when it is turned, or with what an ended instance does
// not read. So the commit pops a prefix of the inbox here, too. Crash points: before the commit of the turn nothing of this is written,
// and the next owner looks again.
//
// Memory has the head of a long inbox only. Then all of it is read once, and again when a cancellation or a purge has been ingested.
//
// An instance may begin burstExecutions at any rate, and then executionsPerSecond. What exceeds that waits in memory, with its start in the
// inbox and no other instance behind it; an input wakes it, and a new owner begins to count anew.

const (
	executionsPerSecond = 20
	burstExecutions     = 400
)

// continues reports that the next input of the instance is the start of an execution that follows another.
func (in *instance) continues() bool {
	return in.rec != nil && in.rec.Execution > 1 && (in.state == nil || in.state.Len == 0) && len(in.unread) > 0 &&
		in.unread[0].start() && strings.HasPrefix(in.unread[0].ID, StartID(in.rec.Execution)) // behind it is the seal
}

// ending gives what is to end the instance: the first forced purge that is unread, and its place, or the first cancellation.
func (in *instance) ending() (n int, purge *history.PurgeRequested, c *history.CancelRequested) {
	if n, purge = in.forcedPurge(); purge != nil {
		return n, purge, nil
	}
	for _, u := range in.unread {
		if c, ok := u.Ev.(*history.CancelRequested); ok && in.concerns(u, c.Of) {
			return 0, nil, c
		}
	}
	return 0, nil, in.cancelled
}

// concerns reports that a cancellation or a request of an operator is meant for this incarnation of the instance: for the start of the
// effect, which it may have overtaken.
func (in *instance) concerns(u Unread, of string) bool {
	if of == "" {
		return in.rec == nil || !u.Before(in.rec.Origin)
	}
	p := parentOf(in)
	return p != nil && p.Effect == of
}

// parentOf is the parent in the record, or in the start that is the first input.
func parentOf(in *instance) *history.Parent {
	if in.rec != nil {
		return in.rec.Parent
	}
	if s, ok := in.unread0().(*history.Started); ok {
		return s.Parent
	}
	return nil
}

// atBoundary does what is to be done before the first turn of an execution that follows another. It reports that the turn has to wait.
func (t *turns) atBoundary(in *instance) (waits bool) {
	if in.cut && !in.searched {
		t.owner.inbox.search(in, outstanding{})
		in.searched = true // what is ingested meanwhile resets it
		return true
	}
	n, purge, c := in.ending()
	switch {
	case purge != nil:
		t.owner.removals.endPurged(in, purge, n)
		return true
	case t.owner.operators.atBoundary(in):
		return true
	case c != nil:
		if s, ok := in.unread[0].Ev.(*history.Started); ok {
			s.Cancel = &history.CancelNote{At: c.At, By: c.By, Text: c.Text, Reason: c.Reason}
		}
		return false
	default:
		return t.pace(in)
	}
}

// inboxSearched looks in the whole inbox for what is to end the instance.
func (t *turns) inboxSearched(in *instance, inbox []Unread) {
	head := in.unread
	in.unread = inbox
	n, purge, c := in.ending()
	if purge != nil && in.continues() {
		t.owner.removals.endPurged(in, purge, n)
		return
	}
	if in.continues() && t.owner.operators.atBoundary(in) {
		return
	}
	in.cancelled, in.unread = c, head
	t.owner.resume(in, sawNothing)
}

// pace reports that the instance has begun too many executions, and has it turned when it may begin another.
func (t *turns) pace(in *instance) (waits bool) {
	const interval = time.Second / executionsPerSecond
	now := t.owner.clock.wall
	if in.pace.next.Before(now) {
		in.pace.next = now
	}
	if wait := in.pace.next.Sub(now) - (burstExecutions-1)*interval; wait > 0 {
		if !in.pace.waiting {
			in.pace.waiting = true
			t.owner.met[CountPaced]++
			t.owner.later(wait, Message{Kind: paceDue, ID: in.id})
		}
		return true
	}
	in.pace.next = in.pace.next.Add(interval)
	return false
}

// paceDue turns an instance that has waited for its pace.
func (t *turns) paceDue(id string) {
	if in := t.owner.instances[id]; in != nil {
		in.pace.waiting = false
		t.owner.advance(in)
	}
}
