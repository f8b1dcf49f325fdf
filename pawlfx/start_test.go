package pawlfx_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/stack"
)

// program is an orchestrator or a worker in a process of its own: the test binary, whose TestMain calls run.
type program struct {
	NATS, Redis string
	Namespace   string
	Partitions  int
	Worker      bool // otherwise an orchestrator
}

func (p program) run() error {
	opts := pawlfx.Connections(
		settings.NATS{NATSURL: settings.URL(p.NATS)}.DialNATS,
		settings.Redis{RedisURL: settings.URL(p.Redis)}.DialRedis,
	)
	logger := settings.Log{LogLevel: "info"}.Open(os.Stderr)
	var code int
	if p.Worker {
		code = pawlfx.Run(logger, opts, pawlfx.Activities(examples.Activities),
			pawlfx.Worker(worker.Config{Namespace: p.Namespace, Partitions: p.Partitions}))
	} else {
		code = pawlfx.Run(logger, opts, pawlfx.Orchestrations(examples.Orchestrations),
			pawlfx.Orchestrator(orchestrator.Config{Namespace: p.Namespace, Partitions: p.Partitions}))
	}
	if code != 0 {
		return fmt.Errorf("code %d", code)
	}
	return nil
}

// silent starts a server that accepts connections and sends nothing. The channel receives an element per connection.
func silent(t *testing.T) (addr string, taken <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp4", ":0") // at every address of loopback
	if err != nil {
		t.Fatal(err)
	}
	conns, done := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(done)
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
			conns <- struct{}{}
		}
		for _, c := range open {
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "127.0.0.1:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port), conns //nolint:forcetypeassert // of a TCP listener
}

// Regression: a signal that arrived before fx had started the program killed the process, or was lost if main itself handled signals.
func TestSignalWhileTheFirstServerIsDialledEndsTheProgram(t *testing.T) {
	t.Parallel()
	addr, taken := silent(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	servers := "nats://" + addr // each of them is given two seconds
	for n := range 19 {
		servers += fmt.Sprintf(",nats://127.0.0.%d:%s", n+2, port)
	}
	p := stack.StartMember(t, "orchestrator", program{NATS: servers, Redis: "redis://" + addr})
	select {
	case <-taken:
	case <-p.Ended():
		t.Fatal("it has ended")
	}
	if took := ended(t, p); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestSignalEndsAProgramThatWaitsAtItsStart(t *testing.T) {
	t.Parallel()
	away := freeAddress(t)
	hanging, _ := silent(t)
	srv, mini := natstest.Start(t), miniredis.RunT(t)
	for name, c := range map[string]struct {
		program
		waits string
	}{
		"Redis is not there":    {program{NATS: "nats://" + away, Redis: "redis://" + away}, "waiting for redis"},
		"Redis hangs":           {program{NATS: srv.ClientURL(), Redis: "redis://" + hanging, Worker: true}, "waiting for redis"},
		"NATS is not there":     {program{NATS: "nats://" + away, Redis: "redis://" + mini.Addr()}, "waiting for nats"},
		"there is no namespace": {program{NATS: srv.ClientURL(), Redis: "redis://" + mini.Addr(), Worker: true}, "waiting for an orchestrator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := stack.StartMember(t, "fleet", c.program)
			for try := 1; ; try++ { // a loaded machine may delay some
				poll.Until(t, time.Minute, c.waits, func() bool { return strings.Count(p.Log(), "msg=\""+c.waits) >= try })
				took := ended(t, p)
				if took <= 5*time.Second { // none of Pawl's timeouts at the start is so short in sum
					break
				}
				if try == 3 {
					t.Errorf("it took %v", took)
					break
				}
				p.Start()
			}
		})
	}
}

// ended sends a signal to a program, checks that it ends with success, and returns how long it took.
func ended(t *testing.T, p *stack.Process) (took time.Duration) {
	t.Helper()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	p.Stopped()
	took = time.Since(began)
	if out := p.Log(); !strings.Contains(out, "stopping") || strings.Contains(out, "level=ERROR") {
		t.Errorf("it logged:\n%s", out)
	}
	return took
}

func TestMisconfigurationFailsTheStartWithAdvice(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	locked := natstest.Start(t, func(o *server.Options) { o.Username, o.Password = "u", "right" })
	without := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	mini, lockedMini := miniredis.RunT(t), miniredis.RunT(t)
	lockedMini.RequireAuth("right")
	evicting := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	nats, redis := srv.ClientURL(), "redis://"+mini.Addr()
	hostPort := func(url string) string { return strings.TrimPrefix(url, "nats://") }

	js, err := jetstream.New(natstest.Dial(t, nats))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "PAWL-foreign-INPUTS", Subjects: []string{"pawl.foreign.>"}}); err != nil {
		t.Fatal(err)
	}
	mini.HSet("pawl:{sixteen}:meta", "partitions", "16")

	for name, c := range map[string]struct {
		program
		want []string
	}{
		"password of Redis":        {program{NATS: nats, Redis: "redis://:wrong@" + lockedMini.Addr()}, []string{"WRONGPASS"}},
		"no password for Redis":    {program{NATS: nats, Redis: "redis://" + lockedMini.Addr(), Worker: true}, []string{"NOAUTH"}},
		"certificate of Redis":     {program{NATS: nats, Redis: "rediss://" + untrusted.Listener.Addr().String()}, []string{"x509: "}},
		"Redis evicts keys":        {program{NATS: nats, Redis: "redis://" + evicting.Addr}, []string{"allkeys-lru", "set it to noeviction"}},
		"password of NATS":         {program{NATS: "nats://u:wrong@" + hostPort(locked.ClientURL()), Redis: redis}, []string{"Authorization Violation"}},
		"TLS to a NATS without it": {program{NATS: "tls://" + hostPort(nats), Redis: redis, Worker: true}, []string{"secure connection not available"}},
		"NATS has no JetStream":    {program{NATS: without.ClientURL(), Redis: redis}, []string{"start nats-server with -js"}},
		"stream of another kind":   {program{NATS: nats, Redis: redis, Namespace: "foreign"}, []string{"PAWL-foreign-INPUTS"}},
		"number of partitions":     {program{NATS: nats, Redis: redis, Namespace: "sixteen", Partitions: 8}, []string{"16 partitions, not 8", "set it to 16"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := stack.StartMember(t, "fleet", c.program)
			select {
			case <-p.Ended():
			case <-time.After(time.Minute):
				t.Fatalf("it waits:\n%s", p.Log())
			}
			out := p.Log()
			if strings.Contains(out, "waiting for") || !strings.Contains(out, "fleet: code 1") || strings.Contains(out, "wrong@") {
				t.Errorf("it logged:\n%s", out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("want %q in\n%s", want, out)
				}
			}
		})
	}
}
