package pawl

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// Status is the handle of the custom status: a value that an instance publishes about itself. An instance has one, of one type; the
// handle has no name and is immutable, so any package may use it.
//
//	var Progress = pawl.NewStatus[Step]()
//
//	err := Progress.Set(ctx, Step{Done: 3, Of: 10})
//
// Every Set gives the status the next version, counted from one over all executions of the instance, so that a client that has seen
// one version can wait for the next. The status becomes visible when the turn is committed; of several values in one turn only
// the last is visible. It survives continue-as-new and the end of the instance. The instance reads it with Get and removes it with
// Clear.
type Status[T any] struct {
	typed[T]

	form form
}

// NewStatus declares the custom status. A type that cannot be a payload (ErrUnencodable) is the error of every use of the handle.
func NewStatus[T any]() Status[T] {
	f := formOf[T]()
	return Status[T]{typed: typedOf[T](f, nil), form: f}
}

// Set sets the value of the status, also in an instance that was cancelled. The value is encoded at the call. The error is that of
// a value that does not encode, or ErrTooLarge; then the status keeps its value and its version.
func (s Status[T]) Set(ctx *Context, v T) error {
	p, err := encode(s.form, v)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return authorError(ctx.x.SetStatus(p))
}

// Get returns the value that the instance has set last, in this execution or an earlier one, decoded as a client decodes it; ok is
// false if it has set none, or has cleared it. It is the same on replay. The error is ErrUndecodable for a value that another
// handle has set and that does not decode to T.
func (s Status[T]) Get(ctx *Context) (v T, ok bool, err error) {
	p, err := ctx.x.CurrentStatus()
	if err != nil || p.Type == "" {
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
func (s Status[T]) Clear(ctx *Context) error { return authorError(ctx.x.SetStatus(history.Payload{})) }
