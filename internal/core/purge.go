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
//	running ──purge, forced──▶ cancelled by the owner ──▶ ended ──outbox empty──▶ purged: one script
//	   └──purge──▶ refused, and answered                ended ──purge, or its retention is over──┘
//
// A purge takes effect like any input, after the inputs before it. It stays at the head of the inbox until one script removes
// it together with the instance. After a crash before the script, the next owner finds it there again; after the script nothing
// can restore the instance, because the applied position is past all ingested inputs. The inputs after the purge are for the next
// incarnation.
//
// A stalled instance does not reach its purge by itself. A forced purge overtakes the inputs
// before it; see wipe.go for an instance whose record, history or inbox cannot be read.

// removals handles stalled instances, and removes instances.
type removals struct {
	owner  *Owner
	stalls map[string]*Stall
	forced map[string]bool // instances whose inbox may contain a forced purge or an urgent request that is not in memory
}

// retired reports whether the retention of the instance is over, and its outbox is empty.
func (r *removals) retired(in *instance) bool {
	return len(in.outbox) == 0 && r.owner.schedule.isDue(in.id, r.keptUntil(in.rec))
}

// purgeNext returns the purge at the head of the inbox, or nil.
func (in *instance) purgeNext() *history.PurgeRequested {
	p, _ := in.unread0().(*history.PurgeRequested)
	return p
}

// purgeRequested carries out the purge at the head of the inbox, or its next step.
func (r *removals) purgeRequested(in *instance, p *history.PurgeRequested) {
	switch {
	case in.rec == nil, in.unread[0].Before(in.rec.Origin), !in.purgedBy(p): // meant for an earlier incarnation; or the start was lost, and will be repeated
		r.owner.commits.takeOut(in, 1)
	case in.status().Ended() && len(in.outbox) > 0:
		r.owner.outbox.flushOutbox(in) // its children and its parent must be notified; the acknowledgement continues the purge
	case in.status().Ended():
		r.purge(in, p, in.unread[0].ID)
	case !p.Force:
		r.owner.met[CountDropped]++
		r.owner.commits.answer(p.Reply, message.Answer{Instance: in.id, Problem: &message.Problem{
			Code: message.ProblemRefused, Message: fmt.Sprintf("instance %s is running and was not purged; cancel it first, or purge it by force", in.id),
		}})
		r.owner.commits.takeOut(in, 1)
	default:
		r.owner.turns.cancelByName(in, cancel.Purged, p.By, p.Text, 0)
	}
}

// forcedPurge finds the first forced purge among the unread inputs, with its index.
func (in *instance) forcedPurge() (n int, p *history.PurgeRequested) {
	for i, u := range in.unread {
		if p, ok := u.Ev.(*history.PurgeRequested); ok && p.Force && (in.rec == nil || !u.Before(in.rec.Origin)) && in.purgedBy(p) {
			return i, p
		}
	}
	return 0, nil
}

// purgedBy reports a purge that is meant for this instance: a parent's purge names the start that it is meant for.
func (in *instance) purgedBy(p *history.PurgeRequested) bool {
	return p.Of == "" || in.rec != nil && in.rec.Parent != nil && in.rec.Parent.Effect == p.Of
}

// purgeFound carries out a forced purge or an urgent request of a stalled instance, whose whole inbox is in memory. Without one the
// instance is stalled.
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
		r.deferInstance(in, req.stall.Kind, req.stall.Reason)
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
		r.owner.turns.cancelByName(in, cancel.Purged, p.By, p.Text, n) // the purge itself stays in the inbox
	}
}

// notBegun notifies the parents of starts that were purged before they began an instance. If the message is lost, the parent repeats the
// start.
func (r *removals) notBegun(in *instance, p *history.PurgeRequested, inputs []Unread) {
	for _, u := range inputs {
		if s, ok := u.Ev.(*history.Started); ok {
			r.childPurged(in, p, s.Parent)
		}
	}
}

// childPurged notifies a parent (nil: none) of a purge that its child will not report.
func (r *removals) childPurged(in *instance, p *history.PurgeRequested, parent *history.Parent) {
	if parent != nil {
		_, end := cancelled(cancel.Purged, p.By, p.Text, r.owner.clock.now())
		r.owner.outbox.reply(in, done(parent, end))
	}
}

// removal is a purge in progress.
type removal struct {
	purge     *record.Purge
	requested *history.PurgeRequested // nil: the retention is over
	dropped   []Unread                // the inputs before the purge, and the purge
}

// purge removes an instance that has ended or never began. p is the purge that requests it, nil if the retention is over; popped are the
// ids of the inputs up to p.
func (r *removals) purge(in *instance, p *history.PurgeRequested, popped ...string) {
	rm := &removal{
		purge:     &record.Purge{Instance: in.id, Execution: in.execution(), Head: in.head(), Status: in.status(), Entries: in.rec.Entries(), Pop: popped},
		requested: p, dropped: in.unread[:len(popped)],
	}
	if p == nil {
		rm.purge.Applied = r.owner.schedule.horizon.applied.Time
	}
	r.owner.request(in, purging, outstanding{removal: rm}, Effect{Kind: RemoveInstance, Body: rm.purge})
}

// purgeAnswered handles the result of a purge.
func (r *removals) purgeAnswered(in *instance, req outstanding, now int64, err error) {
	rm := req.removal
	done, conflict := r.owner.scriptAnswered("purge of "+in.id, now, err)
	if done {
		r.owner.met[CountPurged]++
		r.owner.commits.publishChange(in, message.Change{Status: message.StatusPurged, Was: string(in.status())}, now)
		if p := rm.requested; p != nil {
			r.notBegun(in, p, rm.dropped)
			r.owner.commits.answer(p.Reply, message.Answer{Instance: in.id, Status: message.StatusPurged})
		}
	}
	delete(r.forced, in.id)
	r.removed(in, conflict || done && (in.pending.some() || len(rm.purge.Pop) > 0))
}

// removed drops an instance after its removal, and loads it again if there may be inputs after the purge.
func (r *removals) removed(in *instance, more bool) {
	delete(r.stalls, in.id)
	r.owner.drop(in)
	if more {
		r.owner.schedule.wake(in.id)
	}
}
