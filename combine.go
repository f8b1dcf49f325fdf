package pawl

import (
	"cmp"
	"errors"
	"slices"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// Select waits for the first of the futures and cancels the others: activities and children on any worker or orchestrator, timers, and
// waits for events, which are withdrawn. The winner is the future that was ready first according to the history, and the first argument
// if several became ready together. Compare it with the arguments:
//
//	switch first, err := pawl.Select(ctx, approval, deadline); {
//	case err != nil:
//	case first == deadline:
//	}
//
// The winner's own error is returned by its Get, not by Select. Select returns a *Cancelled if the instance was cancelled or the scope of
// ctx has ended. Without futures it waits for that.
func Select(ctx *Context, futures ...Selectable) (Selectable, error) {
	cores := coresOf(futures)
	winner, err := ctx.x.WaitAny(cores, ctx.scope)
	if err != nil {
		withdrawSettled(cores, err)
		return nil, err
	}
	for _, f := range cores {
		if f != cores[winner] {
			f.Withdraw(cancel.LostSelect, "")
		}
	}
	return futures[winner], nil
}

// withdrawSettled makes events that had arrived for a Select available again after the Select ended with its scope. All other futures are
// already cancelled, or are detached.
func withdrawSettled(cores []*replay.Future, err error) {
	var cancelled *Cancelled
	if !errors.As(err, &cancelled) {
		return
	}
	for _, f := range cores {
		if f.Settled() {
			f.Withdraw(cancelled.Reason, cancelled.Text)
		}
	}
}

// Any waits for the first of the futures, like Select, but cancels none of them.
func Any(ctx *Context, futures ...Selectable) (Selectable, error) {
	winner, err := ctx.x.WaitAny(coresOf(futures), ctx.scope)
	if err != nil {
		return nil, err
	}
	return futures[winner], nil
}

// First is Select for futures of one type. It waits for the first of them, cancels the others, and returns the winner's value and index:
//
//	quote, i, err := pawl.First(ctx, Ask.Start(ctx, "north"), Ask.Start(ctx, "south"))
//
// If the winner has failed, First returns its error and its index. If there is no winner, the index is -1 and the error is that of
// Select: a *Cancelled if the instance was cancelled or the scope of ctx has ended.
func First[T any](ctx *Context, futures ...*Future[T]) (value T, index int, err error) {
	all := make([]Selectable, len(futures))
	for i, f := range futures {
		all[i] = f
	}
	winner, err := Select(ctx, all...)
	if err != nil {
		return value, -1, err
	}
	index = slices.Index(all, winner)
	value, err = futures[index].Get(ctx)
	return value, index, err
}

func coresOf(futures []Selectable) []*replay.Future {
	cores := make([]*replay.Future, len(futures))
	for i, f := range futures {
		cores[i] = f.future()
	}
	return cores
}

// All waits for all futures. Results are in the order of the arguments, with the zero value for a future that failed. The errors are
// joined in the same order. An error cancels nothing; see AllOrFail.
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

// AllOrFail waits for all futures, or until the first of them fails. On a failure it cancels the futures that are not ready, like Select,
// and returns only that error. If several futures fail together, it returns the error of the first argument. On success the results are
// in the order of the arguments.
//
// AllOrFail does not wait for the work that it has cancelled; a sibling may take longer to return. To wait for siblings, start them in a
// Scope.
func AllOrFail[T any](ctx *Context, futures ...*Future[T]) ([]T, error) {
	results := make([]T, len(futures))
	pending := make([]int, len(futures)) // indexes, ascending
	for i := range pending {
		pending[i] = i
	}
	for len(pending) > 0 {
		err := waitForOne(ctx, futures, pending)
		if err != nil {
			withdrawSettled(coresAt(futures, pending), err)
			return nil, err
		}
		waiting := pending[:0]
		for _, i := range pending {
			if err != nil || !futures[i].core.Settled() {
				waiting = append(waiting, i)
				continue
			}
			results[i], err = futures[i].Get(ctx)
		}
		pending = waiting
		if err != nil {
			text := text.Shorten("another call failed: "+err.Error(), replay.MaxReason)
			for _, f := range coresAt(futures, pending) {
				f.Withdraw(cancel.LostSelect, text)
			}
			return nil, err
		}
	}
	return results, nil
}

// waitForOne waits until one of the futures at the indexes is ready. After the first wait it does not register with each future again, as
// WaitAny does: with thousands of futures that would be millions of registrations.
func waitForOne[T any](ctx *Context, futures []*Future[T], indexes []int) error {
	if len(indexes) == len(futures) {
		_, err := ctx.x.WaitAny(coresAt(futures, indexes), ctx.scope)
		return err
	}
	return Await(ctx, func() bool {
		return slices.ContainsFunc(indexes, func(i int) bool { return futures[i].core.Settled() })
	})
}

func coresAt[T any](futures []*Future[T], indexes []int) []*replay.Future {
	cores := make([]*replay.Future, len(indexes))
	for n, i := range indexes {
		cores[n] = futures[i].core
	}
	return cores
}

// Map runs fn for every element of in, at most limit at a time (below 1: all at once), and waits for all of them. The runs are
// interleaved at operations that wait and never run in parallel, so they may share variables. Results are in the order of in; a run that
// fails contributes the value that it returned along with its error. The errors are joined in the same order. An error cancels nothing;
// see MapOrFail.
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

// MapOrFail is Map that stops at the first error: it starts no further elements, cancels what the other runs of fn have started, waits
// for them to return, and returns only that error. It runs in a Scope: when MapOrFail returns, with or without an error, the context of
// fn is done, and outstanding work that fn has started with it is cancelled.
func MapOrFail[A, B any](ctx *Context, limit int, in []A, fn func(*Context, A) (B, error)) ([]B, error) {
	if limit < 1 || limit > len(in) {
		limit = len(in)
	}
	results := make([]B, len(in))
	var failed error // the first error of fn
	err := Scope(ctx, func(ctx *Context) error {
		next, running := 0, limit
		for range limit {
			ctx.x.Go(ctx.scope, func(*replay.Scope) {
				defer func() { running-- }()
				for next < len(in) && failed == nil {
					i := next
					next++
					var err error
					if results[i], err = fn(ctx, in[i]); err != nil && failed == nil {
						failed = err
					}
				}
			})
		}
		return Await(ctx, func() bool { return failed != nil || running == 0 })
	})
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	return results, nil
}
