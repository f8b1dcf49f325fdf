package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pkg/history"
)

// Call describes one run of an activity to its interceptors.
type Call struct {
	Info        pawl.ActivityInfo
	Origin      history.Position // origin of the instance: the position of its start in INPUTS
	ScheduledAt time.Time        // time of the turn that scheduled it, by the orchestrator's clock
	activity    author.Activity
}

// Handler runs an activity and returns its result, or its failure if the activity failed. The cause of the end of ctx is the one that the
// activity would see, a *pawl.Cancelled.
type Handler func(ctx context.Context, c *Call, input history.Payload) (history.Payload, *history.Failure)

// Interceptor wraps the activities of a worker: next runs the activity and returns when it has returned. An interceptor may pass a different
// context or input to next, and return a different result: the worker acknowledges whatever it returns. It runs once per claim, within
// the timeout of the attempt. It may run on several goroutines at a time.
type Interceptor func(next Handler) Handler

// intercepted composes the interceptors into one Handler, or returns nil if there are none.
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

// handle decodes the input and runs the activity. A damaged input is passed on undecoded: the activity fails when it decodes it.
func (t *task) handle(ctx context.Context) (history.Payload, *history.Failure) {
	input, release, err := t.input(ctx)
	defer release()
	if err != nil && !errors.Is(err, sealing.ErrDamaged) { // a key was removed since the claim, or the task was cancelled while it waited for memory
		return history.Payload{}, author.ToFailure(err)
	}
	if t.w.handler == nil {
		return t.activity.Handle(ctx, input)
	}
	c := &Call{Info: pawl.Info(ctx), Origin: t.task.Origin, ScheduledAt: time.UnixMilli(t.task.ScheduledAt), activity: t.activity}
	return t.w.handler(ctx, c, input)
}
