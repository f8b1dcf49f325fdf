// Package natstest gives a test a NATS server in its own process, and connections to
// it whose end is waited for.
package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/queue"
)

// startTimeout bounds the start of a server on a loaded machine.
const startTimeout = 60 * time.Second

// Start starts a server with JetStream on a free port, in a directory of the test's. It
// is shut down when the test ends. change may set options before that.
func Start(tb testing.TB, change ...func(*server.Options)) *server.Server {
	tb.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: tb.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxStore: 1 << 40, // streams reserve their limit, and a small disk has no room for many namespaces
	}
	for _, f := range change {
		f(o)
	}
	srv, err := server.NewServer(o)
	if err != nil {
		tb.Fatal(err)
	}
	srv.Start()
	tb.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(startTimeout) {
		tb.Fatal("nats-server does not take connections")
	}
	return srv
}

// Dial connects as the fleets do. The connection is closed when the test ends.
func Dial(tb testing.TB, url string) *nats.Conn {
	tb.Helper()
	nc, err := queue.Dial(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(Closer(nc))
	return nc
}

// Closer gives the function that closes the connection, unless it is, and waits for its
// goroutines: Close alone does not. It takes the connection's handler for that.
func Closer(nc *nats.Conn) func() {
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	return func() { nc.Close(); <-closed }
}
