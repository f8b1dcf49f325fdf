package replay

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// SetStatus sets the custom status with the given name, which may be empty. An empty payload removes it. The status is not recorded in
// the history: it follows from the code, and a replay sets it again. If all statuses together are over the limit, or more than
// eventcodec.MaxStatuses have names, SetStatus changes nothing and returns a *history.Failure.
func (x *Code) SetStatus(name string, p history.Payload) error {
	if _, err := x.enter(); err != nil {
		return err
	}
	all, fits, err := eventcodec.SetStatus(x.currentStatus(), x.started.StatusVersion+x.sets, name, p)
	switch {
	case err != nil:
		return fmt.Errorf("custom status: %w", err)
	case !fits:
		return &history.Failure{
			Code: history.CodeTooMany, Permanent: true,
			Message: fmt.Sprintf("status %s: the instance has %d named statuses, and cannot have more", name, eventcodec.MaxStatuses),
		}
	}
	if f := tooLargeInline(&x.record, all, "the custom status"); f != nil {
		return f
	}
	x.status = all
	x.sets++
	return nil
}

// CurrentStatus returns the custom status with the given name that the instance set last, in this execution or an earlier one. It is
// empty if it was not set or was removed.
func (x *Code) CurrentStatus(name string) (history.Payload, error) {
	if _, err := x.enter(); err != nil {
		return history.Payload{}, err
	}
	all, err := eventcodec.SplitStatus(x.currentStatus(), x.started.StatusVersion+x.sets)
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

// Status returns the custom status that this execution set last, sealed like the events of Take, and its version. The version counts how
// often the status was set by earlier executions (Started.StatusVersion) and by this one, including replayed sets. If this execution has
// not set it, the payload is zero.
func (x *Execution) Status() (p history.Payload, version uint64) {
	return x.sealedStatus(x.status), x.StatusVersion()
}

// StatusVersion returns the version of Status.
func (x *Execution) StatusVersion() uint64 { return x.started.StatusVersion + x.sets }

func (x *Execution) sealedStatus(p history.Payload) history.Payload {
	return x.opts.Codec.Seal(x.place(statusPlace, x.StatusVersion()), p)
}
