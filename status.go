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
// seen. It survives continue-as-new and the end of the instance.
type Status[T any] struct {
	form form
}

// NewStatus declares the custom status.
func NewStatus[T any]() Status[T] { return Status[T]{form: formOf[T]()} }

// Set gives the status a new value, also in an instance that was asked to end. The value
// takes its encoded form at the call. The error is that of a value that does not encode,
// or ErrTooLarge; then the status stays as it was and keeps its version.
func (s Status[T]) Set(ctx *Context, v T) error {
	p, err := s.form.encode(v)
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return arrived(ctx.x.SetStatus(p))
}

// Encode gives a value in the form that the store keeps. It is for Pawl's own packages.
func (s Status[T]) Encode(v T) (history.Payload, error) { return s.form.encode(v) }

// Decode reads what Encode wrote, or JSON.
func (s Status[T]) Decode(p history.Payload) (T, error) { return decode[T](s.form, p) }
