package pawl

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Go runs fn as a sibling, concurrently with the code that started it and with other siblings. Siblings are interleaved at operations
// that wait, in an order that is the same on every replay, and never run in parallel, so they may share variables. Go replaces the go
// statement in orchestrations. The sibling begins when the code that started it waits.
//
// The future is ready when fn has returned, and contains the values that fn returned, which are neither recorded nor encoded.
// Future.Cancel cancels the context of fn.
//
// That context is a scope (see Scope): outstanding work that fn has started with it is cancelled when fn returns. Start work that must
// outlive fn with the outer context.
//
// A panic in fn fails the execution. When the orchestration returns, siblings that are still running are unwound where they wait: their
// deferred functions run, but every operation in them fails, and their outstanding work is cancelled and recorded. To let siblings
// finish, wait for their futures or start them in a Scope.
//
// If ctx is done, fn does not run and the future contains the *Cancelled.
func Go[T any](ctx *Context, fn func(*Context) (T, error)) *Future[T] {
	if err := ctx.x.Over(ctx.scope); err != nil {
		return &Future[T]{core: ctx.x.Refuse(err)}
	}
	result := &localResult[T]{}
	core := ctx.x.Go(ctx.scope, func(scope *replay.Scope) {
		result.value, result.err = fn(&Context{x: ctx.x, scope: scope})
	})
	return &Future[T]{core: core, local: result}
}

// Await waits until cond returns true. Use it to wait for changes that siblings make to shared variables:
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
// cond is evaluated at once. After that, whenever an input has been applied and all siblings that it woke have run, the conditions of all
// waits are evaluated in the order of the waits. Each condition that is true resumes its sibling before the next one is evaluated, and if
// any was true, all are evaluated again. Every input therefore costs one call of cond per waiting sibling: with thousands of them, use
// futures.
//
// When Await returns nil, cond is true. cond must not have side effects: an operation in it that waits or makes a decision returns a
// *Misuse, or panics with it. Future.Ready and Now are allowed. The error is a *Cancelled if the instance was cancelled or the scope of
// ctx ended while cond was false.
func Await(ctx *Context, cond func() bool) error { return ctx.x.Await(cond, ctx.scope) }

// SideEffect runs fn and records its result. On replay it returns the recorded value, decoded, without running fn. Use it for code that
// is quick, harmless to repeat and not deterministic, such as reading a flag or generating an id with another library. Use an activity
// for work that waits or whose failures matter.
//
// fn runs in the orchestrator, within the turn, and must return at once. If the process dies before the turn is committed, fn runs again,
// and the second value is recorded. An error of fn is recorded, too, and returned as a *Failure; so is the error of a value that does not
// encode or is larger than 512 KiB. A panic fails the execution. fn must not use operations of this package: they return a *Misuse, or
// panic with it.
func SideEffect[T any](ctx *Context, fn func() (T, error)) (T, error) {
	var zero T
	f := formOf[T]()
	if f.err != nil {
		return zero, fmt.Errorf("side effect: %w", f.err)
	}
	p, err := ctx.x.SideEffect(func() (history.Payload, *history.Failure) {
		v, err := fn()
		if err != nil {
			return history.Payload{}, author.ToFailure(err)
		}
		p, err := f.encode(&v, replay.PayloadLimit(ctx.x))
		if err != nil {
			return history.Payload{}, author.ToFailure(err)
		}
		return p, nil
	}, ctx.scope)
	if err != nil {
		return zero, authorError(err)
	}
	return decode[T](f, p)
}
