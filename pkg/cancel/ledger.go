package cancel

import "slices"

// Ledger keeps {scheduled − completed − cancelled} of one execution, by the event
// id of the schedule. What is left in it when an execution ends is what the ending
// turn cancels. The zero value is an empty ledger. It is not safe for concurrent use.
type Ledger struct {
	open map[uint64]struct{}
}

// Schedule adds an activity. It reports false if the id was already open.
func (l *Ledger) Schedule(id uint64) bool {
	if _, dup := l.open[id]; dup {
		return false
	}
	if l.open == nil {
		l.open = make(map[uint64]struct{})
	}
	l.open[id] = struct{}{}
	return true
}

// Settle removes an activity that has completed, failed or been cancelled. It
// reports false if there was nothing to remove: a repeat, or a completion that
// lost the race against its cancellation.
func (l *Ledger) Settle(id uint64) bool {
	if _, ok := l.open[id]; !ok {
		return false
	}
	delete(l.open, id)
	return true
}

// Open reports whether the activity is still wanted.
func (l *Ledger) Open(id uint64) bool { _, ok := l.open[id]; return ok }

// Len is the number of outstanding activities.
func (l *Ledger) Len() int { return len(l.open) }

// Outstanding lists what is still wanted in ascending order of id, so that
// whoever decides by it decides the same on every replay.
func (l *Ledger) Outstanding() []uint64 {
	ids := make([]uint64, 0, len(l.open))
	for id := range l.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
