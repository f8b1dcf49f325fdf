// Command first is the program of docs/guide/first-orchestration.md: one process that runs an orchestration and its activity, next to the
// servers of pawl dev.
package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

var (
	Invite = pawl.NewOrchestration[Guest, string]("invite")
	Write  = pawl.NewActivity[Guest, pawl.None]("write-invitation")
	Reply  = pawl.NewEvent[string]("reply")
)

type Guest struct {
	Name string `json:"name"`
}

func invite(ctx *pawl.Context, g Guest) (string, error) {
	if _, err := Write.Call(ctx, g, pawl.Retry{}); err != nil {
		return "", err
	}
	answer, ok, err := Reply.ReceiveWithin(ctx, 7*24*time.Hour)
	if err != nil {
		return "", err
	}
	if !ok {
		return g.Name + " has not answered", nil
	}
	return g.Name + ": " + answer, nil
}

func write(ctx context.Context, g Guest) (pawl.None, error) {
	slog.InfoContext(ctx, "Dear "+g.Name+", please come on Friday.", "attempt", pawl.Info(ctx).Attempt)
	return pawl.None{}, nil
}

func main() {
	os.Exit(pawlfx.Run(slog.Default(),
		pawlfx.Connections(openNATS, openRedis),
		pawlfx.Orchestrations(func() []pawl.OrchestrationBinding {
			return []pawl.OrchestrationBinding{Invite.Do(invite)}
		}),
		pawlfx.Activities(func() []pawl.ActivityBinding {
			return []pawl.ActivityBinding{Write.Do(write)}
		}),
		pawlfx.Orchestrator(orchestrator.Config{Namespace: "first"}),
		pawlfx.Worker(worker.Config{Namespace: "first"}),
	))
}

func openNATS() (*nats.Conn, error) {
	return nats.Connect(cmp.Or(os.Getenv("PAWL_NATS"), "nats://127.0.0.1:4222"), nats.MaxReconnects(-1))
}

func openRedis() (redis.UniversalClient, error) {
	opts, err := redis.ParseURL(cmp.Or(os.Getenv("PAWL_REDIS"), "redis://127.0.0.1:7296"))
	if err != nil {
		return nil, err
	}
	return redis.NewClient(opts), nil
}
