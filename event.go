package pawl

import (
	"fmt"

	"github.com/pawlrun/pawl/pkg/history"
)

// Event is the handle of an event that can be sent to an instance. Events of one name
// are kept in the order of their arrival, from before the start of the instance, and
// each is received once.
type Event[T any] struct {
	name string
	form form
	err  error
}

// NewEvent declares an event. A name outside the alphabet (see ValidateName) is the
// error of every use of the handle.
func NewEvent[T any](name string) Event[T] {
	return Event[T]{name: name, form: formOf[T](), err: ValidateName(name)}
}

// Name is what senders and histories know the event by.
func (e Event[T]) Name() string { return e.name }

// Next gives a future for the next event that nobody else waits for. The future takes
// its place in the queue at once. If it loses a Select, or the instance is cancelled,
// it gives the place back, and with it an event that arrived but was not read.
func (e Event[T]) Next(ctx *Context) *Future[T] {
	if e.err != nil {
		return &Future[T]{core: ctx.x.Refuse(e.err)}
	}
	return &Future[T]{core: ctx.x.Next(e.name, ctx.scope), form: e.form}
}

// Receive waits for the next event. The error is ErrUndecodable for an event that does
// not decode (it is used up), or a *Cancelled if the instance was asked to end.
func (e Event[T]) Receive(ctx *Context) (T, error) { return e.Next(ctx).Get(ctx) }

// TryReceive takes the next event if one has arrived; ok is false if none has. Errors
// are those of Receive, and ok tells whether an event was used up.
func (e Event[T]) TryReceive(ctx *Context) (v T, ok bool, err error) {
	if e.err != nil {
		return v, false, e.err
	}
	p, ok, err := ctx.x.TryNext(e.name, ctx.scope)
	if err != nil || !ok {
		return v, false, arrived(err)
	}
	v, err = decode[T](e.form, p)
	if err != nil {
		return v, true, fmt.Errorf("event %s: %w", e.name, err)
	}
	return v, true, nil
}

// Encode gives a value in the form that history keeps. It is for Pawl's own packages.
func (e Event[T]) Encode(v T) (history.Payload, error) { return encodeFor(e.err, e.form, v) }

// Decode reads what Encode wrote, or JSON.
func (e Event[T]) Decode(p history.Payload) (T, error) { return decode[T](e.form, p) }
