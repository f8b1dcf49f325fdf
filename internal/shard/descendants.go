package shard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// Descendants of cancelled instances.
//
// A cancellation travels from parent to child as a message, and so does a start. A tree that keeps starting children grows as fast as it is
// cancelled, so that the messages never reach its leaves. Therefore, from the third level on, the owner of a parent that cancels children also
// marks them for the whole fleet, and no instance that descends from a marked one begins:
//
//	commit of ChildCancelRequested ──▶ mark in Redis, notice ──▶ read by every orchestrator within a second
//	start, first turn: an ancestor is marked ──▶ the instance ends as cancelled, and its parent receives the end
//
// The messages are always sent, and an instance that is cancelled by one marks its own children in turn. A mark that was lost (in a crash after
// the commit) or has expired therefore costs only time: the next level sets new ones. A mark never stops an instance wrongly: a cancellation
// is not revoked.

const cancelledEvery = time.Second // interval at which the marks are read, in case the notice was lost

// descendants hold the marks of cancelled children. They are safe for concurrent use.
type descendants struct {
	store   *store.Store
	conn    *transport.Conn
	log     *slog.Logger
	noticed chan struct{}

	mu    sync.RWMutex
	known map[string]struct{}
	own   map[string]time.Time // marks set by this process, until they expire
	fresh []string             // those of own that are not in Redis yet
}

func newDescendants(st *store.Store, conn *transport.Conn, log *slog.Logger) *descendants {
	return &descendants{
		store: st, conn: conn, log: log, noticed: make(chan struct{}, 1),
		known: make(map[string]struct{}), own: make(map[string]time.Time),
	}
}

// add marks cancelled children.
func (d *descendants) add(marks []string) {
	now := time.Now()
	d.mu.Lock()
	for _, m := range marks {
		if _, ok := d.own[m]; !ok {
			d.own[m], d.known[m] = now, struct{}{}
			d.fresh = append(d.fresh, m)
		}
	}
	d.mu.Unlock()
	signal(d.noticed)
}

// cancelled reports whether the child with parent p, or one of its ancestors, is marked as cancelled.
func (d *descendants) cancelled(p *history.Parent) bool {
	if p == nil {
		return false
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.known) == 0 {
		return false
	}
	for mark := range effectid.Marks(p) {
		if _, ok := d.known[mark]; ok {
			return true
		}
	}
	return false
}

// watch writes new marks and reads all marks every cancelledEvery, and at each notice, until ctx ends.
func (d *descendants) watch(ctx context.Context) {
	for {
		if err := d.exchange(ctx); err != nil && ctx.Err() == nil {
			logFailure(d.log, "cancelled children not read, retrying", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(timers.Until(cancelledEvery)):
		case <-d.noticed:
		}
	}
}

func (d *descendants) exchange(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, loadTimeout)
	defer stop()
	d.mu.Lock()
	fresh := d.fresh
	d.fresh = nil
	d.mu.Unlock()
	if len(fresh) > 0 {
		if err := d.store.AddCancelled(ctx, fresh); err != nil {
			d.mu.Lock()
			d.fresh = append(fresh, d.fresh...)
			d.mu.Unlock()
			return err
		}
		_ = d.conn.Notify(transport.Notice{Kind: transport.ChildrenCancelled}) // if it is lost, the others read within a second
	}
	marks, err := d.store.Cancelled(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.known)
	for _, m := range marks {
		d.known[m] = struct{}{}
	}
	for m, at := range d.own {
		if time.Since(at) > store.CancelledSpan {
			delete(d.own, m)
			continue
		}
		d.known[m] = struct{}{}
	}
	return nil
}
