package pawlotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/worker"
)

// WorkerInterceptor traces activities: one span for the time in the task queue, and one for the activity, which is the parent of the
// spans that the activity creates. The context of the activity contains the baggage of the start. Activities without a trace context in their
// headers are not traced.
func WorkerInterceptor(tp trace.TracerProvider) worker.Interceptor {
	tracer := tp.Tracer(scope)
	return func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, c *worker.Call, input history.Payload) (history.Payload, *history.Failure) {
			if c.Info.Headers == "" {
				return next(ctx, c, input)
			}
			ctx = withBaggage(ctx, c.Info.Headers)
			from, start, ok := c.Info.Headers.Trace()
			if !ok {
				return next(ctx, c, input)
			}
			ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(from.Trace, start, from.Flags, c.Info.Headers.Get(history.HeaderTracestate)))
			about := []attribute.KeyValue{
				attribute.String("pawl.instance", c.Info.Instance), attribute.String("pawl.activity", c.Info.Name), attribute.String("pawl.worker", c.Info.Worker),
				attribute.Int64("pawl.event", int64(c.Info.Activity)), //nolint:gosec // a count
				attribute.Int64("pawl.attempt", int64(c.Info.Attempt)), attribute.Int64("pawl.claim", int64(c.Info.Claim)),
			}
			_, waited := tracer.Start(ctx, "queue "+c.Info.Queue, trace.WithTimestamp(c.ScheduledAt), trace.WithAttributes(about...))
			waited.End()
			ctx, span := tracer.Start(ctx, "run "+c.Info.Name, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(about...))
			defer span.End()
			ended := make(chan struct{})
			stop := context.AfterFunc(ctx, func() {
				defer close(ended)
				cancelled(ctx, span)
			})
			result, failure := next(ctx, c, input)
			if !stop() {
				<-ended
			}
			if failure != nil {
				span.SetStatus(codes.Error, failure.Code)
			}
			return result, failure
		}
	}
}

// cancelled adds the end of an activity's context to its span.
func cancelled(ctx context.Context, span trace.Span) {
	c, ok := errors.AsType[*cancel.Cancelled](context.Cause(ctx))
	if !ok {
		return
	}
	about := []attribute.KeyValue{attribute.String("pawl.reason", c.Reason.String()), attribute.String("pawl.by", c.By), attribute.String("pawl.text", c.Text)}
	if !c.At.IsZero() {
		about = append(about, attribute.Float64("pawl.latency", max(0, time.Since(c.At).Seconds())))
	}
	span.AddEvent("cancelled", trace.WithAttributes(about...))
}

// ClientInterceptor traces the messages of a client, and propagates the trace context and the baggage of the caller.
func ClientInterceptor(tp trace.TracerProvider) client.Interceptor {
	tracer := tp.Tracer(scope)
	return func(next client.Publish) client.Publish {
		return func(ctx context.Context, m *client.Message) error {
			ctx, span := tracer.Start(ctx, m.Kind+" "+m.Name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attribute.String("pawl.instance", m.Instance)))
			defer span.End()
			m.Headers = inject(ctx, m.Headers)
			err := next(ctx, m)
			if err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, "not accepted")
			}
			return err
		}
	}
}

// inject adds the trace context and the baggage of ctx to the headers.
func inject(ctx context.Context, h history.Headers) history.Headers {
	if b := baggage.FromContext(ctx); b.Len() > 0 {
		h = h.With(history.HeaderBaggage, b.String())
	}
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		return h
	}
	h = h.With(history.HeaderTraceparent, history.TraceContext{Trace: c.TraceID(), Span: c.SpanID(), Flags: byte(c.TraceFlags())}.String())
	return h.With(history.HeaderTracestate, c.TraceState().String())
}

func withBaggage(ctx context.Context, h history.Headers) context.Context {
	v := h.Get(history.HeaderBaggage)
	if v == "" {
		return ctx
	}
	if b, err := baggage.Parse(v); err == nil {
		ctx = baggage.ContextWithBaggage(ctx, b)
	}
	return ctx
}
