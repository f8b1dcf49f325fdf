package cancel

import (
	"maps"
	"slices"
)

// Ledger keeps the outstanding activities of one execution (scheduled − completed − cancelled), with their schedules, by the
// id of the event that scheduled them. The turn that ends an execution cancels those that are left. The zero value is an empty
// ledger. It is not safe for concurrent use.
type Ledger[T any] struct {
	outstanding map[uint64]T
}

// Schedule adds an activity. The id must be new.
func (l *Ledger[T]) Schedule(id uint64, as T) {
	if l.outstanding == nil {
		l.outstanding = make(map[uint64]T)
	}
	l.outstanding[id] = as
}

// Settle removes an activity that has completed, failed or been cancelled.
func (l *Ledger[T]) Settle(id uint64) { delete(l.outstanding, id) }

// Lookup returns the schedule of an outstanding activity; ok is false if it was never scheduled or has been settled.
func (l *Ledger[T]) Lookup(id uint64) (as T, ok bool) {
	as, ok = l.outstanding[id]
	return as, ok
}

// Len returns the number of outstanding activities.
func (l *Ledger[T]) Len() int { return len(l.outstanding) }

// Outstanding lists the ids of the outstanding activities in ascending order, so that decisions made from it are the same in
// every replay.
func (l *Ledger[T]) Outstanding() []uint64 { return slices.Sorted(maps.Keys(l.outstanding)) }

// Clone returns a copy of the ledger, of the same schedules.
func (l *Ledger[T]) Clone() Ledger[T] { return Ledger[T]{maps.Clone(l.outstanding)} }
