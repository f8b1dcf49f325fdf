package author

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Activity is an activity together with its function, in untyped form.
type Activity struct {
	Name  string
	Queue string
	Grace *time.Duration // nil means the worker's default
	Err   error          // error of the handle; a registry rejects the activity with it
	Run   func(context.Context, history.Payload) (history.Payload, error)
}

// ActivityBinding is embedded in pawl.ActivityBinding.
type ActivityBinding struct{ value Activity }

// BindActivity returns the binding of an activity.
func BindActivity(a Activity) ActivityBinding { return ActivityBinding{value: a} }

func (b ActivityBinding) activity() Activity { return b.value }

// ActivityOf returns the activity of a binding.
func ActivityOf(b interface{ activity() Activity }) Activity { return b.activity() }

// GracePeriod returns the grace period of the activity, or that of the worker if the binding has none.
func (a Activity) GracePeriod(worker time.Duration) time.Duration {
	if a.Grace != nil {
		return *a.Grace
	}
	return worker
}

// Handle runs the function on a new goroutine and waits for it. An error, a panic and a runtime.Goexit are returned as a failure. If the
// error results from the end of ctx, the failure includes the cause of that end.
func (a Activity) Handle(ctx context.Context, in history.Payload) (history.Payload, *history.Failure) {
	result, failure := history.Payload{}, &history.Failure{
		Code: history.CodePanic, Message: "the activity called runtime.Goexit",
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				failure = replay.PanicFailure(p, debug.Stack())
			}
		}()
		out, err := a.Run(ctx, in)
		if err != nil {
			failure = ToFailure(withCause(ctx, err))
			return
		}
		result, failure = out, nil
	}()
	<-done
	return result, failure
}

// withCause adds the *cancel.Cancelled that ended the context to an error that matches context.Canceled and does not contain one.
func withCause(ctx context.Context, err error) error {
	var cause, has *cancel.Cancelled
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) || errors.As(err, &has) || !errors.As(context.Cause(ctx), &cause) {
		return err
	}
	return caused{err, cause}
}

type caused struct {
	error
	cause *cancel.Cancelled
}

func (c caused) Unwrap() []error { return []error{c.error, c.cause} }
