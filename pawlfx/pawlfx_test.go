package pawlfx_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/nats-io/nats.go"

	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/examples"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/embedded"
	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/stack"
)

func TestMain(m *testing.M) { stack.Main(m, program.run) }

// connections returns the connections to a new embedded stack.
func connections(t *testing.T) fx.Option {
	t.Helper()
	s, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return pawlfx.Connections(
		func() (*nats.Conn, error) { return transport.Dial(s.NATSURL()) },
		func() (redis.UniversalClient, error) {
			o, err := redis.ParseURL(s.RedisURL())
			return redis.NewClient(o), err
		},
	)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Take(t)))
}

func start(t *testing.T, app *fx.App) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(app.Err(), app.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			if err := app.Stop(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func hello(t *testing.T, conn *transport.Conn) {
	t.Helper()
	in, err := author.Input(examples.Hello).Encode("Ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = conn.PublishInput(t.Context(), message.OutInput{Instance: "h", Kind: message.KindStart, Name: "hello", Payload: in}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll.Until(t, time.Minute, what, ok)
}

func TestProgramOfBothRolesRunsAnOrchestrationAndStopsInOrder(t *testing.T) {
	addr, profiles := freeAddress(t), freeAddress(t)
	var nc *nats.Conn
	stop := start(t, pawlfx.New(slog.New(slog.DiscardHandler),
		connections(t),
		pawlfx.Worker(worker.Config{}),
		pawlfx.Orchestrator(orchestrator.Config{Partitions: 4}),
		pawlfx.Orchestrations(examples.Orchestrations),
		fx.Supply(greeting("Hello, ")),
		pawlfx.Activities(func(g greeting) []pawl.ActivityBinding {
			return []pawl.ActivityBinding{examples.Greet.Do(g.greet)}
		}),
		pawlfx.HTTP(addr),
		pawlfx.Profiles(profiles),
		fx.Populate(&nc),
	))
	eventually(t, "ready", func() bool { code, _ := get(t, "http://"+addr+"/readyz"); return code == http.StatusOK })

	conn, err := transport.Join(t.Context(), nc, transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hello(t, conn)
	var out string
	eventually(t, "the answer", func() bool {
		var r request.Answered
		err := request.Call(t.Context(), conn, conn.PartitionOf("h"), &request.Await{Instance: "h"}, &r)
		if err != nil || r.Answer == nil || r.Answer.Problem != nil {
			return false
		}
		out, err = author.Result(examples.Hello).Decode(r.Answer.Result)
		return err == nil
	})
	if out != "Hello, Ada" {
		t.Errorf("%q", out)
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/metrics": `pawl_orchestrator_instances_started_total{namespace="default",orchestration="hello"} 1`,
	} {
		eventually(t, path+" has "+want, func() bool { // the answer may precede the count
			code, body := get(t, "http://"+addr+path)
			return code == http.StatusOK && strings.Contains(body, want)
		})
	}
	eventually(t, "the sample of the task queue", func() bool {
		_, body := get(t, "http://"+addr+"/metrics")
		return strings.Contains(body, `pawl_queue_tasks{namespace="default",queue="greet"} 0`) &&
			strings.Contains(body, `pawl_orchestrator_instances{namespace="default",status="running"} 0`)
	})
	if code, body := get(t, "http://"+profiles+"/debug/pprof/goroutine?debug=1"); code != http.StatusOK || !strings.Contains(body, "goroutine profile") {
		t.Errorf("profiles: %d %s", code, body)
	}
	if code, body := get(t, "http://"+addr+"/api/v1/actions/greet/queue-stats"); code != http.StatusNotFound || !strings.Contains(body, "greet has no limit in use") {
		t.Errorf("the API: %d %s", code, body)
	}
	stop()
	if code, _ := get(t, "http://"+addr+"/healthz"); code != 0 {
		t.Error("the HTTP server is still there")
	}
	if !nc.IsClosed() {
		t.Error("the NATS connection is still open")
	}
}

type greeting string

func (g greeting) greet(_ context.Context, name string) (string, error) { return string(g) + name, nil }

func TestProgramWithoutAnOrchestratorHasNoAPI(t *testing.T) {
	addr := freeAddress(t)
	start(t, pawlfx.New(slog.New(slog.DiscardHandler), pawlfx.HTTP(addr)))
	if code, body := get(t, "http://"+addr+"/healthz"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get(t, "http://"+addr+"/api/v1/actions/greet/queue-stats"); code != http.StatusNotFound || strings.Contains(body, "{") {
		t.Errorf("%d %s", code, body)
	}
}

func TestStoppingProcessIsLiveAndNotReady(t *testing.T) {
	addr, release, stopped := freeAddress(t), make(chan struct{}), make(chan struct{})
	running := make(chan struct{})
	var nc *nats.Conn
	stop := start(t, pawlfx.New(slog.New(slog.DiscardHandler),
		connections(t),
		pawlfx.Orchestrator(orchestrator.Config{Partitions: 1}),
		pawlfx.Orchestrations(examples.Orchestrations),
		pawlfx.Worker(worker.Config{}),
		pawlfx.Activities(func() []pawl.ActivityBinding {
			return []pawl.ActivityBinding{examples.Greet.Do(func(context.Context, string) (string, error) {
				close(running)
				<-release
				return "", nil
			})}
		}),
		pawlfx.HTTP(addr),
		fx.Populate(&nc),
	))
	conn, err := transport.Join(t.Context(), nc, transport.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hello(t, conn)
	<-running
	go func() { stop(); close(stopped) }()
	eventually(t, "not ready", func() bool {
		code, body := get(t, "http://"+addr+"/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "stopping")
	})
	if code, _ := get(t, "http://"+addr+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	close(release)
	<-stopped
}

func TestProgramThatWaitsForServersCanBeStopped(t *testing.T) {
	away, addr := freeAddress(t), freeAddress(t)
	waits := &notices{of: "waiting for redis", seen: make(chan struct{})}
	joined := make(chan struct{})
	code := pawlfx.Run(slog.New(slog.NewTextHandler(waits, nil)),
		pawlfx.Connections(
			func() (*nats.Conn, error) { return transport.Dial("nats://" + away) },
			func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: away}) },
		),
		pawlfx.Orchestrations(examples.Orchestrations),
		pawlfx.Orchestrator(orchestrator.Config{}),
		pawlfx.HTTP(addr),
		fx.Invoke(func(s fx.Shutdowner) {
			go func() {
				defer close(joined)
				<-waits.seen
				code, body := get(t, "http://"+addr+"/readyz")
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for deadline := time.Now().Add(time.Minute); code == 0 && time.Now().Before(deadline); { // the HTTP server may start later
					<-tick.C
					code, body = get(t, "http://"+addr+"/readyz")
				}
				if code != http.StatusServiceUnavailable || !strings.Contains(body, "orchestrator: waiting for redis: ") {
					t.Errorf("/readyz: %d %s", code, body)
				}
				_ = s.Shutdown()
			}()
		}),
	)
	if <-joined; code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestRefusedPasswordIsOneLineAndCodeOne(t *testing.T) {
	mini := miniredis.RunT(t)
	mini.RequireAuth("right")
	var b bytes.Buffer
	code := pawlfx.Run(slog.New(slog.NewTextHandler(&b, nil)),
		pawlfx.Connections(
			func() (*nats.Conn, error) { return transport.Dial("nats://" + freeAddress(t)) },
			func() redis.UniversalClient {
				return redis.NewClient(&redis.Options{Addr: mini.Addr(), Password: "wrong"})
			},
		),
		pawlfx.Orchestrations(examples.Orchestrations),
		pawlfx.Orchestrator(orchestrator.Config{}),
	)
	if code != 1 || strings.Count(b.String(), "\n") != 1 || !strings.Contains(b.String(), "WRONGPASS") || strings.Contains(b.String(), "fx") {
		t.Errorf("code %d, log:\n%s", code, b.String())
	}
}

// notices is a log writer that signals when a line was logged.
type notices struct {
	of   string
	seen chan struct{}
	once sync.Once
}

func (n *notices) Write(b []byte) (int, error) {
	if strings.Contains(string(b), n.of) {
		n.once.Do(func() { close(n.seen) })
	}
	return len(b), nil
}

func TestWorkerThatWaitsForItsNamespaceCanBeStopped(t *testing.T) {
	waits := &notices{of: "waiting for an orchestrator", seen: make(chan struct{})}
	joined := make(chan struct{})
	code := pawlfx.Run(slog.New(slog.NewTextHandler(waits, nil)),
		connections(t),
		pawlfx.Worker(worker.Config{}),
		pawlfx.Activities(examples.Activities),
		fx.Invoke(func(s fx.Shutdowner) {
			go func() {
				defer close(joined)
				<-waits.seen
				_ = s.Shutdown()
			}()
		}),
	)
	if <-joined; code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestFailedStartReportsItsReasonAndLeavesNothingRunning(t *testing.T) {
	var b bytes.Buffer
	code := pawlfx.Run(slog.New(slog.NewTextHandler(&b, nil)), pawlfx.HTTP("127.0.0.1:no-port"))
	if code != 1 || strings.Count(b.String(), "\n") != 1 || !strings.Contains(b.String(), "no-port") {
		t.Errorf("code %d, log:\n%s", code, b.String())
	}
}

func TestProgramWithoutRegistrationsReportsIt(t *testing.T) {
	app := pawlfx.New(slog.New(slog.DiscardHandler), pawlfx.Worker(worker.Config{}),
		fx.Supply(&nats.Conn{}), fx.Provide(func() redis.UniversalClient { return &redis.Client{} }))
	if !errors.Is(app.Err(), worker.ErrNothingRegistered) {
		t.Errorf("%v", app.Err())
	}
}
