package pawlotel

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlrun/pawl/internal/tracing"
)

const scope = "github.com/pawlrun/pawl/pawlotel"

// ErrIDGenerator is the error of NewTracer for a provider without the IDGenerator.
var ErrIDGenerator = errors.New("pawlotel: the tracer provider has no pawlotel.IDGenerator: pass it with sdktrace.WithIDGenerator")

// IDGenerator returns the ids that a Tracer has derived, and random ids for all other spans. It implements the interface of the same
// name in the OpenTelemetry SDK.
type IDGenerator struct{}

type idsKey struct{}

// ids are the ids of a span, passed to the generator in the context.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs returns the ids of a span without a parent.
func (IDGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if d, ok := ctx.Value(idsKey{}).(ids); ok {
		return d.trace, d.span
	}
	var t trace.TraceID
	_, _ = rand.Read(t[:]) // never fails
	return t, randomSpan()
}

// NewSpanID returns the id of a span with a parent.
func (IDGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if d, ok := ctx.Value(idsKey{}).(ids); ok {
		return d.span
	}
	return randomSpan()
}

func randomSpan() (s trace.SpanID) {
	_, _ = rand.Read(s[:])
	return s
}

// Tracer emits the spans of an orchestrator.
type Tracer struct {
	tracer trace.Tracer
	flush  func(context.Context) error // nil if the provider cannot be flushed
}

// NewTracer returns the Tracer for orchestrator.Config. For a provider that records nothing, it returns nil without an error. The error is
// ErrIDGenerator.
func NewTracer(tp trace.TracerProvider) (tracing.Tracer, error) {
	t := &Tracer{tracer: tp.Tracer(scope)}
	if f, ok := tp.(interface {
		ForceFlush(ctx context.Context) error
	}); ok { // the provider of the SDK
		t.flush = f.ForceFlush
	}
	want := ids{trace: trace.TraceID{1}, span: trace.SpanID{1}}
	switch got := t.root(want).SpanContext(); {
	case !got.IsValid():
		return nil, nil //nolint:nilnil // no tracer is not an error
	case got.SpanID() != want.span || got.TraceID() != want.trace:
		return nil, ErrIDGenerator
	default:
		return t, nil
	}
}

// root starts a span without a parent. The span is never ended, and so never exported.
func (t *Tracer) root(id ids) trace.Span {
	_, span := t.tracer.Start(context.WithValue(context.Background(), idsKey{}, id), "start") //nolint:spancheck // never ended
	return span                                                                               //nolint:spancheck // never ended
}

// Sample implements tracing.Tracer: the sampler of the provider decides.
func (t *Tracer) Sample(id [16]byte, span [8]byte) bool {
	return t.root(ids{trace: id, span: span}).SpanContext().IsSampled()
}

// Flush implements tracing.Tracer.
func (t *Tracer) Flush(ctx context.Context) error {
	if t.flush == nil {
		return nil
	}
	return t.flush(ctx)
}

// Emit implements tracing.Tracer.
func (t *Tracer) Emit(s *tracing.Span) {
	ctx := context.WithValue(context.Background(), idsKey{}, ids{trace: s.Trace, span: s.ID})
	if !s.Root {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(s.Trace, s.Parent, 1, s.State))
	}
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(time.Unix(0, s.Start)), trace.WithSpanKind(kind(s.Kind)), trace.WithAttributes(attributes(s.Attributes)...),
	}
	if l := s.Link; l != nil {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: spanContext(l.Trace, l.Span, l.Flags, "")}))
	}
	_, span := t.tracer.Start(ctx, s.Name, opts...)
	if c := s.Cancel; c != nil {
		span.AddEvent("cancelled", trace.WithTimestamp(time.Unix(0, c.At)), trace.WithAttributes(
			attribute.String("pawl.reason", c.Reason), attribute.String("pawl.by", c.By), attribute.String("pawl.text", c.Text),
			attribute.Float64("pawl.latency", c.Latency.Seconds()),
		))
	}
	if s.Failure != "" {
		span.SetStatus(codes.Error, s.Failure)
	}
	span.End(trace.WithTimestamp(time.Unix(0, s.End)))
}

func spanContext(id trace.TraceID, span trace.SpanID, flags byte, state string) trace.SpanContext {
	ts, err := trace.ParseTraceState(state)
	if err != nil {
		ts = trace.TraceState{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags), TraceState: ts, Remote: true})
}

func kind(k tracing.Kind) trace.SpanKind {
	switch k {
	case tracing.Producer:
		return trace.SpanKindProducer
	case tracing.Consumer:
		return trace.SpanKindConsumer
	default:
		return trace.SpanKindInternal
	}
}

func attributes(all []tracing.Attribute) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(all))
	for _, a := range all {
		if a.Text != "" {
			out = append(out, attribute.String(a.Key, a.Text))
		} else if a.Int != 0 {
			out = append(out, attribute.Int64(a.Key, a.Int))
		}
	}
	return out
}
