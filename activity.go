package pawl

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Activity is the handle of an activity: a name and two types. It holds no function and is immutable, so any package may use it.
// Do binds the function that a worker runs.
type Activity[In, Out any] struct {
	handle[In, Out]

	name   string
	queue  string
	limits *history.Declared // nil: none
	in     form
	out    form
	err    error
}

// NewActivity declares an activity. If the name or queue is invalid (see ValidateName), a limit is invalid (see LimitOption), or a type
// cannot be a payload (ErrUnencodable), every use of the handle returns that error.
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
		err = s.limits.validate()
	}
	in, out := formOf[In](), formOf[Out]()
	err = ofHandle("activity", name, cmp.Or(err, in.err, out.err))
	limits := s.limits.declaration()
	return Activity[In, Out]{
		handle: handleOf[In, Out](in, out, limits, err), name: name, queue: s.queue, limits: limits, in: in, out: out, err: err,
	}
}

// Name returns the activity's name, as recorded in histories.
func (a Activity[In, Out]) Name() string { return a.name }

// Queue returns the task queue of the activity.
func (a Activity[In, Out]) Queue() string { return a.queue }

// Call runs the activity and waits for its result. The input is encoded at the call. The error is a *Failure, or a *Cancelled if the
// instance was cancelled or the scope of ctx has ended.
func (a Activity[In, Out]) Call(ctx *Context, in In, opts ...CallOption) (Out, error) {
	return a.Start(ctx, in, opts...).Get(ctx)
}

// Start schedules the activity and returns a future of its result. If the call itself is invalid (the input does not encode or is too
// large, or too many activities are outstanding), the future fails with that error.
func (a Activity[In, Out]) Start(ctx *Context, in In, opts ...CallOption) *Future[Out] {
	if a.err != nil {
		return &Future[Out]{core: ctx.x.Refuse(a.err)}
	}
	payload, err := encode(a.in, in, replay.PayloadLimit(ctx.x))
	if err != nil {
		return &Future[Out]{core: ctx.x.Refuse(fmt.Errorf("activity %s: %w", a.name, err))}
	}
	call := replay.Call{Activity: a.name, Queue: a.queue, Payload: payload, Declared: a.limits, Scope: ctx.scope}
	for _, o := range opts {
		o.applyCall(&call)
	}
	return &Future[Out]{core: ctx.x.Call(call), form: a.out}
}

// Do binds the function that a worker runs. The function may run several times for one call: use Info(ctx).Key as the idempotency key of
// its side effects. If the call has no input, it receives the zero value. Its context is cancelled when the result is no longer needed,
// and context.Cause then returns the *Cancelled.
func (a Activity[In, Out]) Do(fn func(context.Context, In) (Out, error)) ActivityBinding {
	run := func(ctx context.Context, p history.Payload) (history.Payload, error) {
		var in In
		if p.Type != "" || len(p.Data) > 0 { // without an input, in keeps its zero value
			var err error
			if in, err = decode[In](a.in, p); err != nil {
				return history.Payload{}, fmt.Errorf("input of activity %s: %w", a.name, err)
			}
		}
		out, err := fn(ctx, in)
		if err != nil {
			return history.Payload{}, err
		}
		result, err := encode(a.out, out, author.MaxPayload(ctx))
		if err != nil {
			return history.Payload{}, fmt.Errorf("result of activity %s: %w", a.name, Permanent(err))
		}
		return result, nil
	}
	return ActivityBinding{author.BindActivity(author.Activity{Name: a.name, Queue: a.queue, Err: a.err, Run: run})}
}

type activityBinding = author.ActivityBinding

// ActivityBinding is an activity together with the function that a worker runs. It is immutable.
type ActivityBinding struct{ activityBinding }

// Name returns the activity's name.
func (b ActivityBinding) Name() string { return author.ActivityOf(b).Name }

// Queue returns the task queue of the activity.
func (b ActivityBinding) Queue() string { return author.ActivityOf(b).Queue }

// Binding is an ActivityBinding or an OrchestrationBinding.
type Binding interface{ binding }

type binding = author.Binding

// ErrDuplicate is returned when two bindings have the same name and version.
var ErrDuplicate = author.ErrDuplicate
