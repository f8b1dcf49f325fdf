package queue_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Options of nats.go override the defaults.
func ExampleDial() {
	nc, err := queue.Dial("nats://n1:4222,nats://n2:4222", nats.UserCredentials("shop.creds"))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
}

// Ctrl-C ends the program also while it waits for a server that does not reply.
func ExampleDialContext() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	nc, err := queue.DialContext(ctx, "nats://127.0.0.1:4222")
	if err != nil {
		log.Print(err)
		return
	}
	defer nc.Close()
}

// An orchestrator and a worker of one process exchange tasks without NATS.
func ExampleNewLocal() {
	local := queue.NewLocal()
	_, _ = orchestrator.Config{Local: local}, worker.Config{Local: local}
}
