package replay

// Firings count what the steps since the last TakeFirings did with the times of a schedule. They are not recorded in the history: a
// replay does not count, and the firings of a turn that is not committed are lost with it.
type Firings struct {
	Due    []int64            // times whose actions were done, with their jitter, in Unix ms
	Missed [MissCauses]uint64 // number of times without an action, by cause
}

// MissCause is the reason for which a time of a schedule has no action.
type MissCause int

// The causes.
const (
	MissedByOverlap MissCause = iota // the instance of an earlier time is still running
	MissedByAge                      // the time is older than the catch-up window
	MissedByNumber                   // more times are due than may be caught up with
	MissedAsDone                     // its instance already exists
	MissCauses
)

// CountFirings calls add, except on replay. It is neither a decision nor an observation, so the code must not depend on it.
func CountFirings(x *Code, add func(*Firings)) {
	if x.past.active {
		return
	}
	if x.firings == nil {
		x.firings = new(Firings)
	}
	add(x.firings)
}

// TakeFirings returns what CountFirings has counted since the last TakeFirings, or nil.
func TakeFirings(x *Execution) *Firings {
	taken := x.firings
	x.firings = nil
	return taken
}
