package shard

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// The owner of partition 0 removes the objects that no instance refers to. An hourly round moves each object that is at least 48 hours old at most
// one state further:
//
//	         no owner refers to it          still none an hour later          the round after
//	written ──────────────────────▶ marked ───────────────────────▶ removed ──────────────────▶ (mark removed)
//	   ▲                              │
//	   └──── an owner refers to it ───┘
//
// A reference to an object may exist outside of the histories and inboxes that a round reads. The object is not lost, because of:
//
//   - An input that is only in INPUTS, or in the outbox of an instance that is purged before its receiver has the input. After the round that
//     marks, the end of INPUTS is recorded for each partition; the round that removes requires that the partition has applied everything up to
//     there. A partition without an owner retains its objects, and does not delay the removal of others.
//   - A turn that was first decided more than 48 hours ago and is decided again. Its objects have the same names, so they exist already.
//     Its writer checks for the mark, and the turn is not committed if there is one: the instance is stalled, and writes the objects again after
//     their removal. A writer that saw no mark was earlier than the mark, so the round that removes finds its commit. The mark outlives the
//     removal, for a writer that found one part before the removal and writes another one after it.
//   - An instance that was purged and is restored by a Redis that has lost its last ten minutes (trimWindow): a mark is older than that.
//   - An owner of partition 0 that was paused within a round: it removes only objects that were in the stream when the round began.
//
// Crash points: after a crash between any two steps the next round, of this owner or another one, continues. The recorded positions are lost with
// the process, which delays the removal by one round. Decision 81 describes the protocol of writers and readers.
const (
	ensureObjectsEvery = 15 * time.Second
	collectEvery       = time.Hour
	markedFor          = 30 * time.Minute // from the mark to the removal, and from the removal to the end of the mark

	// The build fails if one of these is negative: a mark outlives a rollback, a round is longer than markedFor, and the minimum age of an
	// object exceeds the time that writing one may take.
	_ = uint(markedFor - 2*trimWindow)
	_ = uint(collectEvery - markedFor)
	_ = uint(transport.ObjectAge - 2*transport.MaxStoring)
)

// collectObjects recreates the object store if it was lost, and collects objects every hour, while this process owns partition 0.
func (s *Process) collectObjects(ctx context.Context, keeper *partition.Keeper) {
	c := objectCollector{Process: s, age: transport.ObjectAge, markedFor: markedFor}
	tick := time.NewTicker(ensureObjectsEvery)
	defer tick.Stop()
	for next := time.Now().Add(collectEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		owned := keeper.Owned()
		if len(owned) == 0 || owned[0] != 0 {
			continue
		}
		err := s.conn.EnsureObjects(ctx)
		if err == nil && time.Now().After(next) {
			next = time.Now().Add(collectEvery)
			err = c.collect(ctx)
		}
		if err != nil && ctx.Err() == nil {
			logFailure(s.log, "objects not collected, retrying", err)
		}
	}
}

type objectCollector struct {
	*Process
	age       time.Duration // younger objects are skipped
	markedFor time.Duration
	accepted  map[int]message.Accepted // by partition, read after the last round
}

// objectRound holds what one round has read.
type objectRound struct {
	*objectCollector
	marks   map[string]transport.Mark
	unseen  map[string]transport.Mark // marks whose object the round has not found
	applied map[int]history.Position
}

func (c *objectCollector) collect(ctx context.Context) error {
	marks, err := c.conn.Marked(ctx)
	if err != nil {
		return err
	}
	r := objectRound{c, marks, maps.Clone(marks), make(map[int]history.Position)}
	err = c.conn.Objects(ctx, c.age, func(page []transport.StoredObject) error {
		return r.sweep(ctx, page)
	})
	if err != nil {
		return err
	}
	for _, m := range r.unseen {
		if m.Age >= c.markedFor {
			if err := c.conn.UnmarkObject(ctx, m); err != nil {
				return err
			}
		}
	}
	accepted := make(map[int]message.Accepted, len(r.applied))
	for p := range r.applied {
		if accepted[p], err = c.conn.Accepted(ctx, p, history.Position{}); err != nil {
			return err
		}
	}
	c.accepted = accepted
	return nil
}

// sweep moves the objects of a page to their next states.
func (r *objectRound) sweep(ctx context.Context, page []transport.StoredObject) error {
	needed, err := r.needed(ctx, page)
	if err != nil {
		return err
	}
	for _, o := range page {
		delete(r.unseen, o.Name)
		m, marked := r.marks[o.Name]
		switch {
		case marked && (needed[o.Name] || o.At.After(m.At)): // a later object was removed and written again
			err = r.conn.UnmarkObject(ctx, m)
		case needed[o.Name]:
		case !marked:
			err = r.conn.MarkObject(ctx, o.Name)
		case m.Age >= r.markedFor && r.settled(o.Owners, m):
			err = r.conn.RemoveObject(ctx, o)
			r.met.objectsRemoved.Inc()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settled reports whether the partitions of the owners have applied all inputs that were accepted when the round that set the mark ended.
func (r *objectRound) settled(owners []string, m transport.Mark) bool {
	return !slices.ContainsFunc(owners, func(owner string) bool {
		if transport.CheckInstance(owner) != nil { // not written by Pawl
			return false
		}
		p := r.conn.PartitionOf(owner)
		end, ok := r.accepted[p]
		return !ok || !end.At.After(m.At) || r.applied[p].Seq < end.Last.Seq || r.applied[p].Time < end.Last.Time
	})
}

// needed returns the objects of a page that one of their owners mentions. It reads the position of a partition before the instances in it.
func (r *objectRound) needed(ctx context.Context, page []transport.StoredObject) (map[string]bool, error) {
	of := make(map[string][]string) // object names, by owner
	for _, o := range page {
		for _, owner := range o.Owners {
			if !slices.Contains(of[owner], o.Name) {
				of[owner] = append(of[owner], o.Name)
			}
		}
	}
	needed := make(map[string]bool)
	for owner, names := range of {
		if transport.CheckInstance(owner) != nil { // not written by Pawl
			continue
		}
		p := r.conn.PartitionOf(owner)
		if _, read := r.applied[p]; !read {
			applied, err := r.store.Applied(ctx, p)
			if err != nil {
				return nil, err
			}
			r.applied[p] = applied
		}
		mentioned, err := r.store.Mentions(ctx, p, owner, names)
		switch {
		case store.Unreadable(err):
			mentioned = names
		case err != nil:
			return nil, err
		}
		for _, name := range mentioned {
			needed[name] = true
		}
	}
	return needed, nil
}
