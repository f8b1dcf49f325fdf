package shard

import (
	"context"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/history"
)

// wipeTimeout bounds the search for the keys of an instance, which scans all keys of a node.
const wipeTimeout = 5 * time.Minute

// findWipe searches the raw inbox for a forced purge, and then for all keys of the instance. It returns nil if there is no forced purge.
func (s *shell) findWipe(ctx context.Context, id string) (*core.Wipe, error) {
	raw, err := s.process.store.Inbox(ctx, s.st.Part, id, 0)
	if store.Unreadable(err) {
		return nil, nil //nolint:nilnil // the inbox has a foreign type; ingest removes it for a forced purge, see unblock
	}
	if err != nil {
		return nil, err
	}
	rec, err := s.process.store.Record(ctx, s.st.Part, id)
	if err != nil && !store.Unreadable(err) {
		return nil, err
	}
	w := &core.Wipe{Rec: rec}
	for i, b := range raw {
		el, err := eventcodec.ParseElement(b)
		if err != nil || !strings.HasSuffix(el.ID, s.seal) {
			continue
		}
		u := core.Unread{ID: el.ID}
		if u.Ev, err = el.Event(); err != nil {
			continue
		}
		if p, ok := u.Ev.(*history.PurgeRequested); ok && p.Force && (rec == nil || !u.Before(rec.Origin)) {
			w.Request, w.Purge = record.Wipe{Instance: id, InboxIndex: i, Purge: u.ID}, p
			break
		}
		w.Ahead = append(w.Ahead, u)
	}
	if w.Purge == nil {
		return nil, nil //nolint:nilnil // none
	}
	w.Request.Keys, err = s.process.store.OwnedKeys(ctx, s.st.Part, id)
	return w, err
}
