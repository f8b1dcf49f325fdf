package author

import (
	"context"

	"github.com/pawlrun/pawl/internal/sealing"
)

type maxPayloadKey struct{}

// WithMaxPayload returns a context for an activity whose result may have the given number of bytes.
func WithMaxPayload(ctx context.Context, bytes int) context.Context {
	if bytes == sealing.MaxInline {
		return ctx
	}
	return context.WithValue(ctx, maxPayloadKey{}, bytes)
}

// MaxPayload returns the maximum size of the result of the activity with the context, in bytes.
func MaxPayload(ctx context.Context) int {
	if n, ok := ctx.Value(maxPayloadKey{}).(int); ok {
		return n
	}
	return sealing.MaxInline
}
