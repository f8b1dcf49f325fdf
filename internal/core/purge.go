package core

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Removing an instance.
//
//	running ──purge, forced──▶ cancelled, by name ──▶ ended ──everything sent──▶ purged: one script
//	   └──purge──▶ refused, and answered             ended ──purge, or its retention is over──┘
//
// A purge is an input like others: it takes effect when what came before it has, and it
// stays at the head of the inbox until the script has removed the instance, and
// takes it out. A crash anywhere before that finds it there again; after it nothing is
// there that could bring the instance back, for what was ingested is behind the position.
// What came behind the purge is for the next incarnation.
//
// An instance that is stalled does not come to its purge by itself. A forced one overtakes
// what it cannot read; see wipe.go for the one of which record, history or inbox cannot be read.

// removals has instances that are stalled, or removed.
type removals struct {
	owner  *Owner
	stalls map[string]*Stall
	forced map[string]bool // instances in whose inbox, behind what is loaded of it, there may be a forced purge
}

// retired reports whether the instance need not be kept any longer.
func (r *removals) retired(in *instance) bool {
	return len(in.outbox) == 0 && r.owner.schedule.isDue(in.id, r.keptUntil(in.rec))
}

// purgeNext gives the purge that the inbox begins with, or nil.
func (in *instance) purgeNext() *history.PurgeRequested {
	if len(in.unread) == 0 {
		return nil
	}
	p, _ := in.unread[0].Ev.(*history.PurgeRequested)
	return p
}

// purgeRequested does what the purge at the head of the inbox asks for, or the next step to it.
func (r *removals) purgeRequested(in *instance, p *history.PurgeRequested) {
	switch {
	case in.rec == nil, in.unread[0].Before(in.rec.Origin), !in.purgedBy(p): // of an earlier incarnation; or the start was forgotten, and comes again
		r.owner.commits.takeOut(in, 1)
	case in.status().Ended() && len(in.outbox) > 0:
		r.owner.outbox.flushOutbox(in) // and go on when the stream has it: its children and its parent must be notified
	case in.status().Ended():
		r.purge(in, p, in.unread[0].ID)
	case !p.Force:
		r.owner.met[CountDropped]++
		r.owner.commits.answer(p.Reply, message.Answer{Instance: in.id, Problem: &message.Problem{
			Code: message.ProblemRefused, Message: fmt.Sprintf("instance %s is running and was not purged; cancel it first, or purge it by force", in.id),
		}})
		r.owner.commits.takeOut(in, 1)
	default:
		r.endPurged(in, p, 0)
	}
}

// forcedPurge finds the first forced purge among what is unread.
func (in *instance) forcedPurge() (n int, p *history.PurgeRequested) {
	for i, u := range in.unread {
		if p, ok := u.Ev.(*history.PurgeRequested); ok && p.Force && (in.rec == nil || !u.Before(in.rec.Origin)) && in.purgedBy(p) {
			return i, p
		}
	}
	return 0, nil
}

// purgedBy reports a purge that is for this instance: one of a parent is for the start that it names.
func (in *instance) purgedBy(p *history.PurgeRequested) bool {
	return p.Of == "" || in.rec != nil && in.rec.Parent != nil && in.rec.Parent.Effect == p.Of
}

// purgeFound removes an instance that cannot be turned, if a forced purge is anywhere in its inbox; otherwise it is stalled.
func (r *removals) purgeFound(in *instance, req outstanding) {
	n, p := in.forcedPurge()
	if at, op := in.urgent(); p == nil && op != nil {
		delete(r.stalls, in.id)
		r.owner.operators.requested(in, at)
		return
	}
	if p == nil {
		in.cut = len(in.unread) > record.UnreadBatch
		in.unread = in.unread[:min(len(in.unread), record.UnreadBatch)]
		r.deferInstance(in, req.stall.Kind, req.stall.Why)
		return
	}
	delete(r.stalls, in.id)
	switch {
	case in.rec == nil:
		ids := make([]string, n+1)
		for i := range ids {
			ids[i] = in.unread[i].ID
		}
		r.purge(in, p, ids...)
	case in.status().Ended():
		r.owner.advance(in)
	default:
		r.endPurged(in, p, n)
	}
}

// endPurged ends a running instance whose purge is forced. Its code is not asked; the inputs before the purge, so
// many, are dropped, and the purge itself stays in the inbox.
func (r *removals) endPurged(in *instance, p *history.PurgeRequested, before int) {
	r.owner.turns.cancelByName(in, cancel.Purged, p.By, p.Text, before)
}

// notBegun notifies the parents behind starts that were purged before anything came of them. If that is lost, the parent asks for its
// child again.
func (r *removals) notBegun(in *instance, p *history.PurgeRequested, inputs []Unread) {
	for _, u := range inputs {
		if s, ok := u.Ev.(*history.Started); ok {
			r.childPurged(in, p, s.Parent)
		}
	}
}

// childPurged notifies a parent, nil: none, of a purge that its child will not report.
func (r *removals) childPurged(in *instance, p *history.PurgeRequested, parent *history.Parent) {
	if parent != nil {
		_, end := cancelled(cancel.Purged, p.By, p.Text, r.owner.clock.now())
		r.owner.outbox.reply(in, done(parent, end))
	}
}

// removal is a purge that is under way.
type removal struct {
	purge   *record.Purge
	asked   *history.PurgeRequested // nil: its retention is over
	dropped []Unread                // in front of the purge, and the purge
}

// purge removes an instance that has ended; popped is the purge that asks for it, if one does.
func (r *removals) purge(in *instance, p *history.PurgeRequested, popped ...string) {
	rm := &removal{
		purge: &record.Purge{Instance: in.id, Execution: in.execution(), Head: in.head(), Status: in.status(), Entries: in.rec.Entries(), Pop: popped},
		asked: p, dropped: in.unread[:len(popped)],
	}
	if p == nil { // its time is over
		rm.purge.Applied = r.owner.schedule.horizon.applied.Time
	}
	r.owner.request(in, purging, outstanding{removal: rm}, Effect{Kind: RemoveInstance, Body: rm.purge})
}

func (r *removals) purgeAnswered(in *instance, req outstanding, now int64, err error) {
	rm := req.removal
	done, conflict := r.owner.scriptAnswered("purge of "+in.id, now, err)
	if done {
		r.owner.met[CountPurged]++
		r.owner.commits.publishChange(in, message.Change{Status: message.StatusPurged, Was: string(in.status())}, now)
		if p := rm.asked; p != nil {
			r.notBegun(in, p, rm.dropped)
			r.owner.commits.answer(p.Reply, message.Answer{Instance: in.id, Status: message.StatusPurged})
		}
	}
	delete(r.forced, in.id)
	r.removed(in, conflict || done && (in.pending.some() || len(rm.purge.Pop) > 0))
}

// removed forgets an instance that a script has removed, and looks at what came behind the purge.
func (r *removals) removed(in *instance, more bool) {
	delete(r.stalls, in.id)
	r.owner.forget(in)
	if more {
		r.owner.schedule.wake(in.id)
	}
}
