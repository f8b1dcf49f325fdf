package pawl

import (
	"cmp"
	"fmt"

	"github.com/pawlrun/pawl/internal/replay"
)

// ChildOption is an option of Orchestration.Call and Orchestration.Start: ID, Version, Abandon, Retry, Within.
type ChildOption interface {
	applyChild(*childSettings)
}

// DetachedOption is an option of Orchestration.StartDetached and SendOrStart: Version.
type DetachedOption interface {
	applyDetached(*childSettings)
}

type childSettings struct {
	call replay.Call
	err  error
}

// ID is a ChildOption that sets the instance id of the child. If the id is invalid (see ValidateID), the call fails. Without ID, the
// child gets an id derived from its parent's. A derived id is never reused, neither in the parent's next execution nor in another
// instance that has the parent's id.
type ID string

func (id ID) applyChild(s *childSettings) {
	s.call.Child.Instance = string(id)
	s.err = cmp.Or(s.err, ValidateID(string(id)))
}

type abandon struct{}

func (abandon) applyChild(s *childSettings) { s.call.Child.Abandon = true }

// Abandon returns a ChildOption with which the child outlives its parent: it is not cancelled when the orchestration that started it
// ends, when a scope ends, or when the parent instance is cancelled. Waits for its result still end with their scope. Future.Cancel, a
// lost Select and Within still cancel the child.
func Abandon() ChildOption { return abandon{} }

// Call starts a child, a separate instance, and waits for its result. It is short for Start followed by Get.
func (o Orchestration[In, Out]) Call(ctx *Context, in In, opts ...ChildOption) (Out, error) {
	return o.Start(ctx, in, opts...).Get(ctx)
}

// Start starts a child and returns a future of its result. The child has its own history and id, and runs in any orchestrator that has
// registered its orchestration. Until there is one, the child stays pending and the parent waits.
//
// If the child fails, the future has its *Failure. If the child was cancelled, no matter by whom, the error also matches *Cancelled with
// errors.As, and context.Canceled with errors.Is. The error is ErrIDTaken if the id belongs to an instance that another caller, or
// another call of this instance, has started; ErrTimeout after Within; ErrQueueFull and similar if the orchestration is limited. If the
// call itself is invalid (the input does not encode or is too large, an id or version is invalid, too many activities and children are
// outstanding), the future fails with that error.
//
// Like an activity, the child is cancelled when its result is no longer needed: when it loses a Select, when its future is cancelled,
// when its scope ends, and when the orchestration ends in any way. Abandon is the exception. The future of a cancelled child is ready at
// once, with a *Cancelled, even if the child takes longer to end.
func (o Orchestration[In, Out]) Start(ctx *Context, in In, opts ...ChildOption) *Future[Out] {
	s, err := o.child(in, replay.PayloadLimit(ctx.x))
	if err != nil {
		return &Future[Out]{core: ctx.x.Refuse(err)}
	}
	s.call.Scope = ctx.scope
	for _, opt := range opts {
		opt.applyChild(s)
	}
	if s.err != nil {
		return &Future[Out]{core: ctx.x.Refuse(fmt.Errorf("child %s: %w", o.name, s.err))}
	}
	return &Future[Out]{core: ctx.x.Call(s.call), form: o.out}
}

// StartDetached starts an instance without a parent, exactly once. The caller does not learn how it ends and does not cancel it. If an
// instance with that id already exists, StartDetached has no effect and still returns nil. It returns an error if the input does not
// encode or is too large or if the id or version is invalid, and a *Cancelled if ctx is done.
func (o Orchestration[In, Out]) StartDetached(ctx *Context, id string, in In, opts ...DetachedOption) error {
	s, err := o.child(in, replay.PayloadLimit(ctx.x))
	if err != nil {
		return err
	}
	ID(id).applyChild(s)
	for _, opt := range opts {
		opt.applyDetached(s)
	}
	if s.err != nil {
		return fmt.Errorf("orchestration %s: %w", o.name, s.err)
	}
	return authorError(ctx.x.Launch(*s.call.Child, s.call.Payload, ctx.scope))
}

func (o Orchestration[In, Out]) child(in In, limit int) (*childSettings, error) {
	if o.err != nil {
		return nil, o.err
	}
	payload, err := encode(o.in, in, limit)
	if err != nil {
		return nil, fmt.Errorf("orchestration %s: %w", o.name, err)
	}
	return &childSettings{call: replay.Call{Payload: payload, Child: &replay.Child{Name: o.name}}}, nil
}

// ContinueOption is an option of Orchestration.ContinueAsNew: Version, Latest.
type ContinueOption interface {
	applyContinue(*continueSettings)
}

type continueSettings struct {
	version string
	err     error
}

// ContinueAsNew continues the instance as a new execution, with an empty history and the given input. It is for orchestrations that run
// forever. Use it as
//
//	return Counter.ContinueAsNew(ctx, next)
//
// It returns the zero result and no error, so deferred functions that compensate on an error do not run. When the orchestration's
// function then returns without an error, outstanding work is cancelled with cancel.ContinuedAsNew and the next execution begins, in the
// same commit. If the function returns an error or panics, the instance fails and does not continue. If ContinueAsNew is called several
// times, the last call applies.
//
// The instance keeps its id, its parent, its attributes and its custom statuses. Events that have arrived but were not received are
// carried over to the next execution in order, together with those that arrive in the meantime. The next execution has the same version
// as this one, unless Version names another or Latest requests the newest. An execution without a version continues as the newest.
//
// ContinueAsNew returns an error if the input does not encode or is too large, or if the handle belongs to another orchestration. It
// returns a *Cancelled in a cancelled instance, which does not continue. An instance that is cancelled between the call and the return
// ends as cancelled.
func (o Orchestration[In, Out]) ContinueAsNew(ctx *Context, in In, opts ...ContinueOption) (Out, error) {
	var zero Out
	if o.err != nil {
		return zero, o.err
	}
	if is := ctx.x.Name(); is != o.name {
		return zero, fmt.Errorf("pawl: an instance of orchestration %s cannot continue as %s; start it as a child, or detached", is, o.name)
	}
	payload, err := encode(o.in, in, replay.PayloadLimit(ctx.x))
	if err != nil {
		return zero, fmt.Errorf("orchestration %s: %w", o.name, err)
	}
	s := continueSettings{version: ctx.x.Version()}
	for _, opt := range opts {
		opt.applyContinue(&s)
	}
	if s.err != nil {
		return zero, fmt.Errorf("orchestration %s: %w", o.name, s.err)
	}
	return zero, authorError(ctx.x.ContinueAsNew(payload, s.version, ctx.scope))
}
