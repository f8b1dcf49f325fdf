package pawl

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// ActivityInfo describes one run of an activity.
type ActivityInfo struct {
	Instance  string // the instance that called the activity
	Execution uint64 // the execution of that instance
	Activity  uint64 // id of the history event that scheduled the activity
	Name      string // name of the activity
	Queue     string // task queue that the task came from
	Worker    string // name of the worker
	Attempt   uint32 // number of the attempt under Retry, from 1
	Claim     uint32 // how often a worker has claimed this attempt, from 1
	// Key is the idempotency key. All attempts of one call on all workers have the same key, and no other call of any instance has it. It
	// is 22 characters of base64url.
	Key string
	// AttemptKey is like Key but differs between the attempts of a Retry. Use it for services that store a failure under a key.
	AttemptKey string
	// Grace is the grace period of the activity; see ActivityBinding.WithGrace. It is 0 outside a worker.
	Grace time.Duration
	// Headers are the headers of the instance's start: the trace context and those that its sender added.
	Headers history.Headers
}

type infoKey struct{}

// Info returns the description of the running activity, or the zero value if ctx is not the context of an activity.
func Info(ctx context.Context) ActivityInfo {
	info, _ := ctx.Value(infoKey{}).(ActivityInfo)
	return info
}

// WithInfo returns a context for which Info returns info. Use it to test the function of an activity.
func WithInfo(ctx context.Context, info ActivityInfo) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}
