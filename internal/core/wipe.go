package core

import (
	"errors"

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
func (a *removals) wipeOr(in *instance, op operation) {
	delete(a.forced, in.id)
	a.owner.unloadCode(in)
	op.from = in.phase
	a.owner.to(in, findingWipe)
	in.op = &op
	a.owner.emit(Effect{Kind: FindWipe, ID: in.id})
}

func (a *removals) wipeFound(in *instance, w *Wipe, err error) {
	op := in.op.value()
	a.owner.to(in, op.from)
	switch {
	case err != nil:
		a.owner.storeFailed("load "+in.id, err)
		a.owner.forget(in)
	case w != nil:
		a.owner.to(in, wiping)
		in.outstanding.wipe = w
		a.owner.emit(Effect{Kind: WipeInstance, ID: in.id, Body: w})
	case a.forced[in.id]: // it has come meanwhile
		a.wipeOr(in, op)
	default:
		a.deferInstance(in, op.kind, op.why)
	}
}

// wiped notifies the parents and the client of the removal of the instance.
func (a *removals) wiped(in *instance, w *Wipe, now int64, err error) {
	a.owner.to(in, idle)
	switch {
	case err == nil:
		a.owner.sawClock(now)
		a.owner.met[CountPurged]++
		a.owner.log.Warn("unreadable instance purged by force", "instance", in.id, "by", w.Purge.By)
		a.notBegun(in, w.Purge, w.Ahead)
		if w.Rec != nil && w.Rec.Parent != nil && !w.Rec.Status.Ended() {
			_, end := purged(w.Purge, a.owner.clock.now())
			a.owner.outbox.reply(in, done(w.Rec.Parent, end))
		}
		a.owner.commits.answer(w.Purge.Reply, message.Answer{Instance: in.id, Status: message.StatusPurged})
	case errors.Is(err, record.ErrConflict): // something came in front, or the reply of an earlier try was lost
		a.owner.met[CountConflicts]++
	default:
		a.owner.storeFailed("purge of "+in.id, err)
	}
	a.removed(in, err == nil || errors.Is(err, record.ErrConflict))
}
