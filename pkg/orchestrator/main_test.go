package orchestrator_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/stack"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// shared are the servers of all tests that do not stop, roll back or count them. NATS is a separate process, outside of the race detector.
var shared struct {
	sync.Once
	nats  *stack.NATS
	redis *redistest.Server
}

// harness is a namespace on a NATS server and a Redis, with everything that a test starts there. The end of the test checks the invariants.
type harness struct {
	limitHarness
	streamHarness

	t     testing.TB
	nats  *nats.Conn
	redis redis.UniversalClient
	conn  *transport.Conn
	store *store.Store
	space redisx.Space
	ns    string
	log   *slog.Logger

	corrupted string            // an instance that the test has corrupted, which the check must report
	srv       *server.Server    // nil if it is shared
	server    *redistest.Server // the server of redis
}

// limitHarness and streamHarness have the methods for limits and for the streams.
type (
	limitHarness  struct{ *harness }
	streamHarness struct{ *harness }
)

func newHarness(t testing.TB) *harness {
	t.Helper()
	shared.Do(func() {
		all := redistest.Lasting(t)
		bin := stack.Binaries{NATS: filepath.Join(all.TempDir(), "natsd")}
		if err := stack.GoBuild("-o", bin.NATS, "./tests/stack/natsd"); err != nil {
			t.Fatal(err)
		}
		shared.redis = redistest.Start(all)
		shared.nats = stack.StartNATS(all, bin, stack.SyncInterval)
	})
	if shared.nats == nil {
		t.Fatal("the shared servers did not start")
	}
	return open(&harness{t: t, nats: natstest.Dial(t, shared.nats.URL()), server: shared.redis})
}

// newOwnHarness has servers of its own, which the test may stop, roll back and count.
func newOwnHarness(t testing.TB) *harness {
	t.Helper()
	srv := natstest.Start(t)
	return open(&harness{t: t, srv: srv, nats: natstest.Dial(t, srv.ClientURL()), server: redistest.Start(t)})
}

func open(s *harness) *harness {
	t := s.t
	t.Helper()
	s.limitHarness, s.streamHarness = limitHarness{s}, streamHarness{s}
	s.ns, s.redis = redistest.Namespace(), s.server.Client(t)
	s.log = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: logLevel()}))
	run := redisx.NewRunner(s.redis)
	t.Cleanup(run.Close)
	s.space = redisx.NewSpace(s.ns)
	s.store = store.New(run, s.space)
	t.Cleanup(func() { // a stream reserves its limit, and a server has room for those of some dozens of tests
		for _, name := range []string{"INPUTS", "TASKS", "OBJECTS"} {
			_ = s.jetStream().DeleteStream(s.stream(name))
		}
	})
	var err error
	if s.conn, err = transport.Open(s.ctx(), s.nats, transport.Options{Namespace: s.ns, Partitions: 8}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.conn.Close)
	t.Cleanup(s.check)
	return s
}

func (s streamHarness) stream(name string) string { return "PAWL-" + s.ns + "-" + name }

func (s streamHarness) subject(rest string) string { return "pawl." + s.ns + "." + rest }

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("illegal transition")) {
		w.t.Errorf("%s", b)
	}
	if os.Getenv("PAWL_TEST_LOG") != "" {
		w.t.Log(string(b))
	}
	return len(b), nil
}

func (s *harness) ctx() context.Context {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	s.t.Cleanup(stop)
	return ctx
}

// check is the invariant checker, as in production.
func (s *harness) check() {
	got, err := s.store.Check(s.ctx(), nil, nil)
	if err != nil {
		s.t.Errorf("check: %v", err)
	}
	corrupted := s.corrupted == ""
	for _, f := range got.Findings {
		if f.Instance == s.corrupted && s.corrupted != "" {
			corrupted = true
			continue
		}
		s.t.Errorf("invariant: %s", f)
	}
	limits := s.limits()
	for p := range 8 {
		names, err := limits.Scheduled(s.ctx(), p)
		if err != nil {
			s.t.Errorf("check: %v", err)
		}
		for _, name := range names {
			for _, err := range limits.Check(s.ctx(), name) {
				s.t.Errorf("invariant: %v", err)
			}
		}
	}
	if !corrupted {
		s.t.Errorf("the check reports no problem of %s, which the test has corrupted", s.corrupted)
	}
}

func (s *harness) orchestrate(cfg orchestrator.Config, os ...pawl.OrchestrationBinding) *orchestrator.Orchestrator {
	s.t.Helper()
	cfg.NATS, cfg.Redis, cfg.Namespace, cfg.Partitions, cfg.Logger = s.nats, s.redis, s.ns, 8, s.log
	if cfg.ReconcileInterval == 0 {
		cfg.ReconcileInterval = time.Second
	}
	if cfg.OwnerTTL == 0 {
		cfg.OwnerTTL = 30 * time.Second // a machine that stalls for seconds costs no partition
	}
	o, err := orchestrator.New(cfg, os...)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := o.Start(s.ctx()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.stop(o) })
	return o
}

func (s *harness) stop(o interface{ Stop(context.Context) error }) {
	if err := o.Stop(s.ctx()); err != nil {
		s.t.Errorf("stop: %v", err)
	}
}

func (s *harness) work(cfg worker.Config, as ...pawl.ActivityBinding) *worker.Worker {
	s.t.Helper()
	cfg.NATS, cfg.Redis, cfg.Namespace, cfg.Logger = s.nats, s.redis, s.ns, s.log
	if cfg.LeaseTTL == 0 {
		cfg.LeaseTTL = 30 * time.Second // a machine that stalls for seconds ends no activity
	}
	w, err := worker.New(cfg, as...)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := w.Start(s.ctx()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.stop(w) })
	return w
}

func (s *harness) publish(in message.OutInput) {
	s.t.Helper()
	if _, err := s.conn.PublishInput(s.ctx(), in); err != nil {
		s.t.Fatal(err)
	}
}

func (s *harness) start(name, id, json string) {
	s.t.Helper()
	s.publish(message.OutInput{Instance: id, Kind: message.KindStart, Name: name, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(json)}})
}

func (s *harness) event(name, id, json string) {
	s.t.Helper()
	s.publish(message.OutInput{Instance: id, Kind: message.KindEvent, Name: name, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(json)}})
}

// describe describes an instance. The description is empty if there is no such instance.
func (s *harness) describe(id string) *request.Description {
	s.t.Helper()
	d := new(request.Description)
	if s.request(s.conn.PartitionOf(id), &request.Describe{Instance: id}, d) != nil {
		return new(request.Description)
	}
	return d
}

// ended waits for the end of an instance.
func (s *harness) ended(id string) *request.Description {
	s.t.Helper()
	var d *request.Description
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%+v", *d)
			for _, e := range s.history(id) {
				s.t.Logf("%T %+v", e, e)
			}
		}
	}()
	s.until("instance "+id+" ends", func() bool { d = s.describe(id); return record.Status(d.Status).Ended() })
	return d
}

func (s *harness) until(what string, ok func() bool) {
	s.t.Helper()
	poll.Until(s.t, 90*time.Second, what, ok)
}

func (s *harness) history(id string) []history.Event {
	s.t.Helper()
	p := s.conn.PartitionOf(id)
	rec, err := s.store.Record(s.ctx(), p, id)
	if err != nil || rec == nil {
		s.t.Fatalf("record of %s: %v, %v", id, rec, err)
	}
	events, err := s.store.History(s.ctx(), p, id, rec.Execution)
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

func logLevel() slog.Level {
	if os.Getenv("PAWL_TEST_LOG") == "debug" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
