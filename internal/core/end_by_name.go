package core

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// tooLarge fails an instance whose turn does not fit into a commit.
func (t *turns) tooLarge(in *instance, turn *turn) {
	why := fmt.Sprintf("instance %s: one turn decided %d bytes of events, the limit is %d; schedule less at once", in.id, turn.Size, record.CommitBytes)
	if n := len(turn.Front); n > 0 {
		why = fmt.Sprintf("instance %s: to continue as new takes %d bytes, with %d events that it has received and not read, and the limit is %d; read the events first",
			in.id, turn.Size, n-1, record.CommitBytes)
	}
	t.failByName(in, &history.Failure{Code: history.CodeTooLarge, Message: why})
}

// blocked abandons a turn whose code does not return. The abandoned goroutine still uses the code and the inputs of the turn, and may
// write to them, so the instance is loaded again.
func (t *turns) blocked(in *instance) {
	in.resident = false
	t.owner.unload(in)
	s := t.owner.removals.stalls[in.id]
	if s == nil || s.Kind != stallBlocked || s.Tries+1 < blockedTries {
		t.owner.inbox.load(in, outstanding{goal: toStall, stall: &Stall{Kind: stallBlocked,
			Reason: "the orchestration's code did not come back; it may wait for something outside, such as a channel, a lock or the network"}})
		return
	}
	t.owner.inbox.load(in, outstanding{goal: toFail, failure: &history.Failure{
		Code:    history.CodeBlocked,
		Message: fmt.Sprintf("instance %s: the orchestration's code blocked %d times; orchestration code may wait only for futures", in.id, blockedTries),
	}})
}

// failByName fails an instance without its code: its outstanding activities and children are cancelled, and the rest of its inbox is
// discarded.
func (t *turns) failByName(in *instance, f *history.Failure) {
	t.owner.log.Error("instance failed", "instance", in.id, "error", f.Message)
	t.endByName(in, &cancel.Cancelled{Reason: cancel.OrchestrationFailed}, &history.Failed{Failure: *f}, 0, 0)
}

// cancelByName ends an instance as cancelled, without its code, and drops the first drop inputs of its inbox.
func (t *turns) cancelByName(in *instance, reason cancel.Reason, by, why string, drop int) {
	at := t.owner.clock.now()
	if in.state != nil {
		at = max(at, in.state.Now)
	}
	c, end := cancelled(reason, by, why, at)
	t.endByName(in, c, end, drop, 0)
}

// cancelled returns the cause and the end of an instance that is cancelled without its code.
func cancelled(reason cancel.Reason, by, why string, at int64) (*cancel.Cancelled, *history.Cancelled) {
	c := &cancel.Cancelled{Reason: reason, By: by, Text: why, At: time.UnixMilli(at).UTC()}
	return c, &history.Cancelled{Failure: *author.ToFailure(c), By: by, Text: why}
}

// endByName ends an instance with the event end: outstanding activities and children are cancelled because of why, and the
// first drop inputs are removed. due is the due time if this is a decision by time, Unix ms; 0: it is not.
func (t *turns) endByName(in *instance, why *cancel.Cancelled, end history.Event, drop int, due int64) {
	t.owner.unloadCode(in)
	turn := t.owner.newTurn(in, in.state.Clone())
	turn.Due = due
	if turn.Fold.Len == 0 && len(in.unread) > 0 && in.unread[0].start() {
		in.unread[0].Ev.Meta().ID = 1
		turn.Record([]history.Event{in.unread[0].Ev})
		drop = max(drop, 1)
	}
	for _, u := range in.unread[:drop] {
		turn.Pop = append(turn.Pop, u.ID)
		turn.leave(u)
	}
	if !turn.end(why, end) {
		t.owner.removals.stall(in, stallUnreadable, turn.Err.Error())
		return
	}
	t.owner.commits.commit(in, turn)
}

// newTurn returns a turn that the owner decides without code.
func (o *Owner) newTurn(in *instance, state *fold.State) *turn {
	return &turn{in: in, now: o.clock.now(), Decided: Decided{Additions: Additions{Fold: state}}}
}

// end records an end decided by the owner, after the cancellation of outstanding activities and children. It returns false if that failed.
func (t *turn) end(why *cancel.Cancelled, end history.Event) bool {
	short := text.Shorten(why.Text, replay.MaxReason)
	for _, id := range t.Fold.Outstanding() {
		t.add(&history.ActivityCancelRequested{Scheduled: id, Reason: why.Reason, By: why.By, Text: short})
	}
	for _, id := range t.Fold.Children() {
		if !t.Fold.Child(id).Abandon {
			t.add(&history.ChildCancelRequested{Scheduled: id, Reason: why.Reason, By: why.By, Text: short})
		}
	}
	switch e := end.(type) {
	case *history.Failed:
		e.Forced = true
	case *history.Cancelled:
		e.Forced = true
	}
	return t.add(end)
}

// add records an event decided by the owner.
func (t *turn) add(ev history.Event) bool {
	*ev.Meta() = history.Head{ID: t.Fold.Len + 1, At: max(t.Fold.Now, t.now)}
	return t.Record([]history.Event{ev})
}
