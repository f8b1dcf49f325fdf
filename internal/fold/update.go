package fold

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/pkg/history"
)

// updates contains the open updates (received and not answered), by event id.
type updates map[uint64]*history.UpdateReceived

// Update returns an open update, or nil.
func (u updates) Update(id uint64) *history.UpdateReceived { return u[id] }

// UpdateLen returns the number of open updates.
func (u updates) UpdateLen() int { return len(u) }

// OpenUpdates returns the updates that were received and not answered, in the order in which they were received.
func (u updates) OpenUpdates() []*history.UpdateReceived {
	if len(u) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(u), func(a, b *history.UpdateReceived) int { return cmp.Compare(a.ID, b.ID) })
}

func (u *updates) applyUpdate(e history.Event) {
	switch e := e.(type) {
	case *history.UpdateReceived:
		if *u == nil {
			*u = make(updates)
		}
		(*u)[e.ID] = e
	case *history.UpdateAnswered:
		delete(*u, e.Update)
	}
}

func (u updates) updateViolation(e *history.UpdateAnswered) string {
	if u[e.Update] == nil {
		return fmt.Sprintf("answers update %d, which is not open", e.Update)
	}
	return ""
}
