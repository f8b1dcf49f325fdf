package worker_test

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/worker"
)

var encode = pawl.NewActivity[string, string]("encode")

func ExampleNew() {
	var (
		ctx context.Context // ends when the process has to stop
		nc  *nats.Conn
		rdb redis.UniversalClient
	)
	w, err := worker.New(worker.Config{NATS: nc, Redis: rdb, Concurrency: 8, Drain: 20 * time.Second},
		encode.Do(func(_ context.Context, film string) (string, error) { return film + ".mp4", nil }).WithGrace(time.Minute))
	if err != nil {
		panic(err)
	}
	if err := w.Start(ctx); err != nil {
		panic(err)
	}
	<-ctx.Done()
	_ = w.Stop(context.WithoutCancel(ctx)) // running activities may finish
}

// Stop lets running activities finish for Config.Drain, and then cancels the others.
func ExampleWorker_Start() {
	var (
		ctx context.Context // ends when the process has to stop
		w   *worker.Worker
	)
	if err := w.Start(ctx); err != nil {
		panic(err)
	}
	<-ctx.Done()
	for _, a := range w.Running() {
		println("waiting for", a.Name, a.Instance)
	}
	_ = w.Stop(context.WithoutCancel(ctx))
}

func ExampleWorker_Abandoned() {
	var w *worker.Worker
	for _, a := range w.Abandoned() {
		println(a.Name, a.Instance, time.Since(a.Since).String()) // ignores that its context has ended
	}
}
