package pawl

import (
	"errors"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/replay"
)

// Select waits for the first of the futures and cancels the others: an activity or a
// child is cancelled wherever it runs, a timer is dropped, a wait for an event gives its
// place back. What came first in history wins; if several are ready, the first argument of
// them. The winner may be compared with the futures given:
//
//	switch first, err := pawl.Select(ctx, approval, deadline); {
//	case err != nil:
//	case first == deadline:
//	}
//
// The error is never the winner's, which is in its Get. It is a *Cancelled, if the
// instance was asked to end or the scope of ctx is over; without futures Select waits
// for that alone.
func Select(ctx *Context, futures ...Selectable) (Selectable, error) {
	cores := coresOf(futures)
	winner, err := ctx.x.WaitAny(cores, ctx.scope)
	if err != nil {
		giveBack(cores, err)
		return nil, err
	}
	for _, f := range cores {
		if f != cores[winner] {
			f.Withdraw(cancel.LostSelect, "")
		}
	}
	return futures[winner], nil
}

// giveBack is for a Select that the end of its scope has ended: events that had
// arrived for it go back. Everything else has been cancelled, or is detached and goes
// on.
func giveBack(cores []*replay.Future, err error) {
	var cancelled *Cancelled
	if !errors.As(err, &cancelled) {
		return
	}
	for _, f := range cores {
		if f.Ready() {
			f.Withdraw(cancelled.Reason, cancelled.Text)
		}
	}
}

// Any waits for the first of the futures, as Select does, and cancels nobody.
func Any(ctx *Context, futures ...Selectable) (Selectable, error) {
	winner, err := ctx.x.WaitAny(coresOf(futures), ctx.scope)
	if err != nil {
		return nil, err
	}
	return futures[winner], nil
}

func coresOf(futures []Selectable) []*replay.Future {
	cores := make([]*replay.Future, len(futures))
	for i, f := range futures {
		cores[i] = f.future()
	}
	return cores
}

// All waits for every one of the futures. Results are in order, with the zero value
// for a future that failed; the errors are joined, in order.
func All[T any](ctx *Context, futures ...*Future[T]) ([]T, error) {
	results := make([]T, len(futures))
	var errs []error
	for i, f := range futures {
		v, err := f.Get(ctx)
		results[i] = v
		if err != nil {
			errs = append(errs, err)
		}
	}
	return results, errors.Join(errs...)
}

// Map runs fn for every element of in, at most limit at a time (below 1: all at
// once), and waits for all of them. The runs are interleaved at the words that wait,
// never at the same time, so they may share variables. Results are in order, with
// whatever fn returned beside an error; the errors are joined, in order. An error
// stops nobody else.
func Map[A, B any](ctx *Context, limit int, in []A, fn func(*Context, A) (B, error)) ([]B, error) {
	if limit < 1 || limit > len(in) {
		limit = len(in)
	}
	results, errs := make([]B, len(in)), make([]error, len(in))
	next := 0
	siblings := make([]*replay.Future, limit)
	for i := range siblings {
		siblings[i] = ctx.x.Go(ctx.scope, func(*replay.Scope) {
			for next < len(in) {
				i := next
				next++
				results[i], errs[i] = fn(ctx, in[i])
			}
		})
	}
	for _, s := range siblings {
		if err := ctx.x.Join(s); err != nil {
			return results, err
		}
		if _, err := s.Value(); err != nil {
			return results, err
		}
	}
	return results, errors.Join(errs...)
}
