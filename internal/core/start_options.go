package core

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Options of a start: delay, timeout of the run, reuse of the id. See decision 72.
//
// A delayed start stays at the head of the inbox until it is due; its instance has a record, and no history:
//
//	ingested ──▶ noted: record, pending ──┬─ StartAt ──▶ (limit) ──▶ its first turn, whose time is StartAt
//	                                      ├─ cancel, terminate ──▶ cancelled, by the owner, without the code
//	                                      └─ forced purge ──▶ as of any instance
//
// The record is there for lists, counts and wakeups. Other inputs wait behind the start. Its time is a decision by time: it comes behind
// every input that was accepted before, so a cancellation that was accepted before StartAt wins.
//
// The timeout of the run is a time in the start, which the next executions receive. The owner ends the instance by name when that is
// over, behind the inputs that were accepted before; between two executions at once, since code that continues as new does not come
// to its inputs. A pause suspends it, and a rewind begins it anew.
//
// A start with a policy other than ignore has its message id remembered with its ingest, so a repeat of the message is no other start.
// Of starts that ignore, ingest drops those directly behind another start, so that they do not fill an inbox that is held back. An
// instance that has ended gives its id to a start that replaces it, as an orphan does: see duplicate_start.go. One that has not is
// terminated by a start that requires it: see restart.go.
//
// Crash points: before the note the start is in the inbox, and the next owner notes it; behind it the wakeup is that of the record.

// beforeStart does what is to be done before a delayed start is due. It reports that there is nothing else to be done.
func (t *turns) beforeStart(in *instance) (waits bool) {
	s := in.delayed()
	switch {
	case s == nil, in.rec == nil && s.StartAt <= t.owner.clock.now():
		return false
	case in.rec == nil:
		turn := t.owner.newTurn(in, &history.State{})
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

// runTimedOut reports that the run has timed out, and that everything that was accepted before has been turned.
func (t *turns) runTimedOut(in *instance) bool {
	d := in.deadline(in.state)
	if d == 0 || d > t.owner.clock.now() || in.state != nil && in.state.End != nil {
		return false
	}
	if behind := in.behindStart(); !in.continues() && len(behind) > 0 && Bounds(behind, in.partial())[0] < d {
		return false
	}
	return t.owner.schedule.isDue(in.id, d)
}

// behindStart is what is unread, without a start at the head.
func (in *instance) behindStart() []Unread {
	if len(in.unread) > 0 && in.unread[0].start() {
		return in.unread[1:]
	}
	return in.unread
}

// endTimedOut ends an instance whose run has timed out.
func (t *turns) endTimedOut(in *instance) {
	due, timeout := in.deadline(in.state), startedBy(in).Timeout
	if in.continues() { // then it is not behind the inputs that were accepted before
		due = 0
	}
	in.passGate()
	t.endByName(in, &cancel.Cancelled{Reason: cancel.TimedOut}, &history.Failed{Failure: history.Failure{
		Code: history.CodeRunTimeout, Also: []string{history.CodeTimeout}, Permanent: true,
		Message: fmt.Sprintf("instance %s: it has not ended within %v", in.id, time.Duration(timeout)*time.Millisecond),
	}}, 0, due)
}
