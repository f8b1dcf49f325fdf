package core

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// divergedFrom keeps an instance until code comes that fits its history, or fails it, as configured.
func (a *turns) divergedFrom(in *instance, why string) {
	if !a.owner.cfg.FailDiverged {
		a.owner.removals.stall(in, stallDiverged, why)
		return
	}
	a.failByName(in, &history.Failure{Code: history.CodeDiverged, Permanent: true, Message: fmt.Sprintf("instance %s: %s", in.id, why)})
}

// tooLarge fails an instance whose turn does not fit into a commit.
func (a *turns) tooLarge(in *instance, t *turn) {
	why := fmt.Sprintf("instance %s: one turn decided %d bytes of events, the limit is %d; schedule less at once", in.id, t.Size, record.CommitBytes)
	if n := len(t.Front); n > 0 {
		why = fmt.Sprintf("instance %s: to continue as new takes %d bytes, with %d events that it has received and not read, and the limit is %d; read the events first",
			in.id, t.Size, n-1, record.CommitBytes)
	}
	a.failByName(in, &history.Failure{Code: history.CodeTooLarge, Message: why})
}

// refuseBelow ends an instance before its code begins, because an ancestor was cancelled.
func (a *turns) refuseBelow(in *instance) {
	a.owner.met[CountChildRefused]++
	a.cancelByName(in, cancel.Requested, "", "an ancestor of this instance was cancelled before it began", 0)
}

// blocked gives up a turn whose code does not come back. The goroutine that was left behind has the code and the inputs that it was
// given, and may still write them, so the instance is read anew.
func (a *turns) blocked(in *instance) {
	in.resident = false
	a.owner.unload(in)
	s := a.owner.removals.stalls[in.id]
	if s == nil || s.Kind != stallBlocked || s.Tries+1 < blockedTries {
		a.owner.inbox.load(in, outstanding{goal: toStall, stall: &Stall{Kind: stallBlocked,
			Why: "the orchestration's code did not come back; it may wait for something outside, such as a channel, a lock or the network"}})
		return
	}
	a.owner.inbox.load(in, outstanding{goal: toFail, failure: &history.Failure{
		Code:    history.CodeBlocked,
		Message: fmt.Sprintf("instance %s: the orchestration's code blocked %d times; orchestration code may wait only for futures", in.id, blockedTries),
	}})
}

// failByName ends an instance without asking its code: its outstanding activities and children are cancelled, and
// its inbox is read no further.
func (a *turns) failByName(in *instance, f *history.Failure) {
	a.owner.log.Error("instance failed", "instance", in.id, "error", f.Message)
	a.endByName(in, &cancel.Cancelled{Reason: cancel.OrchestrationFailed}, &history.Failed{Failure: *f}, 0, 0)
}

// cancelByName ends an instance as cancelled, without asking its code.
func (a *turns) cancelByName(in *instance, reason cancel.Reason, by, why string, drop int) {
	at := a.owner.clock.now()
	if in.state != nil {
		at = max(at, in.state.Now)
	}
	c, end := cancelled(reason, by, why, at)
	a.endByName(in, c, end, drop, 0)
}

// cancelled is how an instance ends that is cancelled without asking its code.
func cancelled(reason cancel.Reason, by, why string, at int64) (*cancel.Cancelled, *history.Cancelled) {
	c := &cancel.Cancelled{Reason: reason, By: by, Text: why, At: time.UnixMilli(at).UTC()}
	return c, &history.Cancelled{Failure: *author.ToFailure(c), By: by, Text: why}
}

// endByName ends an instance with the event given; what is outstanding is cancelled for the reason given, and the
// first so many inputs are dropped. due is when time has decided that, 0: it has not.
func (a *turns) endByName(in *instance, why *cancel.Cancelled, end history.Event, drop int, due int64) {
	a.owner.unloadCode(in)
	t := a.owner.newTurn(in, in.state.Clone())
	t.Due = due
	if t.Fold.Len == 0 && len(in.unread) > 0 && in.unread[0].start() {
		in.unread[0].Ev.Meta().ID = 1
		t.Record([]history.Event{in.unread[0].Ev})
		drop = max(drop, 1)
	}
	for _, u := range in.unread[:drop] {
		t.Pop = append(t.Pop, u.ID)
		t.leave(u)
	}
	if !t.end(why, end) {
		a.owner.removals.stall(in, stallUnreadable, t.Err.Error())
		return
	}
	a.owner.commits.commit(in, t)
}

// newTurn is a turn that no code decides.
func (a *Owner) newTurn(in *instance, fold *history.State) *turn {
	return &turn{in: in, now: a.clock.now(), Decided: Decided{Made: Made{Fold: fold}}}
}

// end records an end that no code has decided, behind the cancellation of what is outstanding. It reports false if that failed.
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

// add records an event that no code has decided.
func (t *turn) add(ev history.Event) bool {
	*ev.Meta() = history.Head{ID: t.Fold.Len + 1, At: max(t.Fold.Now, t.now)}
	return t.Record([]history.Event{ev})
}
