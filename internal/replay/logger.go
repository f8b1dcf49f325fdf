package replay

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// quietHandler forwards log records, except during replay, when they have been logged before.
type quietHandler struct {
	inner     slog.Handler
	replaying *atomic.Bool
}

func (h *quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return !h.replaying.Load() && h.inner.Enabled(ctx, level)
}

func (h *quietHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.replaying.Load() {
		return nil
	}
	return h.inner.Handle(ctx, r)
}

func (h *quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &quietHandler{inner: h.inner.WithAttrs(attrs), replaying: h.replaying}
}

func (h *quietHandler) WithGroup(name string) slog.Handler {
	return &quietHandler{inner: h.inner.WithGroup(name), replaying: h.replaying}
}
