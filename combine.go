package pawl

import (
	"cmp"
	"errors"
	"slices"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
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
		if f.Settled() {
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

// First is Select for futures of one type. It waits for the first of them, cancels the others, and gives the value and the place
// of the winner:
//
//	quote, i, err := pawl.First(ctx, Ask.Start(ctx, "north"), Ask.Start(ctx, "south"))
//
// A winner that has failed gives its error, with its place. Without a winner the place is -1 and the error that of Select: a
// *Cancelled, if the instance was asked to end or the scope of ctx is over.
func First[T any](ctx *Context, futures ...*Future[T]) (value T, place int, err error) {
	all := make([]Selectable, len(futures))
	for i, f := range futures {
		all[i] = f
	}
	winner, err := Select(ctx, all...)
	if err != nil {
		return value, -1, err
	}
	place = slices.Index(all, winner)
	value, err = futures[place].Get(ctx)
	return value, place, err
}

func coresOf(futures []Selectable) []*replay.Future {
	cores := make([]*replay.Future, len(futures))
	for i, f := range futures {
		cores[i] = f.future()
	}
	return cores
}

// All waits for every one of the futures. Results are in order, with the zero value
// for a future that failed; the errors are joined, in order. An error stops nothing: see AllOrFail.
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

// AllOrFail waits for every one of the futures, but no longer than for the first error in history: then it cancels the futures
// that are not ready, as Select does with the losers, and gives that error alone. Of several futures that fail at once it is the
// error of the first argument. Without an error the results are in order.
//
// It does not wait for what it has cancelled: a sibling may take its time. To wait for siblings, start them in a Scope.
func AllOrFail[T any](ctx *Context, futures ...*Future[T]) ([]T, error) {
	results := make([]T, len(futures))
	pending := make([]int, len(futures)) // places, ascending
	for i := range pending {
		pending[i] = i
	}
	for len(pending) > 0 {
		err := waitForOne(ctx, futures, pending)
		if err != nil {
			giveBack(coresAt(futures, pending), err)
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

// waitForOne waits until one of the futures at the places is ready. It is WaitAny, but for the second and every later wait it
// enters no list of each future again: with thousands of futures that would be millions of entries.
func waitForOne[T any](ctx *Context, futures []*Future[T], places []int) error {
	if len(places) == len(futures) {
		_, err := ctx.x.WaitAny(coresAt(futures, places), ctx.scope)
		return err
	}
	return Await(ctx, func() bool {
		return slices.ContainsFunc(places, func(i int) bool { return futures[i].core.Settled() })
	})
}

func coresAt[T any](futures []*Future[T], places []int) []*replay.Future {
	cores := make([]*replay.Future, len(places))
	for n, i := range places {
		cores[n] = futures[i].core
	}
	return cores
}

// Map runs fn for every element of in, at most limit at a time (below 1: all at
// once), and waits for all of them. The runs are interleaved at the words that wait,
// never at the same time, so they may share variables. Results are in order, with
// whatever fn returned beside an error; the errors are joined, in order. An error
// stops nobody else: see MapOrFail.
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

// MapOrFail is Map that stops at the first error: it starts no further element, cancels what the other runs of fn have started,
// waits for them to return, and gives that error alone. It is Map in a Scope: the context that fn is given is over when MapOrFail
// returns, and what fn started with it and left under way is cancelled then, also without an error.
func MapOrFail[A, B any](ctx *Context, limit int, in []A, fn func(*Context, A) (B, error)) ([]B, error) {
	if limit < 1 || limit > len(in) {
		limit = len(in)
	}
	results := make([]B, len(in))
	var failed error // the first
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
