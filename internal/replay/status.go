package replay

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// SetStatus sets the custom status of a name, or without one; an empty payload removes it. It is not in the history: it follows from the
// code, and a replay sets it again. Statuses over the limit together, or more than history.MaxStatuses names, are a *history.Failure,
// which sets nothing.
func (x *Code) SetStatus(name string, p history.Payload) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	all, fits, err := history.SetStatus(x.currentStatus(), x.started.StatusVersion+x.sets, name, p)
	switch {
	case err != nil:
		return fmt.Errorf("custom status: %w", err)
	case !fits:
		return &history.Failure{
			Code: history.CodeTooMany, Permanent: true,
			Message: fmt.Sprintf("status %s: the instance has %d named statuses, and cannot have more", name, history.MaxStatuses),
		}
	}
	if f := tooLargeInline(&x.record, all, "the custom status"); f != nil {
		return f
	}
	x.status = all
	x.sets++
	return nil
}

// CurrentStatus returns the custom status of a name that the instance has set last, in this execution or in an earlier one; empty if
// it has set none, or has removed it.
func (x *Code) CurrentStatus(name string) (history.Payload, error) {
	if _, err := x.enter(); err != nil {
		return history.Payload{}, err
	}
	all, err := history.SplitStatus(x.currentStatus(), x.started.StatusVersion+x.sets)
	for _, s := range all {
		if s.Name == name {
			return s.Payload, err
		}
	}
	return history.Payload{}, err
}

func (x *record) currentStatus() history.Payload {
	if x.sets == 0 {
		return x.started.CustomStatus
	}
	return x.status
}

// Status returns the custom status that this execution has set last, and its version: how often it was set, by the
// executions before this one (Started.StatusVersion) and by this one, including replayed sets. If this one has set none,
// the payload is zero. It is sealed, as those of Take.
func (x *Execution) Status() (p history.Payload, version uint64) {
	return x.sealedStatus(x.status), x.StatusVersion()
}

// StatusVersion is the version of Status.
func (x *Execution) StatusVersion() uint64 { return x.started.StatusVersion + x.sets }

func (x *Execution) sealedStatus(p history.Payload) history.Payload {
	return x.opts.Codec.Seal(x.place(statusPlace, x.StatusVersion()), p)
}
