package core

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Options of a start: delay, timeout of the run, reuse of the id. See decision 72.
//
// A delayed start stays at the head of the inbox until it is due; its instance has a record, and no history:
//
//	ingested ──▶ noted: record, pending ──┬─ StartAt ──▶ (limit) ──▶ its first turn, whose time is StartAt
//	                                      ├─ cancel, terminate ──▶ cancelled by the owner, without the code
//	                                      └─ forced purge ──▶ as for any instance
//
// The record exists for lists, counts and wakeups. Other inputs wait after the start. StartAt is a decision by time, ordered after
// every input that was accepted before it: a cancellation accepted before StartAt wins.
//
// The timeout of the run is stored in the start as a deadline, and passed to the next executions. When the deadline has passed, the owner
// ends the instance after the inputs that were accepted before it; between two executions it ends the instance at once, since code that
// continues as new never reaches its inputs. A pause suspends the timeout, and a rewind restarts it.
//
// For a start with a policy other than ignore, ingest remembers the message id, so that a repeat of the message is not another start.
// Of starts with the policy ignore, ingest drops those directly after another start, so that they do not fill the inbox of a waiting
// instance. A start can take over the id of an ended instance, as from an orphan: see duplicate_start.go. A start that requires it
// terminates an instance that has not ended: see restart.go.
//
// Crash points: before the record is written the start is in the inbox, and the next owner writes it; after that the record has a wakeup.

// beforeStart handles a delayed start. It returns true if the instance waits for its start time, or has been ended.
func (t *turns) beforeStart(in *instance) (waits bool) {
	s := in.delayed()
	switch {
	case s == nil, in.rec == nil && s.StartAt <= t.owner.clock.now():
		return false
	case in.rec == nil:
		turn := t.owner.newTurn(in, &fold.State{})
		turn.noted, turn.note = true, record.Pending
		t.owner.commits.commit(in, turn)
	case t.owner.operators.endWait(in):
	case t.owner.schedule.isDue(in.id, s.StartAt):
		return false
	default:
		t.owner.operators.wait(in)
	}
	return true
}

// runTimedOut reports that the run has timed out, and that every input accepted before its deadline has been turned.
func (t *turns) runTimedOut(in *instance) bool {
	d := in.deadline(in.state)
	if d == 0 || d > t.owner.clock.now() || in.state != nil && in.state.End != nil {
		return false
	}
	inputs := in.unread
	if len(inputs) > 0 && inputs[0].start() {
		inputs = inputs[1:]
	}
	if !in.continues() && len(inputs) > 0 && Bounds(inputs, in.partial())[0] < d {
		return false
	}
	return t.owner.schedule.isDue(in.id, d)
}

// endTimedOut ends an instance whose run has timed out.
func (t *turns) endTimedOut(in *instance) {
	due, timeout := in.deadline(in.state), startedBy(in).Timeout
	if in.continues() { // not ordered after the inputs that were accepted before
		due = 0
	}
	in.passLimit()
	t.endByName(in, &cancel.Cancelled{Reason: cancel.TimedOut}, &history.Failed{Failure: history.Failure{
		Code: history.CodeRunTimeout, Also: []string{history.CodeTimeout}, Permanent: true,
		Message: fmt.Sprintf("instance %s: it has not ended within %v", in.id, time.Duration(timeout)*time.Millisecond),
	}}, 0, due)
}
