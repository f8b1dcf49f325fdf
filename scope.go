package pawl

import "time"

// Scope runs fn, and cancels when fn returns what was started with the context that fn
// was given and is still under way: activities and children, wherever they run, with the
// reason cancel.ScopeEnded; timers; waits for events, which give their places back;
// siblings, whose own contexts are cancelled. It waits for those siblings to return, and then
// gives fn's error. So nothing that was started in a scope outlives it, but for what
// was detached, and children with Abandon:
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
// Scopes nest: the end of one ends those inside it. The cancellation of the instance
// ends all. In a context that is over fn is not run, and Scope returns the *Cancelled.
// A panic in fn ends the scope on its way, too.
func Scope(ctx *Context, fn func(*Context) error) error {
	if err := ctx.x.Over(ctx.scope); err != nil {
		return err
	}
	scope := ctx.x.Open(ctx.scope)
	defer ctx.x.Close(scope)
	return fn(&Context{x: ctx.x, scope: scope})
}

// detached is how long detached work may outlive its scope, unless DetachFor says. The
// longest call that asks for nothing but the defaults of Retry, with 30 s an attempt,
// takes under three minutes; who cancels an instance sees it end within a coffee.
const detached = 5 * time.Minute

// Detach gives a context outside all scopes, for the work that has to be done all the
// same when its scope is over, or the instance was asked to end: to take back what was
// done. It is DetachFor with five minutes.
func Detach(ctx *Context) *Context { return DetachFor(ctx, detached) }

// DetachFor gives a context that outlives the scope of ctx, but by no more than d. As
// long as that scope goes on there is no bound. Once it has ended, or the instance was
// asked to end, work under way in the detached context goes on, and words may still be
// used with it, until d has passed since that end; then it is over, and its work is
// cancelled with cancel.ScopeEnded. All detached contexts of one scope and one d share
// one bound, so that a long row of compensations is bounded as a whole. The bound is a
// timer, rounded up to milliseconds; it is in history only where it was needed. Zero or
// less: no bound.
//
// The end of the orchestration does cancel what is detached. A detached context of a
// detached context is one of the scope that the first was detached from.
func DetachFor(ctx *Context, d time.Duration) *Context {
	return &Context{x: ctx.x, scope: ctx.x.Detach(ctx.scope, d)}
}
