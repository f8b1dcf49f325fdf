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

// ID is a ChildOption: the instance id of the child. An invalid id (see ValidateID) is the error of the call. Without ID the child has an
// id derived from its parent's, which is never used again: neither in the parent's next execution nor in another instance with the
// parent's id.
type ID string

func (id ID) applyChild(s *childSettings) {
	s.call.Child.Instance = string(id)
	s.err = cmp.Or(s.err, ValidateID(string(id)))
}

type abandon struct{}

func (abandon) applyChild(s *childSettings) { s.call.Child.Abandon = true }

// Abandon returns a ChildOption: the child outlives its parent. Neither the end of the orchestration that started it, nor that of a
// scope, nor the cancellation of the instance cancels the child. Waits for its result end with their scope as usual; and Future.Cancel,
// a lost Select and Within cancel it.
func Abandon() ChildOption { return abandon{} }

// Call starts a child, an instance of its own, and waits for its result. It is Start and Get.
func (o Orchestration[In, Out]) Call(ctx *Context, in In, opts ...ChildOption) (Out, error) {
	return o.Start(ctx, in, opts...).Get(ctx)
}

// Start starts a child and returns a future of its result. The child has its own history and id, and runs in any orchestrator that has
// its orchestration; until there is one, the child waits, and the parent with it.
//
// The error of the future is the *Failure that the child ended with. If the child was cancelled, by whatever requester, it also matches
// *Cancelled with errors.As, and context.Canceled with errors.Is. It is ErrIDTaken if the id is that of an instance that another caller,
// or another call of this instance, has started; ErrTimeout after Within; ErrQueueFull and similar if the orchestration is limited. An
// error at the call (an input that does not encode or is too large, an invalid id or version, too many outstanding activities and
// children) is also the error of the future.
//
// The child is cancelled when its result is no longer needed, like an activity: when it loses a Select, with its future or its scope,
// and when the orchestration ends in any way; but see Abandon. Its future is then ready at once, with a *Cancelled, even if the child
// takes longer to end.
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

// StartDetached starts an instance without a parent: its end is not reported, and nothing that happens here cancels it. It is started
// exactly once. If there is an instance of that id already, nothing happens, and it is not reported. The error is that of an input
// that does not encode or is too large, of an invalid id or version, or a *Cancelled in a context that is done.
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

// ContinueAsNew continues the instance as a new execution, with an empty history and the given input, for orchestrations that run
// forever. Use it as
//
//	return Counter.ContinueAsNew(ctx, next)
//
// It returns the zero result and no error, so that deferred functions which compensate because of an error do not run. When the
// orchestration's function returns without an error, outstanding work is cancelled with cancel.ContinuedAsNew, and the next execution
// begins, in the same commit; if it returns an error or panics, the instance fails, and does not continue. The last of several calls
// applies.
//
// The instance keeps its id, its parent and its custom status. Events that have arrived and were not read are kept for the next
// execution, in order, with those that arrive in the meantime. The next execution has the version of this one, unless Version names
// another, or Latest requests the newest. (An execution without a version continues as the newest.)
//
// The error is that of an input that does not encode or is too large, of the handle of another orchestration, or a *Cancelled: a cancelled
// instance does not continue. An instance that is cancelled between the call and the return ends as cancelled.
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
