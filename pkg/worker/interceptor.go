package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// Call describes the run of an activity to an interceptor.
type Call struct {
	Info        pawl.ActivityInfo
	Origin      history.Position // of the start of the instance
	ScheduledAt time.Time        // by the orchestrator's clock
	activity    author.Activity
}

// Handler runs an activity and returns its result, or its failure. The context ends with a cause, as that of the activity.
type Handler func(ctx context.Context, c *Call, input history.Payload) (history.Payload, *history.Failure)

// Interceptor wraps the activities of a worker: next runs the activity, on the same goroutine. It may pass on another context or another
// input, and return another result; what it returns is acknowledged. It runs for every claim, within the attempt's timeout.
type Interceptor func(next Handler) Handler

// intercepted composes the interceptors around the activity of a call; nil without any.
func intercepted(all []Interceptor) Handler {
	if len(all) == 0 {
		return nil
	}
	next := Handler(func(ctx context.Context, c *Call, input history.Payload) (history.Payload, *history.Failure) {
		return c.activity.Handle(ctx, input)
	})
	for _, around := range slices.Backward(all) {
		next = around(next)
	}
	return next
}

// handle runs the activity with its opened input. A damaged one is passed on, and does not decode.
func (t *task) handle(ctx context.Context) (history.Payload, *history.Failure) {
	input, release, err := t.input(ctx)
	defer release()
	if err != nil && !errors.Is(err, pawlcodec.ErrDamaged) { // its key was there before the claim; or cancelled before there was room
		return history.Payload{}, author.ToFailure(err)
	}
	if t.w.handler == nil {
		return t.activity.Handle(ctx, input)
	}
	c := &Call{Info: pawl.Info(ctx), Origin: t.task.Origin, ScheduledAt: time.UnixMilli(t.task.ScheduledAt), activity: t.activity}
	return t.w.handler(ctx, c, input)
}
