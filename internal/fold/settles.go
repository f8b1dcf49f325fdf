package fold

import (
	"github.com/pawlrun/pawl/pkg/history"
)

// Settles returns the id of the schedule that an event completes, cancels or grants; ok is false for any other event.
func Settles(e history.Event) (id uint64, ok bool) {
	switch e := e.(type) {
	case *history.ActivityCompleted:
		return e.Scheduled, true
	case *history.ActivityFailed:
		return e.Scheduled, true
	case *history.ActivityCancelRequested:
		return e.Scheduled, true
	case *history.ChildCompleted:
		return e.Scheduled, true
	case *history.ChildFailed:
		return e.Scheduled, true
	case *history.ChildCancelRequested:
		return e.Scheduled, true
	case *history.Granted:
		return e.Scheduled, true
	default:
		return 0, false
	}
}
