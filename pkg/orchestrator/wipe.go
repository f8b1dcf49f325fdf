package orchestrator

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
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

// unblock lets a forced purge into an inbox that Redis refuses to push to. It reports whether anything was in its way.
func (a *actor) unblock(ctx context.Context, in queue.Input) bool {
	if in.Kind != queue.KindPurge || !in.Force || in.Problem != nil {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, lastRetry)
	defer stop()
	was, err := a.store.Unblock(ctx, a.st, in.Instance)
	switch {
	case err != nil:
		logFailure(a.log, "keys of another type not removed", err, "instance", in.Instance)
	case was:
		a.log.Warn("keys of another type removed by forced purge", "instance", in.Instance)
	}
	return was
}

// wipe is a forced purge that was found in front of an instance that cannot be read.
type wipe struct {
	at    int
	id    string
	purge *history.PurgeRequested
	ahead []unread // inputs in front of it that can be read
	rec   *store.Record
	keys  []redisx.ParsedKey
}

// wipeOr removes an instance that cannot be read, if a forced purge is anywhere in its inbox.
func (a *actor) wipeOr(in *instance, otherwise func()) {
	delete(a.forced, in.id)
	a.unwindCode(in)
	a.begin(in)
	a.waits.Go(func() {
		ctx, stop := context.WithTimeout(a.life, wipeTimeout)
		defer stop()
		w, err := a.findWipe(ctx, in.id)
		a.box.post(func() {
			a.end(in)
			switch {
			case err != nil:
				a.failed("load "+in.id, err)
				a.unwind(in)
				delete(a.instances, in.id)
			case w != nil:
				a.wipe(in, w)
			case a.forced[in.id]: // it has come meanwhile
				a.wipeOr(in, otherwise)
			default:
				otherwise()
			}
		})
	})
}

// findWipe searches the raw inbox for a forced purge, and finds what belongs to the instance; nil if there is none.
func (a *actor) findWipe(ctx context.Context, id string) (*wipe, error) {
	raw, err := a.store.Inbox(ctx, a.st.Part, id)
	if store.Unreadable(err) {
		return nil, nil //nolint:nilnil // of another type: a purge makes room for itself, see unblock
	}
	if err != nil {
		return nil, err
	}
	rec, err := a.store.Record(ctx, a.st.Part, id)
	if err != nil && !store.Unreadable(err) {
		return nil, err
	}
	w := &wipe{rec: rec}
	for i, b := range raw {
		el, err := history.ParseElement(b)
		if err != nil || !strings.HasSuffix(el.ID, a.seal) {
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
	w.keys, err = a.store.OwnedKeys(ctx, a.st.Part, id)
	return w, err
}

// wipe removes the instance, and tells those who can be told.
func (a *actor) wipe(in *instance, w *wipe) {
	a.begin(in)
	a.store.Wipe(a.st, &store.Wipe{Instance: in.id, InboxIndex: w.at, Purge: w.id, Keys: w.keys}, func(now int64, err error) {
		failpoint.Here("orchestrator.purged")
		a.box.post(func() {
			a.end(in)
			switch {
			case err == nil:
				a.heard(now)
				a.met.purged.Inc()
				a.log.Warn("unreadable instance purged by force", "instance", in.id, "by", w.purge.By)
				a.notBegun(in, w.purge, w.ahead)
				if w.rec != nil && w.rec.Parent != nil && !w.rec.Status.Ended() {
					_, end := purged(w.purge, a.clock.now())
					a.reply(in, done(w.rec.Parent, end))
				}
				a.answer(w.purge.Reply, queue.Answer{Instance: in.id, Status: queue.StatusPurged})
			case errors.Is(err, store.ErrConflict): // something came in front, or the reply of an earlier try was lost
				a.met.conflicts.Inc()
			default:
				a.failed("purge of "+in.id, err)
			}
			delete(a.stalls, in.id)
			a.unwind(in)
			delete(a.instances, in.id)
			if err == nil || errors.Is(err, store.ErrConflict) {
				a.lookAt(in.id) // what came behind the purge
			}
		})
	})
}
