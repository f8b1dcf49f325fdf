package author

import (
	"context"
	"sync"
)

type graceKey struct{}

// WithGracePeriod returns a context for an activity, and a function that marks its grace period as expired. The function may be called
// several times and concurrently.
func WithGracePeriod(ctx context.Context) (_ context.Context, expire func()) {
	expired := make(chan struct{})
	return context.WithValue(ctx, graceKey{}, expired), sync.OnceFunc(func() { close(expired) })
}

// GraceExpired returns the channel that expire closes, or nil in a context without a grace period.
func GraceExpired(ctx context.Context) <-chan struct{} {
	expired, _ := ctx.Value(graceKey{}).(chan struct{})
	return expired
}
