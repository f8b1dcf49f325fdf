package pawlotel_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawlotel"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

var charge = pawl.NewActivity[int, string]("charge")

func ExampleNewTracer() {
	tp := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(pawlotel.IDGenerator{})) // and with an exporter
	defer func() { _ = tp.Shutdown(context.Background()) }()
	tracer, err := pawlotel.NewTracer(tp)
	if err != nil {
		panic(err)
	}
	_ = orchestrator.Config{Tracer: tracer}
	_ = worker.Config{Interceptors: []worker.Interceptor{pawlotel.WorkerInterceptor(tp)}}

	other := sdktrace.NewTracerProvider() // its ids are random: a replay would repeat each span under another one
	defer func() { _ = other.Shutdown(context.Background()) }()
	_, err = pawlotel.NewTracer(other)
	fmt.Println(tracer != nil, errors.Is(err, pawlotel.ErrIDGenerator))
	// Output: true true
}

// The spans of an instance continue the trace of the context in which it was started, and so do those of its activities.
func ExampleClientInterceptor() {
	nc, err := queue.Dial("nats://127.0.0.1:4222")
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	tp := sdktrace.NewTracerProvider() // and with an exporter
	c, err := client.New(context.Background(), nc, client.Options{Interceptors: []client.Interceptor{pawlotel.ClientInterceptor(tp)}})
	if err != nil {
		log.Print(err)
		return
	}
	defer c.Close()
}

// The span of an activity is the parent of the spans that its code makes with the context.
func ExampleWorkerInterceptor() {
	tp := sdktrace.NewTracerProvider() // and with an exporter
	defer func() { _ = tp.Shutdown(context.Background()) }()
	w, err := worker.New(worker.Config{
		Interceptors: []worker.Interceptor{pawlotel.WorkerInterceptor(tp)}, // and the connections
	}, charge.Do(func(ctx context.Context, cents int) (string, error) {
		_, span := tp.Tracer("shop").Start(ctx, "call the bank")
		defer span.End()
		return fmt.Sprintf("%d cents", cents), nil
	}))
	if err != nil {
		log.Print(err)
		return
	}
	_ = w.Start(context.Background())
}

func ExampleLogHandler() {
	tp := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(pawlotel.IDGenerator{}))
	defer func() { _ = tp.Shutdown(context.Background()) }()
	logger := slog.New(pawlotel.LogHandler(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey:
				return slog.Attr{}
			case "trace_id", "span_id":
				return slog.Int(a.Key, len(a.Value.String())) // the example shows how long they are
			}
			return a
		},
	})))
	ctx, span := tp.Tracer("shop").Start(context.Background(), "order")
	defer span.End()
	logger.InfoContext(ctx, "paid", "order", 7)
	// Output: level=INFO msg=paid order=7 trace_id=32 span_id=16
}
