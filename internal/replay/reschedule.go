package replay

import (
	"slices"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// reschedule schedules the outstanding activities anew, in the order of their schedules, except those whose results have arrived: an
// operator has stopped them, or has rewound the execution. The call stays the same: the attempt keeps its number, and the call its
// key. Its timeouts begin anew.
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

// again schedules the attempt of the call once more.
func (c *call) again() {
	c.attempt = nil
	c.drop(cancel.Cancelled{Reason: cancel.LostSelect}, &c.limit)
	c.number--
	c.begin()
	if c.deadline != nil && !c.settled {
		c.drop(cancel.Cancelled{Reason: cancel.LostSelect}, &c.deadline)
		c.deadline = c.x.scheduleTimer(&history.TimerScheduled{}, c.spec.Within, c.home, c)
	}
}
