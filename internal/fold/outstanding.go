package fold

import (
	"maps"
	"slices"
)

// outstanding holds the outstanding activities of one execution (scheduled, and neither completed nor cancelled): their schedules, by the id
// of the event that scheduled them. The turn that ends the execution cancels the remaining ones. The zero value is empty. It is
// not safe for concurrent use.
type outstanding[T any] struct {
	byID map[uint64]T
}

// Schedule adds an activity with its schedule. The id must be new.
func (l *outstanding[T]) Schedule(id uint64, as T) {
	if l.byID == nil {
		l.byID = make(map[uint64]T)
	}
	l.byID[id] = as
}

// Settle removes an activity that has completed, failed or been cancelled.
func (l *outstanding[T]) Settle(id uint64) { delete(l.byID, id) }

// Lookup returns the schedule of an outstanding activity. ok is false if the activity was never scheduled, or has been settled.
func (l *outstanding[T]) Lookup(id uint64) (as T, ok bool) {
	as, ok = l.byID[id]
	return as, ok
}

// Len returns the number of outstanding activities.
func (l *outstanding[T]) Len() int { return len(l.byID) }

// Outstanding returns the ids of the outstanding activities in ascending order, so that decisions based on them are the same in every
// replay.
func (l *outstanding[T]) Outstanding() []uint64 { return slices.Sorted(maps.Keys(l.byID)) }

// Clone returns a shallow copy of the ledger.
func (l *outstanding[T]) Clone() outstanding[T] { return outstanding[T]{maps.Clone(l.byID)} }
