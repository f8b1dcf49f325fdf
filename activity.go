package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Activity is the handle of an activity: a name and two types. It holds no function,
// is immutable, and may be used from everywhere; what runs when it is called is bound
// to it with Do, in the fleet that has it.
type Activity[In, Out any] struct {
	name   string
	queue  string
	limits *history.Declared // nil: none
	in     form
	out    form
	err    error
}

// NewActivity declares an activity. A name or queue outside the alphabet (see
// ValidateName), a limit that makes no sense (see LimitOption), or a type that cannot be a payload
// (ErrUnencodable) is the error of every use of the handle.
func NewActivity[In, Out any](name string, opts ...ActivityOption) Activity[In, Out] {
	s := activitySettings{queue: name}
	for _, o := range opts {
		o.applyActivity(&s)
	}
	err := ValidateName(name)
	if err == nil {
		err = ValidateName(s.queue)
	}
	if err == nil {
		err = s.limits.wrong()
	}
	in, out := formOf[In](), formOf[Out]()
	err = cmp.Or(err, in.err, out.err)
	return Activity[In, Out]{name: name, queue: s.queue, limits: s.limits.given(), in: in, out: out, err: ofHandle("activity", name, err)}
}

// Name is what histories and workers know the activity by.
func (a Activity[In, Out]) Name() string { return a.name }

// Queue is the task queue that its tasks go to.
func (a Activity[In, Out]) Queue() string { return a.queue }

// Call runs the activity and waits for its result. The error is a *Failure, or a
// *Cancelled if the instance was asked to end. The input takes its encoded form at the call.
func (a Activity[In, Out]) Call(ctx *Context, in In, opts ...CallOption) (Out, error) {
	return a.Start(ctx, in, opts...).Get(ctx)
}

// Start schedules the activity and gives a future for its result. What goes wrong at
// the call (an input that does not encode or is too large, too many outstanding
// activities) is the error of the future.
func (a Activity[In, Out]) Start(ctx *Context, in In, opts ...CallOption) *Future[Out] {
	if a.err != nil {
		return &Future[Out]{core: ctx.x.Refuse(a.err)}
	}
	payload, err := encode(a.in, in)
	if err != nil {
		return &Future[Out]{core: ctx.x.Refuse(fmt.Errorf("activity %s: %w", a.name, err))}
	}
	call := replay.Call{Activity: a.name, Queue: a.queue, Payload: payload, Declared: a.limits, Scope: ctx.scope}
	for _, o := range opts {
		o.applyCall(&call)
	}
	return &Future[Out]{core: ctx.x.Call(call), form: a.out}
}

// Do binds the function that a worker runs. It may run several times for one call
// (see Info for the key to make that harmless), each time with a context that ends
// when nobody wants the result any more; context.Cause gives the *Cancelled.
func (a Activity[In, Out]) Do(fn func(context.Context, In) (Out, error)) ActivityBinding {
	return ActivityBinding{name: a.name, queue: a.queue, err: a.err, run: func(ctx context.Context, p history.Payload) (history.Payload, error) {
		in, err := decode[In](a.in, p)
		if err != nil {
			return history.Payload{}, fmt.Errorf("input of activity %s: %w", a.name, err)
		}
		out, err := fn(ctx, in)
		if err != nil {
			return history.Payload{}, err
		}
		result, err := encode(a.out, out)
		if err != nil {
			return history.Payload{}, fmt.Errorf("result of activity %s: %w", a.name, Permanent(err))
		}
		return result, nil
	}}
}

// ActivityBinding is an activity together with the function that runs it.
type ActivityBinding struct {
	name  string
	queue string
	err   error
	run   func(context.Context, history.Payload) (history.Payload, error)
}

// Name is the activity's name.
func (b ActivityBinding) Name() string { return b.name }

// Queue is the task queue that its tasks come from.
func (b ActivityBinding) Queue() string { return b.queue }

// Handle runs the function on a goroutine of its own and waits for it. Its error, a
// panic and a runtime.Goexit come back as a failure; an error that is the end of ctx
// carries the cause of that end.
func (b ActivityBinding) Handle(ctx context.Context, in history.Payload) (history.Payload, *history.Failure) {
	result, failure := history.Payload{}, &history.Failure{
		Code: history.CodePanic, Message: "the activity's code called runtime.Goexit",
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				failure = replay.PanicFailure(p, debug.Stack())
			}
		}()
		out, err := b.run(ctx, in)
		if err != nil {
			failure = ToFailure(withCause(ctx, err))
			return
		}
		result, failure = out, nil
	}()
	<-done
	return result, failure
}

// withCause adds the *Cancelled that ended the context to an error that tells of that
// end without saying why.
func withCause(ctx context.Context, err error) error {
	var cause, told *Cancelled
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) || errors.As(err, &told) || !errors.As(context.Cause(ctx), &cause) {
		return err
	}
	return caused{err, cause}
}

type caused struct {
	error
	cause *Cancelled
}

func (c caused) Unwrap() []error { return []error{c.error, c.cause} }

// EncodeInput gives an input in the form that history keeps. It is for Pawl's own packages.
func (a Activity[In, Out]) EncodeInput(in In) (history.Payload, error) {
	return encodeFor(a.err, a.in, in)
}

// DecodeInput reads what EncodeInput wrote.
func (a Activity[In, Out]) DecodeInput(p history.Payload) (In, error) { return decode[In](a.in, p) }

// EncodeResult gives a result in the form that history keeps.
func (a Activity[In, Out]) EncodeResult(out Out) (history.Payload, error) {
	return encodeFor(a.err, a.out, out)
}

// DecodeResult reads what EncodeResult wrote.
func (a Activity[In, Out]) DecodeResult(p history.Payload) (Out, error) { return decode[Out](a.out, p) }

func encodeFor[T any](bad error, f form, v T) (history.Payload, error) {
	if bad != nil {
		return history.Payload{}, bad
	}
	return encode(f, v)
}
