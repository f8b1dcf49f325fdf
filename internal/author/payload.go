package author

import (
	"context"

	"github.com/pawlrun/pawl/pawlcodec"
)

type maxPayloadKey struct{}

// WithMaxPayload returns a context for an activity whose result may have that many bytes.
func WithMaxPayload(ctx context.Context, bytes int) context.Context {
	if bytes == pawlcodec.MaxInline {
		return ctx
	}
	return context.WithValue(ctx, maxPayloadKey{}, bytes)
}

// MaxPayload is the maximum size of the result of the activity with the context, in bytes.
func MaxPayload(ctx context.Context) int {
	if n, ok := ctx.Value(maxPayloadKey{}).(int); ok {
		return n
	}
	return pawlcodec.MaxInline
}
