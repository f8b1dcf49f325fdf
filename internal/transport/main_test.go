package transport

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a nats-server that a test may stop and restart, keeping its files.
type harness struct {
	t     testing.TB
	dir   string
	port  int
	plain bool // without JetStream
	alone bool // in a cluster whose other servers are absent

	password string // of user u; empty: anyone may connect
	srv      *server.Server
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	s := &harness{t: t, dir: t.TempDir(), port: freeport.Take(t)} // no other server can take the port during a restart
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *harness) start() {
	s.t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: s.port, JetStream: !s.plain, StoreDir: s.dir, NoSigs: true, NoLog: true, JetStreamMaxStore: 1 << 40}
	if s.password != "" {
		o.Username, o.Password = "u", s.password
	}
	if s.alone {
		o.ServerName, o.Cluster, o.Routes = "one", server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: -1}, server.RoutesFromStr("nats://127.0.0.1:1")
	}
	srv, err := server.NewServer(o)
	if err != nil {
		s.t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		s.t.Fatal("nats-server does not start")
	}
	s.srv = srv
	if addr, ok := srv.Addr().(*net.TCPAddr); ok {
		s.port = addr.Port
	}
}

func (s *harness) stop() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

func (s *harness) dial() *nats.Conn {
	s.t.Helper()
	nc, err := Dial(s.srv.ClientURL())
	if err != nil {
		s.t.Fatal(err)
	}
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	s.t.Cleanup(func() { nc.Close(); <-closed })
	return nc
}

func (s *harness) open(o Options) *Conn {
	s.t.Helper()
	if o.Partitions == 0 {
		o.Partitions = 4
	}
	if o.PublishTimeout == 0 {
		o.PublishTimeout = time.Minute // a slow machine is no reason for an unknown outcome
	}
	if o.Logger == nil && testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c, err := Open(soon(s.t), s.dial(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// soon returns a context with the timeout of a test.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func get[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("timed out waiting for %s", what)
		panic("unreachable")
	}
}

// eventually polls until ok, for conditions that can only be observed from outside.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	poll.Until(t, 60*time.Second, what, ok)
}

// unanswered publishes a message that is not answered, and returns a channel that is closed when c has handled the loss of its connection.
// What is published earlier has an unknown outcome.
func unanswered(t testing.TB, c *Conn) <-chan struct{} {
	t.Helper()
	sub, err := c.nc.Subscribe("unanswered", func(*nats.Msg) {})
	ok(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	ended := make(chan struct{})
	c.toTasks.publish("unanswered", nil, nil, func(uint64, error) { close(ended) })
	return ended
}

func event(instance, name, json string) message.OutInput {
	return message.OutInput{Instance: instance, Kind: message.KindEvent, Name: name, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(json)}}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read collects n inputs of a reader, and checks that their positions ascend.
func read(t testing.TB, r *Reader, n int) []message.Input {
	t.Helper()
	var all []message.Input
	var last uint64
	for len(all) < n {
		select {
		case b := <-r.Batches():
			for _, in := range b {
				if in.Pos.Seq <= last {
					t.Fatalf("sequence %d after %d", in.Pos.Seq, last)
				}
				last = in.Pos.Seq
			}
			all = append(all, b...)
		case <-r.Done():
			t.Fatalf("the reader ended after %d of %d: %v", len(all), n, r.Err())
		case <-time.After(time.Minute):
			t.Fatalf("timed out waiting for input %d of %d", len(all)+1, n)
		}
	}
	return all
}

// names returns the names of the inputs, in order.
func names(in []message.Input) []string {
	out := make([]string, len(in))
	for i := range in {
		out[i] = in[i].Name
	}
	return out
}
