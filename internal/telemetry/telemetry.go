// Package telemetry exports the traces of the stock binaries, configured by the OTEL_* environment variables. Other programs create
// a provider of their own and use package pawlotel.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pawlrun/pawl/internal/build"
	"github.com/pawlrun/pawl/pawlotel"
)

// Provider is a tracer provider that can be closed.
type Provider struct {
	trace.TracerProvider
	sdk *sdktrace.TracerProvider // nil: nothing is exported
}

// Open returns the provider of a program. It records nothing unless OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. Exporters retry in the background, so an unreachable collector is no error.
func Open(ctx context.Context, service string, log *slog.Logger) (*Provider, error) {
	if !enabled() {
		return &Provider{TracerProvider: noop.NewTracerProvider()}, nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %w", err)
	}
	if autoexport.IsNoneSpanExporter(exporter) {
		return &Provider{TracerProvider: noop.NewTracerProvider()}, nil
	}
	own, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", build.Read().Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv()) // last, because the environment takes precedence
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces not exported", "error", err) }))
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(pawlotel.IDGenerator{}), sdktrace.WithResource(own))
	return &Provider{TracerProvider: tp, sdk: tp}, nil
}

func enabled() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// Enabled reports whether traces are exported.
func (p *Provider) Enabled() bool { return p.sdk != nil }

// ForceFlush exports all spans that have ended.
func (p *Provider) ForceFlush(ctx context.Context) error {
	if p.sdk == nil {
		return nil
	}
	return p.sdk.ForceFlush(ctx)
}

const shutdownTimeout = 5 * time.Second // maximum wait for the collector

// Close exports the remaining spans.
func (p *Provider) Close() {
	if p.sdk == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), shutdownTimeout)
	defer stop()
	_ = p.sdk.Shutdown(ctx) // the error handler also receives the error
}
