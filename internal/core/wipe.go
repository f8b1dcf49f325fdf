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
// The purge stays where it is until the next step is done: in the stream until its inbox takes it, and in the inbox until the
// script removes it together with the instance. So after a crash at any point the step is repeated. A parent that a readable record
// names is notified. Activities are cancelled at the next renewal of their leases, and the sweeps of limits find unused slots. Only the
// children of an unreadable history are unknown; they keep running.

// Wipe is the forced purge of an instance that cannot be read.
type Wipe struct {
	Request record.Wipe
	Purge   *history.PurgeRequested
	Ahead   []Unread       // the readable inputs before the purge
	Rec     *record.Record // nil: there is none, or it cannot be read
}

// wipeOr removes an instance that cannot be read, if its inbox contains a forced purge. Otherwise it is stalled as s.
func (r *removals) wipeOr(in *instance, s *Stall) {
	delete(r.forced, in.id)
	r.owner.unloadCode(in)
	r.owner.request(in, findingWipe, outstanding{stall: s, from: in.phase}, Effect{Kind: FindWipe})
}

// wipeFound removes an unreadable instance, or stalls it if no forced purge was found.
func (r *removals) wipeFound(in *instance, req outstanding, w *Wipe, err error) {
	switch {
	case err != nil:
		r.owner.dropFailed(in, "load", err)
	case w != nil:
		r.owner.request(in, wiping, outstanding{wipe: w}, Effect{Kind: WipeInstance, Body: w})
	case r.forced[in.id]: // a purge has arrived meanwhile
		r.wipeOr(in, req.stall)
	default:
		r.deferInstance(in, req.stall.Kind, req.stall.Reason)
	}
}

// wiped handles the result of a wipe: it notifies the parents and the client.
func (r *removals) wiped(in *instance, req outstanding, now int64, err error) {
	w := req.wipe
	done, conflict := r.owner.scriptAnswered("purge of "+in.id, now, err) // conflict: an input may have been put before the purge
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
