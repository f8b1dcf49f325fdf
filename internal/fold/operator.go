package fold

import (
	"slices"

	"github.com/pawlrun/pawl/pkg/history"
)

// PausedBy returns the event that began the current pause, or nil.
func (s *State) PausedBy() *history.Paused { return s.paused }

// Execution returns the number of the current execution: of the last Rewound, or of Started.
func (s *State) Execution() uint64 {
	if s.rewound != 0 {
		return s.rewound
	}
	if s.Started == nil {
		return 0
	}
	return s.Started.Execution
}

// Deadline returns the time at which the run times out, Unix ms; 0: never. A rewind restarts the timeout.
func (s *State) Deadline() int64 { return s.deadline }

// stopped reports whether a pause has stopped the outstanding activities.
func (s *State) stopped() bool { return s.paused != nil && s.paused.Stop }

// applyOperator folds the events that record operator requests.
func (s *State) applyOperator(e history.Event) {
	switch e := e.(type) {
	case *history.Paused:
		s.paused = e
	case *history.Resumed:
		if s.paused = nil; e.Stopped {
			s.reschedule(e.Answered)
		}
	case *history.Rewound:
		if s.paused, s.rewound = nil, e.Execution; s.Started != nil && s.Started.Timeout > 0 { // Check also folds histories whose first event cannot be read
			s.deadline = e.At + s.Started.Timeout
		}
		s.reschedule(e.Answered)
	}
}

// reschedule settles the outstanding activities that the step schedules again.
func (s *State) reschedule(answered []uint64) {
	for _, id := range s.Outstanding() {
		if !slices.Contains(answered, id) {
			s.settle(id, false)
		}
	}
}

// operatorViolation returns the rule about operator requests that the event would break, or "".
func (s *State) operatorViolation(e history.Event) string {
	switch e := e.(type) {
	case *history.OperatorRequested:
		return "an operator request must not be in a history"
	case *history.Paused:
		if s.paused != nil {
			return "pauses a paused instance"
		}
	case *history.Resumed:
		if s.paused == nil || s.paused.Stop != e.Stopped {
			return "resumes an instance without a matching pause"
		}
	case *history.Rewound:
		if e.Execution <= s.Execution() {
			return "rewinds to an earlier execution"
		}
	case *history.Completed, *history.Failed, *history.Cancelled, *history.ContinuedAsNew, *history.CancelRequested, *history.ActivityCancelRequested, *history.ChildCancelRequested:
	default:
		if s.paused != nil {
			return "is not allowed during a pause"
		}
	}
	return ""
}
