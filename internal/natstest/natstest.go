// Package natstest starts NATS servers in the process of a test, and connections that are closed synchronously.
package natstest

import (
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/transport"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startTimeout is the timeout of the start of a server, for a loaded machine.
const startTimeout = 60 * time.Second

// Start starts a server with JetStream on a free port, in a temporary directory. change may set options before that. The server is shut
// down when the test ends.
func Start(tb testing.TB, change ...func(*server.Options)) *server.Server {
	tb.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: tb.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxStore: 1 << 40, // streams reserve their maximum size, and a small disk would not fit many namespaces
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
		tb.Fatal("nats-server does not accept connections")
	}
	return srv
}

// Dial connects with the options of production code. The connection is closed when the test ends.
func Dial(tb testing.TB, url string) *nats.Conn {
	tb.Helper()
	nc, err := transport.Dial(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(Closer(nc))
	return nc
}

// Closer returns a function that closes the connection, if necessary, and waits for its goroutines, which Close alone does not. It
// replaces the closed handler of the connection.
func Closer(nc *nats.Conn) func() {
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	return func() { nc.Close(); <-closed }
}
