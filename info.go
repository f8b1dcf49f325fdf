package pawl

import (
	"context"
	"time"
)

// ActivityInfo tells an activity what it is running for.
type ActivityInfo struct {
	Instance  string // the instance that wants the result
	Execution uint64 // its generation
	Activity  uint64 // event id of the schedule in that execution's history
	Name      string // of the activity
	Queue     string // that the task came from
	Worker    string // name of the worker that runs it
	Attempt   uint32 // of the author's Retry, from 1
	Claim     uint32 // how often this attempt was claimed by a worker, from 1
	// Key is the idempotency key: the same for every run of one call, whatever its attempt
	// and its worker, and different from that of every other call and instance. 22
	// characters of base64url.
	Key string
	// AttemptKey is Key, but different for every attempt of a Retry: for a service that
	// remembers under a key that something has failed.
	AttemptKey string
	// Grace is how long the activity may still run once its context is done; see
	// ActivityBinding.WithGrace. Outside a worker it is 0.
	Grace time.Duration
}

type infoKey struct{}

// Info tells an activity what it is running for. In a context that is not an
// activity's it is the zero value.
func Info(ctx context.Context) ActivityInfo {
	info, _ := ctx.Value(infoKey{}).(ActivityInfo)
	return info
}

// WithInfo gives a context that Info finds info in: for workers, and for tests of an
// activity's function.
func WithInfo(ctx context.Context, info ActivityInfo) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}
