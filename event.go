package pawl

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Event is the handle of an event that can be sent to an instance. Events with the same name are kept in the order of their arrival, even
// before the instance starts, and each is received once.
type Event[T any] struct {
	typed[T]

	name string
	form form
	err  error
}

// NewEvent declares an event. If the name is invalid (see ValidateName) or the type cannot be a payload (ErrUnencodable), every use of
// the handle returns that error.
func NewEvent[T any](name string) Event[T] {
	f, err := formOf[T](), ValidateName(name)
	if err == nil {
		err = ofHandle("event", name, f.err)
	}
	return Event[T]{typed: typedOf[T](f, err), name: name, form: f, err: err}
}

// Name returns the event's name, as used by senders and recorded in histories.
func (e Event[T]) Name() string { return e.name }

// Next returns a future of the next event. Concurrent waits receive events in the order in which they were started, and each event goes
// to one wait. If the wait loses a Select or the instance is cancelled, the wait is withdrawn, and an event that had arrived for it but
// was not read stays available.
func (e Event[T]) Next(ctx *Context) *Future[T] {
	if e.err != nil {
		return &Future[T]{core: ctx.x.Refuse(e.err)}
	}
	return &Future[T]{core: ctx.x.Next(e.name, ctx.scope), form: e.form}
}

// Receive waits for the next event. The error is ErrUndecodable for an event that does not decode, which is consumed, or a *Cancelled if
// the instance was cancelled or the scope of ctx has ended.
func (e Event[T]) Receive(ctx *Context) (T, error) { return e.Next(ctx).Get(ctx) }

// TryReceive receives the next event if one has arrived, and returns ok = false otherwise. It is a poll: before it reports that there is
// none, all inputs that had arrived are applied and siblings run. It returns the errors of Receive; even then, ok reports whether an
// event was consumed.
func (e Event[T]) TryReceive(ctx *Context) (v T, ok bool, err error) {
	if e.err != nil {
		return v, false, e.err
	}
	p, ok, err := ctx.x.TryNext(e.name, ctx.scope)
	if err != nil || !ok {
		return v, false, authorError(err)
	}
	v, err = decode[T](e.form, p)
	if err != nil {
		return v, true, fmt.Errorf("event %s: %w", e.name, err)
	}
	return v, true, nil
}

// ReceiveWithin waits for the next event for at most d. After that it returns ok = false, and the wait is withdrawn. If d is zero or
// less, it is a poll like TryReceive, but queued behind earlier waits. It returns the errors of Receive; even then, ok reports whether an
// event was consumed.
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
		return v, false, authorError(err)
	}
	v, err = decode[T](e.form, p)
	return v, true, err
}

// Drain receives all events that have arrived, in order; it is not an error if there are none. It is a poll: all inputs that had arrived
// are applied first, and siblings run. If an event does not decode, Drain returns the events before it and ErrUndecodable; that event is
// consumed, and later ones stay available.
func (e Event[T]) Drain(ctx *Context) ([]T, error) {
	if e.err != nil {
		return nil, e.err
	}
	if err := ctx.x.Poll(ctx.scope); err != nil {
		return nil, authorError(err)
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

// Send sends an event to an instance, on whatever orchestrator it runs. The receiver cannot distinguish it from an event sent by a
// client. The event is recorded once and delivered once; two events may arrive in either order. Send does not wait and does not report
// delivery: an instance that has not started yet keeps the event for a day, and one that has ended drops it. The error is that of a value
// that does not encode or is too large, ErrBadID, or a *Cancelled if ctx is done.
func (e Event[T]) Send(ctx *Context, instance string, v T) error {
	p, err := author.Value(e).Encode(v)
	if err == nil {
		err = ValidateID(instance)
	}
	if err != nil {
		return fmt.Errorf("send event %s: %w", e.name, err)
	}
	return authorError(ctx.x.Send(instance, e.name, p, ctx.scope))
}

// SendOrStart sends an event to an instance, and starts the instance with the input in if no instance has that id. It is
// client.SendOrStart for orchestration code. It is a function because a method of Event cannot have the type parameters of an
// orchestration.
//
//   - If there is no instance, one is started, without a parent, and the event is kept until it is received.
//   - If the instance is running, no matter how it was started, the event is delivered as by Send; in and Version have no effect.
//   - If the instance has ended, nothing is started, and the event is dropped.
//
// The start and the event are recorded once, sent as one message, and take effect once. SendOrStart does not wait and does not report
// delivery. If no orchestrator has registered the orchestration yet, the instance waits for one.
//
// Errors are those of Send and StartDetached. Input and event together must be smaller than 960 KiB; otherwise the error is ErrTooLarge.
func SendOrStart[In, Out, T any](
	ctx *Context, o Orchestration[In, Out], id string, in In, e Event[T], v T, opts ...DetachedOption,
) error {
	s, err := o.child(in, replay.PayloadLimit(ctx.x))
	if err != nil {
		return err
	}
	p, err := author.Value(e).Encode(v)
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
	return authorError(ctx.x.SendOrStart(id, e.name, p, start, ctx.scope))
}
