package pawl

import (
	"context"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// ActivityInfo describes the run of an activity.
type ActivityInfo struct {
	Instance  string // the instance that called the activity
	Execution uint64 // its execution
	Activity  uint64 // event id of the schedule in the history of that execution
	Name      string // of the activity
	Queue     string // task queue of the task
	Worker    string // name of the worker
	Attempt   uint32 // of Retry, from 1
	Claim     uint32 // number of times that a worker has claimed this attempt, from 1
	// Key is the idempotency key: equal for all attempts and workers of one call, and different from that of any other call of any
	// instance. It has 22 characters of base64url.
	Key string
	// AttemptKey is a key like Key that differs between the attempts of a Retry, for services that remember a failure under a key.
	AttemptKey string
	// Grace is the grace period of the activity; see ActivityBinding.WithGrace. It is 0 outside a worker.
	Grace time.Duration
	// Headers are those of the start of the instance: the trace context, and what its sender has declared.
	Headers history.Headers
}

type infoKey struct{}

// Info returns the description of the running activity. It is the zero value in a context that is not an activity's.
func Info(ctx context.Context) ActivityInfo {
	info, _ := ctx.Value(infoKey{}).(ActivityInfo)
	return info
}

// WithInfo returns a context for which Info returns info, to test the function of an activity.
func WithInfo(ctx context.Context, info ActivityInfo) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}
