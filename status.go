package pawl

import (
	"cmp"
	"fmt"

	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// Status is the handle of a custom status: a value that an instance publishes about itself. An instance may have one status without a
// name (NewStatus) and eight with names (NewNamedStatus). The handle is immutable, so any package may use it.
//
//	var Progress = pawl.NewStatus[Step]()
//	var Parcel   = pawl.NewNamedStatus[Tracking]("parcel")
//
//	err := Progress.Set(ctx, Step{Done: 3, Of: 10})
//
// All statuses of an instance share one version number, which starts at one, increases with every Set, and continues across executions. A
// client that has seen one version can wait for the next. A status becomes visible when the turn is committed; if it is set several times
// in one turn, only the last value becomes visible. It survives continue-as-new and the end of the instance. All statuses of an instance
// together are limited to the size of one payload.
type Status[T any] struct {
	typed[T]

	form form
	name string
	err  error // of an invalid name
}

// NewStatus declares the custom status without a name. If the type cannot be a payload (ErrUnencodable), every use of the handle returns
// that error.
func NewStatus[T any]() Status[T] {
	f := formOf[T]()
	return Status[T]{typed: typedOf[T](f, nil), form: f}
}

// NewNamedStatus declares a custom status with a name. If the name is invalid (ErrBadName) or the type cannot be a payload
// (ErrUnencodable), every use of the handle returns that error.
func NewNamedStatus[T any](name string) Status[T] {
	f := formOf[T]()
	err := ValidateName(name)
	return Status[T]{typed: typedOf[T](f, err), form: f, name: name, err: err}
}

// Name returns the name of the status. It is empty for the status without a name.
func (s Status[T]) Name() string { return s.name }

// Set sets the value of the status. It also works in a cancelled instance. The value is encoded at the call. An error is returned for a
// value that does not encode, for one that is too large (ErrTooLarge), and for a ninth name; the status then keeps its value and its
// version.
func (s Status[T]) Set(ctx *Context, v T) error {
	p, err := encode(s.form, v, sealing.MaxInline)
	if err = cmp.Or(s.err, err); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return authorError(ctx.x.SetStatus(s.name, p))
}

// Get returns the value that the instance set last, in this or an earlier execution, decoded as a client would decode it. ok is false if
// the instance has not set the status or has cleared it. The result is the same on replay. The error is ErrUndecodable if the value was
// set through another handle and does not decode into T.
func (s Status[T]) Get(ctx *Context) (v T, ok bool, err error) {
	p, err := ctx.x.CurrentStatus(s.name)
	if err = cmp.Or(s.err, err); err != nil || p.Type == "" {
		return v, false, err
	}
	v, err = decode[T](s.form, p)
	if err != nil {
		return v, true, fmt.Errorf("status: %w", err)
	}
	return v, true, nil
}

// Clear removes the value. It also works in a cancelled instance. The status gets the next version even if it had no value, so waiting
// clients are notified.
func (s Status[T]) Clear(ctx *Context) error {
	if s.err != nil {
		return fmt.Errorf("status: %w", s.err)
	}
	return authorError(ctx.x.SetStatus(s.name, history.Payload{}))
}
