package orchestrator_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

func ExampleNew() {
	var (
		ctx context.Context // ends when the process has to stop
		nc  *nats.Conn
		rdb redis.UniversalClient
	)
	remind := pawl.NewOrchestration[string, pawl.None]("remind")
	o, err := orchestrator.New(orchestrator.Config{NATS: nc, Redis: rdb, Retention: orchestrator.Retention{Failed: -1}}, // failed instances are kept forever
		remind.Do(func(ctx *pawl.Context, _ string) (pawl.None, error) {
			return pawl.None{}, pawl.Sleep(ctx, 24*time.Hour)
		}))
	if err != nil {
		panic(err)
	}
	if err := o.Start(ctx); err != nil {
		panic(err)
	}
	<-ctx.Done()
	_ = o.Stop(context.WithoutCancel(ctx)) // hands over its partitions
}

// Start waits for the stores until its context ends; Ready reports what it waits for.
func ExampleOrchestrator_Start() {
	var (
		ctx context.Context // ends when the process has to stop
		o   *orchestrator.Orchestrator
	)
	if err := o.Start(ctx); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	<-ctx.Done()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := o.Stop(limited); err != nil { // hands its partitions over, in milliseconds
		log.Print(err)
	}
}
