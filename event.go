package pawl

import (
	"fmt"
	"time"

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

// NewEvent declares an event. A name outside the alphabet (see ValidateName), or a type
// that cannot be a payload (ErrUnencodable), is the error of every use of the handle.
func NewEvent[T any](name string) Event[T] {
	f, err := formOf[T](), ValidateName(name)
	if err == nil {
		err = ofHandle("event", name, f.err)
	}
	return Event[T]{name: name, form: f, err: err}
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

// TryReceive takes the next event if one has arrived; ok is false if none has. It is a poll: before it
// reports that there is none, every input that had arrived is applied, while siblings go on. Errors
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

// ReceiveWithin waits for the next event, but for no longer than d: then ok is false, and
// the place in the queue is given back. With d zero or less it is a poll and takes an event that has
// arrived, as TryReceive does, but has a place in the queue. Errors are those of Receive, and ok tells whether an
// event was used up.
func (e Event[T]) ReceiveWithin(ctx *Context, d time.Duration) (v T, ok bool, err error) {
	next := e.Next(ctx)
	if !next.core.Settled() {
		first, err := Select(ctx, next, After(ctx, d))
		if err != nil || first != Selectable(next) {
			return v, false, err
		}
	}
	p, err := next.core.Value()
	if err != nil {
		return v, false, arrived(err)
	}
	v, err = decode[T](e.form, p)
	return v, true, err
}

// Drain takes all events that have arrived, in the order of their arrival; none is no
// error. It is a poll: every input that had arrived is applied first, while siblings go on. At an event that does
// not decode it stops, with those before it and ErrUndecodable: that one is used up, and those behind it are left.
func (e Event[T]) Drain(ctx *Context) ([]T, error) {
	if e.err != nil {
		return nil, e.err
	}
	if err := ctx.x.Poll(ctx.scope); err != nil {
		return nil, arrived(err)
	}
	var all []T
	for {
		v, ok, err := e.TryReceive(ctx)
		if err != nil || !ok {
			return all, err
		}
		all = append(all, v)
	}
}

// Send sends an event to an instance, which may be run by another orchestrator; it is the
// same there as an event from a client. It is recorded once and takes effect once; two of
// them may arrive in either order. Send does not wait, and is not told what becomes of the
// event: an instance that has not started keeps it for a day, one that has ended drops it.
// The error is that of a value that does not encode or is too large, ErrBadID, or a
// *Cancelled in a context that is over.
func (e Event[T]) Send(ctx *Context, instance string, v T) error {
	p, err := e.Encode(v)
	if err == nil {
		err = ValidateID(instance)
	}
	if err != nil {
		return fmt.Errorf("send event %s: %w", e.name, err)
	}
	return arrived(ctx.x.Send(instance, e.name, p, ctx.scope))
}

// SendOrStart sends an event to an instance and starts it with in if nobody has the id: it is client.SendOrStart from
// orchestration code. (It is a function because a method of Event cannot have the types of an orchestration.)
//
//   - Nobody has the id: the instance is started, as nobody's child, and the event waits for it to be received.
//   - The instance runs, whoever started it: the event is delivered as by Send; in and Version change nothing.
//   - The instance has ended: it takes neither, and the event is dropped.
//
// Start and event are recorded once, travel as one message, and take effect once. SendOrStart does not wait, and is not told what
// becomes of them. An orchestrator that has the orchestration need not be there yet.
//
// Errors are those of Send and StartDetached. Input and event must be smaller than 960 KiB together, or the error is ErrTooLarge.
func SendOrStart[In, Out, T any](
	ctx *Context, o Orchestration[In, Out], id string, in In, e Event[T], v T, opts ...DetachedOption,
) error {
	s, err := o.child(in)
	if err != nil {
		return err
	}
	p, err := e.Encode(v)
	if err != nil {
		return fmt.Errorf("send event %s: %w", e.name, err)
	}
	ID(id).applyChild(s)
	for _, opt := range opts {
		opt.applyDetached(s)
	}
	if s.err != nil {
		return fmt.Errorf("send event %s, or start orchestration %s: %w", e.name, o.name, s.err)
	}
	start := history.SentStart{Name: o.name, Version: s.call.Child.Version, Payload: s.call.Payload}
	return arrived(ctx.x.SendOrStart(id, e.name, p, start, ctx.scope))
}

// Encode gives a value in the form that history keeps. It is for Pawl's own packages.
func (e Event[T]) Encode(v T) (history.Payload, error) { return encodeFor(e.err, e.form, v) }

// Decode reads what Encode wrote, or JSON.
func (e Event[T]) Decode(p history.Payload) (T, error) { return decode[T](e.form, p) }
