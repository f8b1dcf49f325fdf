package pawl

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// Status is the handle of the custom status: what an instance says of itself, for whoever
// watches it. An instance has one, of one type; the handle has no name, is immutable, and
// may be used from everywhere.
//
//	var Progress = pawl.NewStatus[Step]()
//
//	err := Progress.Set(ctx, Step{Done: 3, Of: 10})
//
// Every Set gives the status the next version, counted from one over all executions of
// the instance, so that who has seen one version can wait for the next. The status is
// visible when the turn is committed; of several values in one turn only the last is ever
// seen. It survives continue-as-new and the end of the instance. The instance reads it with Get and takes it away with
// Clear.
type Status[T any] struct {
	form form
}

// NewStatus declares the custom status. A type that cannot be a payload (ErrUnencodable) is
// the error of every use of the handle.
func NewStatus[T any]() Status[T] { return Status[T]{form: formOf[T]()} }

// Set gives the status a new value, also in an instance that was asked to end. The value
// takes its encoded form at the call. The error is that of a value that does not encode,
// or ErrTooLarge; then the status stays as it was and keeps its version.
func (s Status[T]) Set(ctx *Context, v T) error {
	p, err := encode(s.form, v)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return arrived(ctx.x.SetStatus(p))
}

// Get gives the value that the instance has set last, in this execution or in one before it, as a watching client would
// decode it; ok is false if it has set none, or has cleared it. It is the same on replay. The error is ErrUndecodable for a value that
// another handle has set and that does not decode into T.
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

// Clear takes the value away, also in an instance that was asked to end. That gives the status the next version, so that
// who waits for it is told. Where there is no value, that is one more version all the same.
func (s Status[T]) Clear(ctx *Context) error { return arrived(ctx.x.SetStatus(history.Payload{})) }

// Encode gives a value in the form that the store keeps. It is for Pawl's own packages.
func (s Status[T]) Encode(v T) (history.Payload, error) { return encode(s.form, v) }

// Decode reads what Encode wrote, or JSON.
func (s Status[T]) Decode(p history.Payload) (T, error) { return decode[T](s.form, p) }
