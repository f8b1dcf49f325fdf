package pawlfx_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/worker"
)

var encode = pawl.NewActivity[string, string]("encode")

type encoder struct{ format string }

func (e encoder) encode(_ context.Context, film string) (string, error) {
	return film + "." + e.format, nil
}

func ExampleRun() {
	os.Exit(pawlfx.Run(slog.Default(), // until SIGINT or SIGTERM
		pawlfx.Connections(
			func() (*nats.Conn, error) { return nats.Connect(nats.DefaultURL) },
			func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: "localhost:6379"}) },
		),
		pawlfx.Activities(func() []pawl.ActivityBinding {
			return []pawl.ActivityBinding{encode.Do(encoder{format: "mp4"}.encode)}
		}),
		pawlfx.Worker(worker.Config{Concurrency: 8}),
		pawlfx.HTTP("localhost:8080"), // health and metrics
	))
}
