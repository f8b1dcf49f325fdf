package pawl

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Update is the handle of an update: a request to an instance, which its code answers once, with a result or a rejection.
//
//	var Approve = pawl.NewUpdate[Decision, Outcome]("approve")
//
//	u, err := Approve.Next(ctx).Get(ctx)          // in the orchestration
//	err = u.Answer(ctx, Outcome{Order: o.ID})
//
//	out, err := client.Update(ctx, c, Approve, "order-42", Decision{OK: true}) // outside
//
// Updates with the same name are received in the order in which they were accepted. Like events, they are kept until the code receives
// them, even before the instance starts and across continue-as-new. If the code continues as new with received but unanswered updates,
// the next execution receives these first. When the instance ends, unanswered updates are answered with ErrUpdateEnded. A request with
// the id of an earlier update gets the same answer and is not executed again.
type Update[In, Out any] struct {
	handle[In, Out]

	name string
	in   form
	out  form
	err  error
}

// NewUpdate declares an update. If the name is invalid (see ValidateName) or a type cannot be a payload (ErrUnencodable), every use of
// the handle returns that error.
func NewUpdate[In, Out any](name string) Update[In, Out] {
	in, out := formOf[In](), formOf[Out]()
	err := ValidateName(name)
	if err == nil {
		err = ofHandle("update", name, cmp.Or(in.err, out.err))
	}
	return Update[In, Out]{handle: handleOf[In, Out](in, out, nil, err), name: name, in: in, out: out, err: err}
}

// Name returns the update's name, as used by senders and recorded in histories.
func (u Update[In, Out]) Name() string { return u.name }

// ReceivedUpdate is an update that the code has received. The code must answer it with exactly one call of Answer or Reject.
type ReceivedUpdate[In, Out any] struct {
	Input In
	ID    string    // chosen by the sender, unique among the updates with the same name
	By    string    // who requested it, as stated by the sender; may be empty
	At    time.Time // when it was accepted

	of  *history.UpdateReceived
	out form
}

// ErrAnswered is returned by the second Answer or Reject of an update.
var ErrAnswered = replay.ErrAnswered

// Next returns a future of the next update, like Event.Next. If it loses a Select, it is withdrawn, and an update that had arrived for it
// but was not read stays available. Get returns ErrUndecodable for an update whose input does not decode; that update is rejected with
// the same error.
func (u Update[In, Out]) Next(ctx *Context) *Future[*ReceivedUpdate[In, Out]] {
	if u.err != nil {
		return &Future[*ReceivedUpdate[In, Out]]{core: ctx.x.Refuse(u.err)}
	}
	core := ctx.x.NextUpdate(u.name, ctx.scope)
	return &Future[*ReceivedUpdate[In, Out]]{core: core, local: &localResult[*ReceivedUpdate[In, Out]]{
		fetch: func() (*ReceivedUpdate[In, Out], error) { return u.received(ctx, core.Update()) },
	}}
}

func (u Update[In, Out]) received(ctx *Context, ev *history.UpdateReceived) (*ReceivedUpdate[In, Out], error) {
	in, err := decode[In](u.in, ev.Payload)
	if err != nil {
		err = fmt.Errorf("update %s %s: %w", u.name, ev.UpdateID, err)
		return nil, errors.Join(err, authorError(ctx.x.AnswerUpdate(ev, history.Payload{}, author.ToFailure(err))))
	}
	return &ReceivedUpdate[In, Out]{Input: in, ID: ev.UpdateID, By: ev.By, At: ev.Time(), of: ev, out: u.out}, nil
}

// Answer answers the update with a result. The answer is recorded, and the sender receives it when the turn is committed. Answer may be
// called in any context of the instance, also after a cancellation. The error is ErrAnswered, the error of a value that does not encode,
// or ErrTooLarge; after the last two, the update must still be answered.
func (r *ReceivedUpdate[In, Out]) Answer(ctx *Context, out Out) error {
	p, err := encode(r.out, out, replay.PayloadLimit(ctx.x))
	if err == nil {
		err = authorError(ctx.x.AnswerUpdate(r.of, p, nil))
	}
	if err != nil {
		return fmt.Errorf("answer update %s %s: %w", r.of.Name, r.ID, err)
	}
	return nil
}

// Reject answers the update with an error, which the sender receives as a *Failure that includes its sentinels. A nil error is replaced
// by one with the text "rejected". Errors are those of Answer.
func (r *ReceivedUpdate[In, Out]) Reject(ctx *Context, reason error) error {
	if reason == nil {
		reason = errors.New("rejected")
	}
	if err := authorError(ctx.x.AnswerUpdate(r.of, history.Payload{}, author.ToFailure(reason))); err != nil {
		return fmt.Errorf("reject update %s %s: %w", r.of.Name, r.ID, err)
	}
	return nil
}

// HandleOption is an option of Update.Handle.
type HandleOption interface{ applyHandle(n *int) }

type concurrentOption int

func (c concurrentOption) applyHandle(n *int) { *n = max(int(c), 1) }

// Concurrent lets a handler run for up to n updates concurrently, interleaved like siblings. The default is one update at a time, in
// order.
func Concurrent(n int) HandleOption { return concurrentOption(n) }

// Handle answers updates with the results of fn until the scope of ctx ends. If fn returns an error, the update is rejected with that
// error. Handle returns at once; fn runs in siblings (see Go), each call in its own scope. A panic in fn fails the execution.
//
// A running handler does not keep its instance alive. When the orchestration returns, updates whose handler is still running are answered
// with ErrUpdateEnded. When it continues as new, the next execution handles them again from the beginning. See AwaitUpdates.
func (u Update[In, Out]) Handle(ctx *Context, fn func(*Context, In) (Out, error), opts ...HandleOption) error {
	if u.err != nil {
		return u.err
	}
	n := 1
	for _, o := range opts {
		o.applyHandle(&n)
	}
	if err := Err(ctx); err != nil {
		return err
	}
	for range n {
		Go(ctx, func(ctx *Context) (None, error) { return None{}, u.handleAll(ctx, fn) })
	}
	return nil
}

func (u Update[In, Out]) handleAll(ctx *Context, fn func(*Context, In) (Out, error)) error {
	for {
		r, err := u.Next(ctx).Get(ctx)
		switch {
		case errors.Is(err, ErrUndecodable): // Next has already rejected it
			continue
		case err != nil:
			return err
		}
		var out Out
		err = Scope(ctx, func(ctx *Context) (err error) {
			out, err = fn(ctx, r.Input)
			return err
		})
		if err == nil {
			err = r.Answer(ctx, out)
		}
		if err != nil && !errors.Is(err, ErrAnswered) {
			if err := r.Reject(ctx, err); err != nil {
				return err
			}
		}
	}
}

// Validate registers fn to check updates before they are recorded, for the rest of this execution. If fn returns an error, the update is
// rejected with it. A rejected update is not recorded, so the history does not grow. Updates that arrived earlier and are still waiting
// are not checked.
//
// fn may read the state of the code but must not change it, because it is not run on replay. It must return at once and must not use
// operations of this package: they return a *Misuse, or panic with it. A panic in fn rejects the update with ErrPanic.
func (u Update[In, Out]) Validate(ctx *Context, fn func(In) error) error {
	if u.err != nil {
		return u.err
	}
	return authorError(ctx.x.SetValidator(u.name, func(p history.Payload) *history.Failure {
		in, err := decode[In](u.in, p)
		if err == nil {
			err = fn(in)
		}
		if err == nil {
			return nil
		}
		return author.ToFailure(err)
	}))
}

// AwaitUpdates waits until the code has answered every update that it has received, including those whose handlers are running. Call it
// before the orchestration returns or continues as new. The error is a *Cancelled, as for Await.
func AwaitUpdates(ctx *Context) error {
	return ctx.x.Await(func() bool { return ctx.x.ReceivedUpdates() == 0 }, ctx.scope)
}
