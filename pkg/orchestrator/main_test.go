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
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
	"github.com/pawlrun/pawl/tests/stack"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// shared are the servers of all tests that neither stop, roll back nor count them. NATS is a process, which the race detector does not see.
var shared struct {
	sync.Once
	nats  *stack.NATS
	redis *redistest.Server
}

// stand is a namespace of a NATS and of a Redis, and what a test starts on them. Its end checks the invariants.
type stand struct {
	limitStand
	streamStand

	t     testing.TB
	nats  *nats.Conn
	redis redis.UniversalClient
	conn  *queue.Conn
	store *store.Store
	space redisx.Space
	ns    string
	log   *slog.Logger

	spoilt string            // an instance that the test has spoilt, and of which the check must say so
	srv    *server.Server    // nil, if it is shared
	server *redistest.Server // behind redis
}

// limitStand and streamStand are what a test reads of limits and of the streams, or does to them.
type (
	limitStand  struct{ *stand }
	streamStand struct{ *stand }
)

func newStand(t testing.TB) *stand {
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
	return open(&stand{t: t, nats: natstest.Dial(t, shared.nats.URL()), server: shared.redis})
}

// ownStand has servers of its own, which the test may stop, roll back and count.
func ownStand(t testing.TB) *stand {
	t.Helper()
	srv := natstest.Start(t)
	return open(&stand{t: t, srv: srv, nats: natstest.Dial(t, srv.ClientURL()), server: redistest.Start(t)})
}

func open(s *stand) *stand {
	t := s.t
	t.Helper()
	s.limitStand, s.streamStand = limitStand{s}, streamStand{s}
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
	if s.conn, err = queue.Open(s.ctx(), s.nats, queue.Options{Namespace: s.ns, Partitions: 8}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.conn.Close)
	t.Cleanup(s.check)
	return s
}

func (s streamStand) stream(name string) string { return "PAWL-" + s.ns + "-" + name }

func (s streamStand) subject(rest string) string { return "pawl." + s.ns + "." + rest }

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

func (s *stand) ctx() context.Context {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	s.t.Cleanup(stop)
	return ctx
}

// check is the invariant checker, as in production.
func (s *stand) check() {
	got, err := s.store.Check(s.ctx(), nil, nil)
	if err != nil {
		s.t.Errorf("check: %v", err)
	}
	spoilt := s.spoilt == ""
	for _, f := range got.Findings {
		if f.Instance == s.spoilt && s.spoilt != "" {
			spoilt = true
			continue
		}
		s.t.Errorf("invariant: %s", f)
	}
	gates := s.gates()
	for p := range 8 {
		names, err := gates.Scheduled(s.ctx(), p)
		if err != nil {
			s.t.Errorf("check: %v", err)
		}
		for _, name := range names {
			for _, err := range gates.Check(s.ctx(), name) {
				s.t.Errorf("invariant: %v", err)
			}
		}
	}
	if !spoilt {
		s.t.Errorf("the check finds nothing wrong with %s, which the test has spoilt", s.spoilt)
	}
}

func (s *stand) orchestrate(cfg orchestrator.Config, os ...pawl.OrchestrationBinding) *orchestrator.Orchestrator {
	s.t.Helper()
	cfg.NATS, cfg.Redis, cfg.Namespace, cfg.Partitions, cfg.Logger = s.nats, s.redis, s.ns, 8, s.log
	if cfg.ReconcileInterval == 0 {
		cfg.ReconcileInterval = time.Second
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

func (s *stand) stop(o interface{ Stop(context.Context) error }) {
	if err := o.Stop(s.ctx()); err != nil {
		s.t.Errorf("stop: %v", err)
	}
}

func (s *stand) work(cfg worker.Config, as ...pawl.ActivityBinding) *worker.Worker {
	s.t.Helper()
	cfg.NATS, cfg.Redis, cfg.Namespace, cfg.Logger = s.nats, s.redis, s.ns, s.log
	if cfg.LeaseTTL == 0 {
		cfg.LeaseTTL = 2 * time.Second
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

func (s *stand) publish(in queue.OutInput) {
	s.t.Helper()
	if _, err := s.conn.PublishInput(s.ctx(), in); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) start(name, id, json string) {
	s.t.Helper()
	s.publish(queue.OutInput{Instance: id, Kind: queue.KindStart, Name: name, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(json)}})
}

func (s *stand) event(name, id, json string) {
	s.t.Helper()
	s.publish(queue.OutInput{Instance: id, Kind: queue.KindEvent, Name: name, Payload: history.Payload{Type: history.TypeJSON, Data: []byte(json)}})
}

func (s *stand) describe(id string) *request.Description {
	s.t.Helper()
	d := new(request.Description)
	if err := request.Call(s.ctx(), s.conn, s.conn.PartitionOf(id), &request.Describe{Instance: id}, d); err != nil {
		return new(request.Description)
	}
	return d
}

// ended waits for the end of an instance.
func (s *stand) ended(id string) *request.Description {
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
	s.until("instance "+id+" ends", func() bool { d = s.describe(id); return store.Status(d.Status).Ended() })
	return d
}

func (s *stand) until(what string, ok func() bool) {
	s.t.Helper()
	poll.Until(s.t, 90*time.Second, what, ok)
}

func (s *stand) history(id string) []history.Event {
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
