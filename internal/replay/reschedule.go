package replay

import (
	"slices"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// reschedule schedules the outstanding activities again, in the order of their schedules, except those whose results have arrived. It is
// used after an operator has stopped them or has rewound the execution. Each call stays the same: the attempt keeps its number, and the
// call keeps its key. Its timeouts restart.
func (x *Execution) reschedule(in history.Event, answered []uint64) {
	for _, w := range x.ascending() {
		if w.kind != activityWork || slices.Contains(answered, w.id) {
			continue
		}
		x.remove(w)
		if w.withdrawn == nil {
			w.owner.answered(w, in)
		}
	}
}

// repeatAttempt schedules the current attempt of the call once more.
func (c *call) repeatAttempt() {
	c.attempt = nil
	c.drop(cancel.Cancelled{Reason: cancel.LostSelect}, &c.limit)
	c.number--
	c.begin()
	if c.deadline != nil && !c.settled {
		c.drop(cancel.Cancelled{Reason: cancel.LostSelect}, &c.deadline)
		c.deadline = c.x.scheduleTimer(&history.TimerScheduled{}, c.spec.Within, c.home, c)
	}
}
