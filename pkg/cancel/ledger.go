package cancel

import (
	"maps"
	"slices"
)

// Ledger keeps {scheduled − completed − cancelled} of one execution, by the event
// id of the schedule, and what each was scheduled as. What is left in it when an
// execution ends is what the ending turn cancels. The zero value is an empty ledger. It
// is not safe for concurrent use.
type Ledger[T any] struct {
	outstanding map[uint64]T
}

// Schedule adds an activity. The id must not be open: event ids are given once.
func (l *Ledger[T]) Schedule(id uint64, as T) {
	if l.outstanding == nil {
		l.outstanding = make(map[uint64]T)
	}
	l.outstanding[id] = as
}

// Settle removes an activity that has completed, failed or been cancelled.
func (l *Ledger[T]) Settle(id uint64) { delete(l.outstanding, id) }

// Open gives what is still wanted under the id; ok is false if nothing is: it was never
// scheduled, or it has been settled.
func (l *Ledger[T]) Lookup(id uint64) (as T, ok bool) {
	as, ok = l.outstanding[id]
	return as, ok
}

// Len is the number of outstanding activities.
func (l *Ledger[T]) Len() int { return len(l.outstanding) }

// Outstanding lists what is still wanted in ascending order of id, so that
// whoever decides by it decides the same on every replay.
func (l *Ledger[T]) Outstanding() []uint64 { return slices.Sorted(maps.Keys(l.outstanding)) }
