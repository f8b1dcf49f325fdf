// Command plain is the program of docs/guide/processes.md: an orchestrator and a worker in one process, without fx.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

var (
	Welcome = pawl.NewOrchestration[string, string]("welcome-guest")
	Greet   = pawl.NewActivity[string, string]("greet-guest")
)

func welcome(ctx *pawl.Context, name string) (string, error) {
	return Greet.Call(ctx, name, pawl.Retry{Attempts: 5})
}

func greet(_ context.Context, name string) (string, error) { return "Welcome, " + name, nil }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) { // a signal ended the wait
		slog.Error("program ended", "error", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

func run(ctx context.Context) (err error) {
	nc, err := queue.DialContext(ctx, cmp.Or(os.Getenv("PAWL_NATS"), "nats://127.0.0.1:4222"))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("PAWL_REDIS"), "redis://127.0.0.1:7296"))
	if err != nil {
		return fmt.Errorf("read PAWL_REDIS: %w", err)
	}
	rdb := redis.NewClient(opts)
	defer func() { err = errors.Join(err, rdb.Close()) }()

	o, err := orchestrator.New(orchestrator.Config{NATS: nc, Redis: rdb, Namespace: "plain", Logger: slog.Default()}, Welcome.Do(welcome))
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{NATS: nc, Redis: rdb, Namespace: "plain", Logger: slog.Default()}, Greet.Do(greet))
	if err != nil {
		return err
	}

	if err := o.Start(ctx); err != nil { // waits for NATS and Redis; a signal ends the wait
		return err
	}
	defer func() { err = errors.Join(err, o.Stop(context.WithoutCancel(ctx))) }()
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop(context.WithoutCancel(ctx))) }()
	return serveHealth(ctx, o, w)
}

// serveHealth answers /readyz until ctx ends.
func serveHealth(ctx context.Context, o *orchestrator.Orchestrator, w *worker.Worker) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if err := errors.Join(o.Ready(), w.Ready()); err != nil {
			http.Error(rw, err.Error(), http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Addr: cmp.Or(os.Getenv("HTTP_ADDR"), "127.0.0.1:7295"), Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
