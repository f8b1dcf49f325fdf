package pawl

import "time"

// Scope runs fn. When fn returns, it cancels what was started with fn's context and is outstanding: activities and children, on whatever
// worker or orchestrator runs them, with the reason cancel.ScopeEnded; timers; waits for events, which are withdrawn; siblings,
// whose contexts are cancelled. It waits for those siblings to return, and then returns fn's error. Nothing that was started in a scope
// outlives it, except detached work and children with Abandon:
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
// Scopes nest: the end of one ends those inside it. The cancellation of the instance ends all. If ctx is done, fn does not run and Scope
// returns the *Cancelled. A panic in fn also ends the scope.
func Scope(ctx *Context, fn func(*Context) error) error {
	if err := ctx.x.Over(ctx.scope); err != nil {
		return err
	}
	scope := ctx.x.Open(ctx.scope)
	defer ctx.x.Close(scope)
	return fn(&Context{x: ctx.x, scope: scope})
}

// defaultDetach bounds work that Detach starts. The longest call with the defaults of Retry and 30 s an attempt takes less than three
// minutes.
const defaultDetach = 5 * time.Minute

// Detach returns a context outside all scopes, for work that must be done after its scope has ended or the instance was cancelled: to
// compensate for what was done. It is DetachFor with five minutes.
func Detach(ctx *Context) *Context { return DetachFor(ctx, defaultDetach) }

// DetachFor returns a context that outlives the scope of ctx by at most d. There is no bound while that scope lasts. After it has ended,
// or the instance was cancelled, outstanding work in the detached context continues, and operations may use the context, until d has passed
// since the turn that decided on that end; then the context is done, and its work is cancelled with cancel.ScopeEnded. All detached contexts
// of one scope and one d share one bound, so that a sequence of compensations is bounded as a whole. The bound is a timer, rounded up to
// milliseconds; it is in history only if it was needed. With zero or less there is no bound.
//
// The end of the orchestration cancels detached work. A detached context of a detached context belongs to the scope that the first was
// detached from.
func DetachFor(ctx *Context, d time.Duration) *Context {
	return &Context{x: ctx.x, scope: ctx.x.Detach(ctx.scope, d)}
}
