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

// Update is the handle of an update: a request to an instance that its code answers once, with a result or a rejection.
//
//	var Approve = pawl.NewUpdate[Decision, Outcome]("approve")
//
//	u, err := Approve.Next(ctx).Get(ctx)          // in the orchestration
//	err = u.Answer(ctx, Outcome{Order: o.ID})
//
//	out, err := client.Update(ctx, c, Approve, "order-42", Decision{OK: true}) // outside
//
// Updates of one name are received in the order in which INPUTS has accepted them, and wait for the code as events do: before the start
// of the instance, and across continue-as-new. Updates that the code has received and not answered when it continues as new come first
// in the next execution. The end of the instance answers those that are left with ErrUpdateEnded. A repeat of an update's id gets the
// same answer, and is not executed again.
type Update[In, Out any] struct {
	handle[In, Out]

	name string
	in   form
	out  form
	err  error
}

// NewUpdate declares an update. An invalid name (see ValidateName), or a type that cannot be a payload (ErrUnencodable), is the error of
// every use of the handle.
func NewUpdate[In, Out any](name string) Update[In, Out] {
	in, out := formOf[In](), formOf[Out]()
	err := ValidateName(name)
	if err == nil {
		err = ofHandle("update", name, cmp.Or(in.err, out.err))
	}
	return Update[In, Out]{handle: handleOf[In, Out](in, out, nil, err), name: name, in: in, out: out, err: err}
}

// Name returns the update's name, which senders use and histories record.
func (u Update[In, Out]) Name() string { return u.name }

// ReceivedUpdate is an update that the code has received, and answers with exactly one of Answer and Reject.
type ReceivedUpdate[In, Out any] struct {
	Input In
	ID    string    // of the sender, unique among the updates of the name
	By    string    // requester, by its own name; may be empty
	At    time.Time // when INPUTS accepted it

	of  *history.UpdateReceived
	out form
}

// ErrAnswered is returned by the second Answer or Reject of an update.
var ErrAnswered = replay.ErrAnswered

// Next returns a future of the next update that no other wait receives, like Event.Next. If it loses a Select it is withdrawn, and an
// update that arrived for it and was not read stays available. Get returns ErrUndecodable for an update whose input does not decode; that
// update is rejected with the same error.
func (u Update[In, Out]) Next(ctx *Context) *Future[*ReceivedUpdate[In, Out]] {
	if u.err != nil {
		return &Future[*ReceivedUpdate[In, Out]]{core: ctx.x.Refuse(u.err)}
	}
	core := ctx.x.NextUpdate(u.name, ctx.scope)
	return &Future[*ReceivedUpdate[In, Out]]{core: core, sibling: &returned[*ReceivedUpdate[In, Out]]{
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

// Answer answers the update. The answer is recorded, and the sender has it when the turn is committed. It may be called in any context of
// the instance, also after its cancellation. The error is ErrAnswered, that of a value that does not encode, or ErrTooLarge; after the
// last two the update is still to be answered.
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

// Reject answers the update with an error, which the sender gets as a *Failure, with its sentinels. A nil error is rejected with an empty
// text. Errors are those of Answer.
func (r *ReceivedUpdate[In, Out]) Reject(ctx *Context, why error) error {
	if why == nil {
		why = errors.New("rejected")
	}
	if err := authorError(ctx.x.AnswerUpdate(r.of, history.Payload{}, author.ToFailure(why))); err != nil {
		return fmt.Errorf("reject update %s %s: %w", r.of.Name, r.ID, err)
	}
	return nil
}

// HandleOption is an option of Update.Handle.
type HandleOption interface{ applyHandle(n *int) }

type concurrentOption int

func (c concurrentOption) applyHandle(n *int) { *n = max(int(c), 1) }

// Concurrent has a handler run for up to n updates at the same time, interleaved as siblings are. Default: one at a time, in order.
func Concurrent(n int) HandleOption { return concurrentOption(n) }

// Handle answers updates with what fn returns for them, until the scope of ctx ends: with its value, or, if it returns an error, with
// that as the rejection. It returns at once; fn runs in siblings (see Go), each in a scope of its own. A panic in fn fails the execution.
//
// A handler does not keep its instance: when the orchestration returns, updates whose handler has not returned are answered with
// ErrUpdateEnded, and when it continues as new they are handled again by the next execution, from the beginning. See AwaitUpdates.
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
		case errors.Is(err, ErrUndecodable): // it was rejected
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

// Validate has updates of the handle checked before they are recorded, from now on in this execution: an error of fn is the rejection.
// Nothing of a rejected update is in the history, so it does not grow. An update that arrived earlier and waits is not checked.
//
// fn may read the state of the code and must not change it: it is not run on replay. It must return at once, and must not use operations
// of this package: they return a *Misuse, or panic with it. A panic in fn rejects the update with ErrPanic.
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

// AwaitUpdates waits until the code has answered every update that it has received, such as those of handlers that are running. Call it
// before the orchestration returns or continues as new. The error is a *Cancelled, as of Await.
func AwaitUpdates(ctx *Context) error {
	return ctx.x.Await(func() bool { return ctx.x.ReceivedUpdates() == 0 }, ctx.scope)
}
