package shard

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// The owner of partition 0 removes the objects that no instance refers to. An hourly round gives each object of at least 48 hours one state:
//
//	         no owner refers to it          an hour later the same            the round after
//	written ──────────────────────▶ marked ───────────────────────▶ removed ──────────────────▶ (mark removed)
//	   ▲                              │
//	   └──── an owner refers to it ───┘
//
// What could refer to an object without being in the histories and inboxes that a round reads, and why it is not lost:
//
//   - An input that is in INPUTS only, or in the outbox of an instance that is purged before the receiver has it. The position of each partition
//     in INPUTS is noted behind the round that marks; the round that removes requires that the partition has applied it. A partition
//     without an owner keeps its objects, and stops no others.
//   - A turn that was decided before, more than 48 hours ago, and is decided again: its objects have the same names, so they are there already.
//     Its writer looks for the mark, and the turn is not committed if there is one: the instance is stalled, and writes the objects again when
//     they are gone. A writer that has seen no mark was there before it, and its commit is found by the round that removes. The mark stays
//     behind the removal, for a writer that has found one part before it and writes another behind it.
//   - An instance that was purged, and that a Redis which has lost its last ten minutes (trimWindow) has again: a mark is older than that.
//   - An owner of partition 0 that was paused within a round: it removes only what was in the stream when the round began.
//
// Crash points: between any two steps the next round continues, of this owner or another one; the notes are lost with the process, and cost
// one round. Decision 81 has the protocol of writers and readers.
const (
	ensureObjectsEvery = 15 * time.Second
	collectEvery       = time.Hour
	markedFor          = 30 * time.Minute // before it is removed, and behind its removal

	// The build fails if one is negative: a mark outlives a rollback, a round is longer than the age of a mark, and an object is old enough.
	_ = uint(markedFor - 2*trimWindow)
	_ = uint(collectEvery - markedFor)
	_ = uint(queue.ObjectAge - 2*queue.MaxStoring)
)

// collectObjects creates a lost object store again, and collects.
func (s *Process) collectObjects(ctx context.Context, keeper *partition.Keeper) {
	c := objectCollector{Process: s, age: queue.ObjectAge, markedFor: markedFor}
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
	age       time.Duration // below which an object is not looked at
	markedFor time.Duration
	notes     map[int]queue.Accepted // by partition, read behind the last round
}

// objectRound is what a round has read.
type objectRound struct {
	*objectCollector
	marks   map[string]queue.Mark
	unseen  map[string]queue.Mark // of no object so far
	applied map[int]history.Position
}

func (c *objectCollector) collect(ctx context.Context) error {
	marks, err := c.conn.Marked(ctx)
	if err != nil {
		return err
	}
	r := objectRound{c, marks, maps.Clone(marks), make(map[int]history.Position)}
	err = c.conn.Objects(ctx, c.age, func(page []queue.StoredObject) error {
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
	return c.note(ctx, r.applied)
}

// note reads what the partitions have accepted.
func (c *objectCollector) note(ctx context.Context, partitions map[int]history.Position) error {
	notes := make(map[int]queue.Accepted, len(partitions))
	for p := range partitions {
		accepted, err := c.conn.Accepted(ctx, p, history.Position{})
		if err != nil {
			return err
		}
		notes[p] = accepted
	}
	c.notes = notes
	return nil
}

// sweep moves the objects of a page to their next states.
func (r *objectRound) sweep(ctx context.Context, page []queue.StoredObject) error {
	needed, err := r.needed(ctx, page)
	if err != nil {
		return err
	}
	for _, o := range page {
		delete(r.unseen, o.Name)
		m, marked := r.marks[o.Name]
		switch {
		case marked && (needed[o.Name] || o.At.After(m.At)): // it was removed, and written again
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

// settled reports whether the partitions of the owners have applied what they had accepted behind the round that made the mark.
func (r *objectRound) settled(owners []string, m queue.Mark) bool {
	return !slices.ContainsFunc(owners, func(owner string) bool {
		if queue.CheckInstance(owner) != nil { // of a foreign writer
			return false
		}
		p := r.conn.PartitionOf(owner)
		note, noted := r.notes[p]
		return !noted || !note.At.After(m.At) || r.applied[p].Seq < note.Last.Seq || r.applied[p].Time < note.Last.Time
	})
}

// needed returns the objects of a page that one of their owners mentions. The positions of the partitions are read first.
func (r *objectRound) needed(ctx context.Context, page []queue.StoredObject) (map[string]bool, error) {
	of := make(map[string][]string) // objects, by owner
	for _, o := range page {
		for _, owner := range o.Owners {
			if !slices.Contains(of[owner], o.Name) {
				of[owner] = append(of[owner], o.Name)
			}
		}
	}
	needed := make(map[string]bool)
	for owner, names := range of {
		if queue.CheckInstance(owner) != nil { // of a foreign writer
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
