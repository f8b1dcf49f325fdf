package shard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Children of a cancelled ancestor.
//
// A cancellation goes from parent to child as a message, and so does a start: a tree that keeps starting children grows as fast as it is
// cancelled, and its end is never reached. So the owner of a parent that cancels children notes them for the whole fleet, from the
// third level on, and no instance begins that is below one of them:
//
//	commit of ChildCancelRequested ──▶ mark in Redis, notice ──▶ known to every orchestrator within a second
//	start, first turn: a mark of its own line is recorded ──▶ ended by name as cancelled; its parent receives the end
//
// The messages are always sent, and an instance that is cancelled by one marks its own children in turn. So a mark that is lost (a crash behind the
// commit), or too old, costs time: the next level makes new ones. One that is recorded does no harm: its start was cancelled for good.

const cancelledEvery = time.Second // how often the marks are read, in case the notice was lost

// descendants are the marks of cancelled children that this process has read. It is safe for concurrent use.
type descendants struct {
	store   *store.Store
	conn    *queue.Conn
	log     *slog.Logger
	noticed chan struct{}

	mu    sync.RWMutex
	known map[string]struct{}
	own   map[string]time.Time // noted by this process, until they are too old
	fresh []string             // of them, those that the store does not have yet
}

func newDescendants(st *store.Store, conn *queue.Conn, log *slog.Logger) *descendants {
	return &descendants{
		store: st, conn: conn, log: log, noticed: make(chan struct{}, 1),
		known: make(map[string]struct{}), own: make(map[string]time.Time),
	}
}

// notice has the marks written and read soon.
func (d *descendants) notice() {
	select {
	case d.noticed <- struct{}{}:
	default:
	}
}

// add notes cancelled children.
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
	d.notice()
}

// cancelled reports whether a child is below one that was cancelled, or is such a one.
func (d *descendants) cancelled(p *history.Parent) bool {
	if p == nil {
		return false
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if len(d.known) == 0 {
		return false
	}
	for mark := range p.Marks {
		if _, ok := d.known[mark]; ok {
			return true
		}
	}
	return false
}

// watch writes and reads marks until ctx ends.
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
		_ = d.conn.Notify(queue.Notice{Kind: queue.ChildrenCancelled}) // lost: the others read within a second
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
