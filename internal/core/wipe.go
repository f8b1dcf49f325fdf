package core

import (
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Removing an instance that cannot be read.
//
//	forced purge ──refused by Redis──▶ inbox, message ids of another type removed ──▶ ingested
//	ingested ──instance unreadable──▶ searched for in the raw inbox ──found──▶ keys scanned ──▶ wiped: one script
//	                                                                  └─none──▶ stalled
//
// The purge stays where it is until the step behind it is done: in the stream until its inbox takes it, and in the inbox until the
// script removes it together with the instance. So a crash at any point repeats the step. What the record still names is done:
// the parent is notified. Activities end at the next renewal of their leases, and gates find slots that no instance uses. Only the children of
// an unreadable history are unknown; they run on.

// Wipe is a forced purge that was found in front of an instance that cannot be read.
type Wipe struct {
	Request record.Wipe
	Purge   *history.PurgeRequested
	Ahead   []Unread       // inputs in front of it that can be read
	Rec     *record.Record // nil: there is none that can be read
}

// wipeOr removes an instance that cannot be read, if a forced purge is anywhere in its inbox. Otherwise it is stalled.
func (r *removals) wipeOr(in *instance, s *Stall) {
	delete(r.forced, in.id)
	r.owner.unloadCode(in)
	r.owner.request(in, findingWipe, outstanding{stall: s, from: in.phase}, Effect{Kind: FindWipe})
}

func (r *removals) wipeFound(in *instance, req outstanding, w *Wipe, err error) {
	switch {
	case err != nil:
		r.owner.forgetFailed(in, "load", err)
	case w != nil:
		r.owner.request(in, wiping, outstanding{wipe: w}, Effect{Kind: WipeInstance, Body: w})
	case r.forced[in.id]: // it has come meanwhile
		r.wipeOr(in, req.stall)
	default:
		r.deferInstance(in, req.stall.Kind, req.stall.Why)
	}
}

// wiped notifies the parents and the client of the removal of the instance.
func (r *removals) wiped(in *instance, req outstanding, now int64, err error) {
	w := req.wipe
	done, conflict := r.owner.scriptAnswered("purge of "+in.id, now, err) // conflict: perhaps something came in front
	if done {
		r.owner.met[CountPurged]++
		r.owner.log.Warn("unreadable instance purged by force", "instance", in.id, "by", w.Purge.By)
		r.notBegun(in, w.Purge, w.Ahead)
		if w.Rec != nil && !w.Rec.Status.Ended() {
			r.childPurged(in, w.Purge, w.Rec.Parent)
		}
		r.owner.commits.answer(w.Purge.Reply, message.Answer{Instance: in.id, Status: message.StatusPurged})
	}
	r.removed(in, done || conflict)
}
