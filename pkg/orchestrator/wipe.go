package orchestrator

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// Removing an instance that cannot be read.
//
//	forced purge ──refused by Redis──▶ inbox, message ids of another type removed ──▶ ingested
//	ingested ──instance unreadable──▶ searched for in the raw inbox ──found──▶ keys scanned ──▶ wiped: one script
//	                                                                  └─none──▶ stalled
//
// The purge stays where it is until the step behind it is done: in the stream until its inbox takes it, and in the inbox until the
// script removes it together with the instance. So a crash at any point repeats the step. What the record still names is done:
// the parent is told. Activities end at the next renewal of their leases, and gates find slots that nobody wants. Only the children of
// an unreadable history are unknown; they run on.

// wipeTimeout bounds the search for the keys of an instance, which reads the names of all keys of a node.
const wipeTimeout = 5 * time.Minute

// wipe is a forced purge that was found in front of an instance that cannot be read.
type wipe struct {
	at    int
	id    string
	purge *history.PurgeRequested
	ahead []unread // inputs in front of it that can be read
	rec   *store.Record
	keys  []redisx.ParsedKey
	now   int64 // the answer
}

// wipeOr removes an instance that cannot be read, if a forced purge is anywhere in its inbox. Otherwise it is stalled.
func (a *removals) wipeOr(in *instance, op operation) {
	delete(a.removals.forced, in.id)
	a.unloadCode(in)
	op.from = in.phase
	a.to(in, findingWipe)
	in.op = op
	a.emit(effect{kind: findWipe, in: in})
}

func (a *removals) wipeFound(in *instance, w *wipe, err error) {
	op := in.op
	a.to(in, op.from)
	switch {
	case err != nil:
		a.storeFailed("load "+in.id, err)
		a.forget(in)
	case w != nil:
		a.to(in, wiping)
		a.emit(effect{kind: wipeInstance, in: in, body: w})
	case a.removals.forced[in.id]: // it has come meanwhile
		a.removals.wipeOr(in, op)
	default:
		a.removals.deferInstance(in, op.kind, op.why)
	}
}

// findWipe searches the raw inbox for a forced purge, and finds what belongs to the instance; nil if there is none.
func (s *shell) findWipe(ctx context.Context, id string) (*wipe, error) {
	raw, err := s.store.Inbox(ctx, s.st.Part, id)
	if store.Unreadable(err) {
		return nil, nil //nolint:nilnil // of another type: a purge makes room for itself, see unblock
	}
	if err != nil {
		return nil, err
	}
	rec, err := s.store.Record(ctx, s.st.Part, id)
	if err != nil && !store.Unreadable(err) {
		return nil, err
	}
	w := &wipe{rec: rec}
	for i, b := range raw {
		el, err := history.ParseElement(b)
		if err != nil || !strings.HasSuffix(el.ID, s.seal) {
			continue
		}
		u := unread{id: el.ID}
		if u.ev, err = el.Event(); err != nil {
			continue
		}
		if p, ok := u.ev.(*history.PurgeRequested); ok && p.Force && (rec == nil || !u.before(rec.Origin)) {
			w.at, w.id, w.purge = i, u.id, p
			break
		}
		w.ahead = append(w.ahead, u)
	}
	if w.purge == nil {
		return nil, nil //nolint:nilnil // none
	}
	w.keys, err = s.store.OwnedKeys(ctx, s.st.Part, id)
	return w, err
}

// wiped tells those who can be told that the instance is removed.
func (a *removals) wiped(in *instance, w *wipe, err error) {
	a.to(in, idle)
	switch {
	case err == nil:
		a.sawClock(w.now)
		a.met.purged.Inc()
		a.log.Warn("unreadable instance purged by force", "instance", in.id, "by", w.purge.By)
		a.removals.notBegun(in, w.purge, w.ahead)
		if w.rec != nil && w.rec.Parent != nil && !w.rec.Status.Ended() {
			_, end := purged(w.purge, a.clock.now())
			a.outbox.reply(in, done(w.rec.Parent, end))
		}
		a.commits.answer(w.purge.Reply, request.Answer{Instance: in.id, Status: request.StatusPurged})
	case errors.Is(err, store.ErrConflict): // something came in front, or the reply of an earlier try was lost
		a.met.conflicts.Inc()
	default:
		a.storeFailed("purge of "+in.id, err)
	}
	a.removals.removed(in, err == nil || errors.Is(err, store.ErrConflict))
}
