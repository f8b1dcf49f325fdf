// Package lease describes how activities end that have lost their lease.
//
// A lease is a key in Redis: while it exists, the result of an activity is required. The commit of the turn that schedules the activity
// creates the lease, and a worker claims and renews it while the activity runs. The commit of the turn that cancels the activity deletes
// it: from then on the result is not accepted, and the worker, notified within milliseconds or at its next renewal, cancels the context of
// the activity with the cause that the history records, a *cancel.Cancelled. How the activity then ended is a Report.
package lease

import "time"

// Ending is the way in which a cancelled activity ended.
type Ending string

// The ways in which a cancelled activity ends.
const (
	Stopped       Ending = "stopped"        // it returned Report.After after the end of its context
	FinishedFirst Ending = "finished-first" // its result was accepted before the turn that cancelled it, which did not include it, and was dropped
	FinishedLate  Ending = "finished-late"  // it returned before its worker was notified of the cancellation
	NeverStarted  Ending = "never-started"  // it was cancelled before a worker started it
	Abandoned     Ending = "abandoned"      // it did not return within its grace period, Report.After
)

// Report describes how a cancelled activity ended, as recorded by its worker or by the owner of the instance. It is stored next to the
// history, after the cancellation. No decision depends on it, and it may be missing. A newer worker may record an Ending that is not
// listed here.
type Report struct {
	Ending Ending
	After  time.Duration // time since the end of the activity's context, stored in milliseconds
	Worker string        // empty: no worker had claimed it
	At     time.Time     // by the clock of the process that recorded it, UTC; zero: not recorded
}
