package queue_test

import (
	"log"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/queue"
)

// Options of nats.go override the defaults.
func ExampleDial() {
	nc, err := queue.Dial("nats://n1:4222,nats://n2:4222", nats.UserCredentials("shop.creds"))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
}
