package cancel

import (
	"maps"
	"slices"
)

// Outstanding holds the outstanding activities of one execution (scheduled, and neither completed nor cancelled): their schedules, by the id
// of the event that scheduled them. The turn that ends the execution cancels the remaining ones. The zero value is empty. It is
// not safe for concurrent use.
type Outstanding[T any] struct {
	outstanding map[uint64]T
}

// Schedule adds an activity with its schedule. The id must be new.
func (l *Outstanding[T]) Schedule(id uint64, as T) {
	if l.outstanding == nil {
		l.outstanding = make(map[uint64]T)
	}
	l.outstanding[id] = as
}

// Settle removes an activity that has completed, failed or been cancelled.
func (l *Outstanding[T]) Settle(id uint64) { delete(l.outstanding, id) }

// Lookup returns the schedule of an outstanding activity. ok is false if the activity was never scheduled, or has been settled.
func (l *Outstanding[T]) Lookup(id uint64) (as T, ok bool) {
	as, ok = l.outstanding[id]
	return as, ok
}

// Len returns the number of outstanding activities.
func (l *Outstanding[T]) Len() int { return len(l.outstanding) }

// Outstanding returns the ids of the outstanding activities in ascending order, so that decisions based on them are the same in every
// replay.
func (l *Outstanding[T]) Outstanding() []uint64 { return slices.Sorted(maps.Keys(l.outstanding)) }

// Clone returns a shallow copy of the ledger.
func (l *Outstanding[T]) Clone() Outstanding[T] { return Outstanding[T]{maps.Clone(l.outstanding)} }
