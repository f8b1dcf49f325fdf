package pawl

import (
	"cmp"
	"fmt"

	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// Status is the handle of a custom status: a value that an instance publishes about itself. The one of NewStatus has no name; an
// instance may have eight more, with names. The handle is immutable, so any package may use it.
//
//	var Progress = pawl.NewStatus[Step]()
//	var Parcel   = pawl.NewNamedStatus[Tracking]("parcel")
//
//	err := Progress.Set(ctx, Step{Done: 3, Of: 10})
//
// Every Set, of any of them, has the next version, counted from one over all executions of the instance, so that a client that has seen
// one version can wait for the next. A status becomes visible when the turn is committed; of several values in one turn only
// the last is visible. It survives continue-as-new and the end of the instance. The instance reads it with Get and removes it with
// Clear. All statuses of an instance together have the size of one payload.
type Status[T any] struct {
	typed[T]

	form form
	name string
	err  error // of the name
}

// NewStatus declares the custom status without a name. A type that cannot be a payload (ErrUnencodable) is the error of every use of
// the handle.
func NewStatus[T any]() Status[T] {
	f := formOf[T]()
	return Status[T]{typed: typedOf[T](f, nil), form: f}
}

// NewNamedStatus declares a custom status with a name. A name that is not valid (ErrBadName) is the error of every use of the handle.
func NewNamedStatus[T any](name string) Status[T] {
	f := formOf[T]()
	err := ValidateName(name)
	return Status[T]{typed: typedOf[T](f, err), form: f, name: name, err: err}
}

// Name is the name; empty: it has none.
func (s Status[T]) Name() string { return s.name }

// Set sets the value of the status, also in an instance that was cancelled. The value is encoded at the call. The error is that of
// a value that does not encode, ErrTooLarge, or that of a ninth name; then the status keeps its value and its version.
func (s Status[T]) Set(ctx *Context, v T) error {
	p, err := encode(s.form, v, pawlcodec.MaxInline)
	if err = cmp.Or(s.err, err); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return authorError(ctx.x.SetStatus(s.name, p))
}

// Get returns the value that the instance has set last, in this execution or an earlier one, decoded as a client decodes it; ok is
// false if it has set none, or has cleared it. It is the same on replay. The error is ErrUndecodable for a value that another
// handle has set and that does not decode to T.
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

// Clear removes the value, also in an instance that was cancelled. The status gets the next version, so that waiting clients are
// notified, even if it had no value.
func (s Status[T]) Clear(ctx *Context) error {
	if s.err != nil {
		return fmt.Errorf("status: %w", s.err)
	}
	return authorError(ctx.x.SetStatus(s.name, history.Payload{}))
}
