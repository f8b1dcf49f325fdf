package replay

import "github.com/pawlrun/pawl/pkg/history"

// SetStatus sets the custom status; an empty payload removes it. It is not in the history: it follows from the code, and a
// replay sets it again. A payload over the limit is a *history.Failure, and sets nothing.
func (x *Code) SetStatus(p history.Payload) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	if f := x.tooLarge(p, "the custom status"); f != nil {
		return f
	}
	x.status = p
	x.sets++
	return nil
}

// CurrentStatus returns the custom status that the instance has set last, in this execution or in an earlier one; empty if
// it has set none, or has removed it.
func (x *Code) CurrentStatus() (history.Payload, error) {
	if _, err := x.enter(); err != nil {
		return history.Payload{}, err
	}
	return x.currentStatus(), nil
}

func (x *record) currentStatus() history.Payload {
	if x.sets == 0 {
		return x.started.CustomStatus
	}
	return x.status
}

// Status returns the custom status that this execution has set last, and its version: how often it was set, by the
// executions before this one (Started.StatusVersion) and by this one, including replayed sets. If this one has set none,
// the payload is zero.
func (x *Execution) Status() (p history.Payload, version uint64) {
	return x.status, x.started.StatusVersion + x.sets
}
