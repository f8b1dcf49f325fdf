package pawlotel

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawlrun/pawl"
)

// LogHandler adds attributes to each record: the ids of the span in its context (trace_id, span_id) and, in an activity, its instance and
// name (instance, activity). Records of orchestrations, logged with pawl.Logger, have instance and trace_id without this handler.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		r.AddAttrs(slog.String("trace_id", c.TraceID().String()), slog.String("span_id", c.SpanID().String()))
	}
	if i := pawl.Info(ctx); i.Instance != "" {
		r.AddAttrs(slog.String("instance", i.Instance), slog.String("activity", i.Name))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
