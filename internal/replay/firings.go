package replay

// Firings are what the steps since the last TakeFirings have done with times of a schedule. They are not in the history: a replay has
// none, and a turn that is not committed takes its own with it.
type Firings struct {
	Due    []int64            // Unix ms: the times, with their jitter, whose actions were done
	Missed [MissCauses]uint64 // times without an action
}

// MissCause is why a time of a schedule has no action.
type MissCause int

// The causes.
const (
	MissedByOverlap MissCause = iota // the instance of an earlier time runs
	MissedByAge                      // it is older than the catch-up window
	MissedByNumber                   // of the times to catch up with, there are more than allowed
	MissedAsDone                     // its instance exists
	MissCauses
)

// CountFirings calls add, unless the step is replayed. It is neither a decision nor an observation: the code must not depend on it.
func CountFirings(x *Code, add func(*Firings)) {
	if x.past.active {
		return
	}
	if x.firings == nil {
		x.firings = new(Firings)
	}
	add(x.firings)
}

// TakeFirings returns what CountFirings has added since the last TakeFirings; nil: nothing.
func TakeFirings(x *Execution) *Firings {
	taken := x.firings
	x.firings = nil
	return taken
}
