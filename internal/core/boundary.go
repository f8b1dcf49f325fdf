package core

import (
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// The boundary between two executions of an instance.
//
// Continue-as-new puts the start of the next execution in front of the inbox; inputs that have arrived meanwhile stay after it. Code that
// continues at once would never reach them. So before the first turn of each execution after the first, the whole inbox is searched for an
// input that ends the instance:
//
//	commit of ContinuedAsNew ──▶ boundary ──nothing──▶ (pace) ──▶ the start is turned
//	                               ├── a cancellation ──▶ noted in the start: the code begins cancelled, and cannot continue as new
//	                               └── a forced purge ──▶ ended by the owner, without its code; the inputs before the purge are dropped
//
// A cancellation is not popped: it stays in its place, and is dropped as a repeat when it is turned, or with the other inputs of an ended
// instance. So the commit pops a prefix of the inbox here, too. Crash points: before the commit of the turn nothing of this is written,
// and the next owner searches again.
//
// Only the head of a long inbox is in memory. The whole inbox is then read once, and again when a cancellation or a purge is ingested.
//
// An instance may begin burstExecutions at any rate, and after that executionsPerSecond. An execution over that rate waits in memory, with
// its start in the inbox; it delays no other instance. An input wakes it, and a new owner counts from zero.

const (
	executionsPerSecond = 20
	burstExecutions     = 400
)

// continues reports that the next input of the instance is the start of an execution that follows another.
func (in *instance) continues() bool {
	return in.rec != nil && in.rec.Execution > 1 && (in.state == nil || in.state.Len == 0) && len(in.unread) > 0 &&
		in.unread[0].start() && strings.HasPrefix(in.unread[0].ID, StartID(in.rec.Execution)) // the seal follows
}

// ending returns the input that ends the instance: the first unread forced purge with its index in the inbox, or the first cancellation.
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

// concerns reports that a cancellation or an operator request is meant for this incarnation of the instance. of is the effect id of the
// start that it is meant for, which it may have overtaken; empty: it is meant for the instance that had the id when it was accepted.
func (in *instance) concerns(u Unread, of string) bool {
	if of == "" {
		return in.rec == nil || !u.Before(in.rec.Origin)
	}
	p := parentOf(in)
	return p != nil && p.Effect == of
}

// parentOf returns the parent named by the record, or by a start at the head of the inbox.
func parentOf(in *instance) *history.Parent {
	if in.rec != nil {
		return in.rec.Parent
	}
	if s, ok := in.unread0().(*history.Started); ok {
		return s.Parent
	}
	return nil
}

// atBoundary prepares the first turn of an execution that follows another. It reports that the turn must wait, or that the instance has
// been ended or paused.
func (t *turns) atBoundary(in *instance) (waits bool) {
	if in.cut && !in.searched {
		t.owner.inbox.search(in, outstanding{})
		in.searched = true // reset if an ending input is ingested meanwhile
		return true
	}
	n, purge, c := in.ending()
	switch {
	case purge != nil:
		t.cancelByName(in, cancel.Purged, purge.By, purge.Text, n)
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

// inboxSearched searches the whole inbox for an input that ends the instance.
func (t *turns) inboxSearched(in *instance, inbox []Unread) {
	head := in.unread
	in.unread = inbox
	n, purge, c := in.ending()
	if purge != nil && in.continues() {
		t.cancelByName(in, cancel.Purged, purge.By, purge.Text, n)
		return
	}
	if in.continues() && t.owner.operators.atBoundary(in) {
		return
	}
	in.cancelled, in.unread = c, head
	t.owner.resume(in, sawNothing)
}

// pace reports that the instance must wait before it begins another execution, and schedules the end of the wait.
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

// paceDue continues an instance that has waited for its pace.
func (t *turns) paceDue(id string) {
	if in := t.owner.instances[id]; in != nil {
		in.pace.waiting = false
		t.owner.advance(in)
	}
}
