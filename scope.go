package pawl

import "time"

// Scope runs fn. When fn returns, Scope cancels the outstanding work that was started with fn's context: activities and children on any
// worker or orchestrator, with the reason cancel.ScopeEnded; timers; waits for events, which are withdrawn; and the contexts of siblings.
// It waits for those siblings to return, and then returns fn's error. Nothing that was started in a scope outlives it, except detached
// work and children with Abandon:
//
//	err := pawl.Scope(ctx, func(ctx *pawl.Context) error {
//		quotes := make([]*pawl.Future[Quote], len(suppliers))
//		for i, s := range suppliers {
//			quotes[i] = Ask.Start(ctx, s)
//		}
//		var err error
//		best, err = firstBelow(ctx, quotes, limit) // the others are cancelled
//		return err
//	})
//
// Scopes nest: the end of a scope ends those inside it, and the cancellation of the instance ends them all. If ctx is done, fn does not
// run and Scope returns the *Cancelled. A panic in fn also ends the scope.
func Scope(ctx *Context, fn func(*Context) error) error {
	if err := ctx.x.Over(ctx.scope); err != nil {
		return err
	}
	scope := ctx.x.Open(ctx.scope)
	defer ctx.x.Close(scope)
	return fn(&Context{x: ctx.x, scope: scope})
}

// defaultDetach is the time that Detach allows. The longest call with the default Retry and 30 s per attempt takes less than three
// minutes.
const defaultDetach = 5 * time.Minute

// Detach returns a context outside all scopes, for work that must still be done after its scope has ended or the instance was cancelled,
// such as compensations. It is DetachFor with five minutes.
func Detach(ctx *Context) *Context { return DetachFor(ctx, defaultDetach) }

// DetachFor returns a context that outlives the scope of ctx by at most d. While that scope lasts, the context is not bounded. After the
// scope has ended or the instance was cancelled, outstanding work in the detached context continues, and operations may still use the
// context, until d has passed since the turn that ended the scope. Then the context is done, and its work is cancelled with
// cancel.ScopeEnded. All detached contexts with the same scope and the same d share one bound, so a sequence of compensations is bounded
// as a whole. The bound is a timer, rounded up to milliseconds, which is recorded in the history only if it was needed. With zero or less
// there is no bound.
//
// The end of the orchestration cancels detached work. Detaching a detached context again detaches from the original scope.
func DetachFor(ctx *Context, d time.Duration) *Context {
	return &Context{x: ctx.x, scope: ctx.x.Detach(ctx.scope, d)}
}
