package pawl

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Go runs fn as a sibling: beside the code that started it, interleaved with it and
// with the other siblings at the words that wait, in an order that is the same on every
// replay, and never at the same time; so siblings may share variables. It is the go
// statement of an orchestration. The sibling begins when the code that started it
// waits.
//
// The future is ready when fn has returned, with what it returned: the very value and
// the very error, for neither is recorded. Future.Cancel cancels the context that fn
// was given.
//
// That context is a scope (see Scope): what fn started with it and left under way is
// cancelled when fn returns. What is to outlive fn is started with the context from
// outside.
//
// A panic in fn fails the execution. When the orchestration returns, siblings that are
// still under way are unwound where they wait: their deferred functions run, and can
// decide nothing; what they had outstanding is cancelled and recorded. Whoever wants
// them to end in good order waits for their futures, or starts them in a Scope.
//
// In a context that is over fn is not run, and the future has the *Cancelled.
func Go[T any](ctx *Context, fn func(*Context) (T, error)) *Future[T] {
	if err := ctx.x.Over(ctx.scope); err != nil {
		return &Future[T]{core: ctx.x.Refuse(err)}
	}
	own := &returned[T]{}
	core := ctx.x.Go(ctx.scope, func(scope *replay.Scope) {
		own.value, own.err = fn(&Context{x: ctx.x, scope: scope})
	})
	return &Future[T]{core: core, own: own}
}

// Await waits until cond is true, for what siblings do to variables that they share:
//
//	free := 3
//	for _, job := range jobs {
//		pawl.Go(ctx, func(ctx *pawl.Context) (pawl.None, error) {
//			if err := pawl.Await(ctx, func() bool { return free > 0 }); err != nil {
//				return pawl.None{}, err
//			}
//			free--
//			defer func() { free++ }()
//			return run(ctx, job)
//		})
//	}
//
// cond is asked at once. After that, whenever an input has been applied and all that it
// woke has run, the conditions of all who wait are asked in the order in which the
// waits began, and each that is true lets its waiter go on before the next is asked; if
// any was, they are asked again. So every input costs one call for each waiter, however
// little it concerns them: for one of thousands a future is the better thing to wait
// for.
//
// When Await returns nil, cond is true. It must do nothing but look: a word in it that
// waits or decides returns a *Misuse, or panics with it. Future.Ready and Now are
// allowed. The error is a *Cancelled if the instance was asked to end, or the scope of
// ctx is over, while cond was not true.
func Await(ctx *Context, cond func() bool) error { return ctx.x.Await(cond, ctx.scope) }

// SideEffect runs fn and records what it returns; a replay gives what was recorded,
// through its encoded form, and does not run fn. It is for what is quick, harmless to
// repeat, and not the same every time: a flag that was read, an id from a library of
// one's own. Work that can fail in ways that matter, or that waits, is an activity.
//
// fn runs in the orchestrator, on the orchestration's own time, and must come back at
// once. It runs once for what is recorded; if the process dies before the turn is
// committed, it runs again, and the second value counts. An error is recorded, too, and
// arrives as a *Failure; so does a value that does not encode or is over 512 KiB. A
// panic fails the execution. fn must use no word of this package: they return a *Misuse
// in it, or panic with one.
func SideEffect[T any](ctx *Context, fn func() (T, error)) (T, error) {
	var zero T
	f := formOf[T]()
	if f.err != nil {
		return zero, fmt.Errorf("side effect: %w", f.err)
	}
	p, err := ctx.x.SideEffect(func() (history.Payload, *history.Failure) {
		v, err := fn()
		if err != nil {
			return history.Payload{}, ToFailure(err)
		}
		p, err := f.encode(&v)
		if err != nil {
			return history.Payload{}, ToFailure(err)
		}
		return p, nil
	}, ctx.scope)
	if err != nil {
		return zero, arrived(err)
	}
	return decode[T](f, p)
}
