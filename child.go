package pawl

import (
	"cmp"
	"fmt"

	"github.com/pawlrun/pawl/internal/replay"
)

// ChildOption is an option of Orchestration.Call and Orchestration.Start: ID, Version,
// Abandon, Within.
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

// ID is a ChildOption: the instance id of the child. One outside the alphabet (see
// ValidateID) is the error of the call. Without it the child has an id of its own, made of
// its parent's, that never comes again: neither in the parent's next execution nor in
// another instance under the parent's id.
type ID string

func (id ID) applyChild(s *childSettings) {
	s.call.Child.Instance = string(id)
	s.err = cmp.Or(s.err, ValidateID(string(id)))
}

type abandon struct{}

func (abandon) applyChild(s *childSettings) { s.call.Child.Abandon = true }

// Abandon is a ChildOption: the child outlives its parent. Neither the end of the
// orchestration that started it nor that of a scope, nor the cancellation of the
// instance, cancels the child. As long as somebody wants its result it is a child like
// others: the wait for it ends with the scope of who waits; and Future.Cancel, a lost
// Select and Within do cancel it.
func Abandon() ChildOption { return abandon{} }

// Call starts a child, an instance of its own, and waits for its result: it is Start and
// Get.
func (o Orchestration[In, Out]) Call(ctx *Context, in In, opts ...ChildOption) (Out, error) {
	return o.Start(ctx, in, opts...).Get(ctx)
}

// Start starts a child and gives a future for its result. The child has a history, an id
// and a life of its own, in whichever orchestrator has its orchestration; if none has it
// yet, the child waits, and the parent with it.
//
// The error of the future is the *Failure that the child ended with. One that was
// cancelled, whoever cancelled it, is also a *Cancelled to errors.As, and
// context.Canceled to errors.Is. It is ErrIDTaken if the id is that of an instance that
// somebody else has started, or that this one has started from another place; ErrTimeout
// after Within; ErrQueueFull and the like if the orchestration is limited and has no room. What goes wrong at the call (an input that does not encode or is too
// large, a bad id or version, too many outstanding activities and children) is the error
// of the future, too.
//
// The child is cancelled when nobody wants its result any more, as an activity is: when it
// loses a Select, with its future or its scope, and when the orchestration ends, in
// whatever way; but see Abandon. Its future is ready at once, with a *Cancelled; the child
// may take its time.
func (o Orchestration[In, Out]) Start(ctx *Context, in In, opts ...ChildOption) *Future[Out] {
	s, err := o.child(in)
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

// StartDetached starts an instance and is done with it: it is nobody's child, its end is
// told to nobody, and nothing that happens here cancels it. It is started exactly once.
// If there is an instance of that id already, whatever it is, nothing happens, and nobody
// is told. The error is that of an input that does not encode or is too large, of a bad id
// or version, or a *Cancelled in a context that is over.
func (o Orchestration[In, Out]) StartDetached(ctx *Context, id string, in In, opts ...DetachedOption) error {
	s, err := o.child(in)
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
	return arrived(ctx.x.Launch(*s.call.Child, s.call.Payload, ctx.scope))
}

func (o Orchestration[In, Out]) child(in In) (*childSettings, error) {
	if o.err != nil {
		return nil, o.err
	}
	payload, err := encode(o.in, in)
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

// ContinueAsNew lets the instance go on as a new execution, with an empty history and the
// input given: for what runs for ever. It is used as
//
//	return Counter.ContinueAsNew(ctx, next)
//
// and gives the zero result and no error, so that deferred functions which take back
// work because of an error do not run. When the orchestration's function returns without
// an error, what is outstanding is cancelled with cancel.ContinuedAsNew, and the next
// execution begins, in the same commit; if it returns an error or panics, the instance
// fails, as if nothing had been asked. Called twice, the last one counts.
//
// The instance keeps its id, its parent and its custom status. Events that have arrived and
// that nobody has read, with Get or Receive or the like, are the next execution's, in
// order; so are those that arrive in the meantime.
// It has the version of this one, unless Version names another, or Latest asks for the
// newest. (One that was started without a version goes on as the newest.)
//
// The error is that of an input that does not encode or is too large, of the handle of
// another orchestration, or a *Cancelled: an instance that was asked to end does not go
// on. One that is asked between the call and the return ends as cancelled.
func (o Orchestration[In, Out]) ContinueAsNew(ctx *Context, in In, opts ...ContinueOption) (Out, error) {
	var zero Out
	if o.err != nil {
		return zero, o.err
	}
	if is := ctx.x.Name(); is != o.name {
		return zero, fmt.Errorf("pawl: an instance of orchestration %s can not continue as %s; start that as a child, or detached", is, o.name)
	}
	payload, err := encode(o.in, in)
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
	return zero, arrived(ctx.x.ContinueAsNew(payload, s.version, ctx.scope))
}
