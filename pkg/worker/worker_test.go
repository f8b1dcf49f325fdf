package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/worker"
)

var nothing history.Payload

func encoded(t testing.TB, s string) history.Payload {
	t.Helper()
	p, err := author.Input(pawl.NewActivity[string, string]("x")).Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// counted returns the value of the first counter or gauge with the name and label values.
func counted(t testing.TB, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metric:
		for _, m := range f.GetMetric() {
			for _, want := range labels {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetValue() == want
				}
				if !found {
					continue metric
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return 0
}

func TestActivityRunsAndItsCompletionIsInTheInbox(t *testing.T) {
	o := newOwner(t)
	cfg, reg := o.config(), prometheus.NewRegistry()
	cfg.Metrics, cfg.Name = reg, "w1"
	infos := make(chan pawl.ActivityInfo, 1)
	o.start(cfg, pawl.NewActivity[string, string]("greet").Do(func(ctx context.Context, name string) (string, error) {
		infos <- pawl.Info(ctx)
		return "hello " + name, nil
	}))
	task := o.schedule("greet", "greet", encoded(t, "world"))
	doorbells := make(chan message.Doorbell, 1)
	sub, err := o.conn.OnDoorbells(o.ref(task).Part, func(b []message.Doorbell) { doorbells <- b[0] })
	o.must(err)
	t.Cleanup(sub.Stop)
	o.publish(task)

	c := o.completed(task)
	if c.Worker != "w1" || c.Claims != 1 || string(c.Result.Data) != string(encoded(t, "hello world").Data) || c.At < 1e12 {
		t.Fatalf("completion %+v", c)
	}
	if l := o.lease(task); len(l) > 0 {
		t.Fatalf("the lease still exists: %v", l)
	}
	want := pawl.ActivityInfo{
		Instance: task.Instance, Execution: 1, Activity: task.Activity, Name: "greet", Queue: "greet",
		Worker: "w1", Attempt: 1, Claim: 1, Key: task.Effect, AttemptKey: task.Effect, Grace: pawl.DefaultGrace,
	}
	if got := <-infos; got != want {
		t.Fatalf("info %+v", got)
	}
	select {
	case b := <-doorbells:
		e, err := eventcodec.ParseElement(b.Element)
		if err != nil || b.Instance != task.Instance || e.At != c.At {
			t.Fatalf("doorbell %+v, %v", b, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("no doorbell")
	}
	o.drained("greet")
	o.until("counted", func() bool { return counted(t, reg, "pawl_worker_activities_total", "greet", "completed") == 1 })
	if counted(t, reg, "pawl_worker_tasks_total", "acquired") != 1 {
		t.Fatal("the claim is not counted")
	}
}

func TestFailuresOfEveryKindReachTheInbox(t *testing.T) {
	o := newOwner(t)
	big := strings.Repeat("x", transport.MaxPayload+1)
	o.start(o.config(), pawl.NewActivity[string, string]("fail").Do(func(_ context.Context, how string) (string, error) {
		switch how {
		case "error":
			return "", pawl.NewError("card-declined")
		case "panic":
			panic("out of stock")
		case "goexit":
			runtime.Goexit()
		case "large":
			return big, nil
		}
		return "", nil
	}))
	for how, code := range map[string]string{
		"error": "card-declined", "panic": history.CodePanic, "goexit": history.CodePanic, "large": history.CodeTooLarge,
	} {
		if f := o.failed(o.send("fail", encoded(t, how))); f.Failure.Code != code || f.Claims != 1 {
			t.Errorf("%s: %+v", how, f.Failure)
		}
	}
	f := o.failed(o.send("fail", history.Payload{Type: history.TypeJSON, Data: []byte("{")}))
	if f.Failure.Code != history.CodeUndecodable {
		t.Errorf("undecodable: %+v", f.Failure)
	}
}

func TestActivityCancelledBeforeItsClaimNeverStarts(t *testing.T) {
	o := newOwner(t)
	b, reg := newBlocking(), prometheus.NewRegistry()
	cfg := o.config()
	cfg.Metrics = reg
	o.start(cfg, b.do("block"))
	task := o.schedule("block", "block", nothing)
	o.must(o.rdb.Del(context.Background(), o.leaseKey(task)).Err())
	o.publish(task)
	o.until("counted", func() bool { return counted(t, reg, "pawl_worker_tasks_total", "gone") >= 1 }) // a redelivered task is counted twice
	o.drained("block")
	if b.runs.Load() > 0 {
		t.Fatal("the handler was started")
	}
}

func TestHintCancelsARunningActivityAndItsResultIsDropped(t *testing.T) {
	o := newOwner(t)
	b, reg := newBlocking(), prometheus.NewRegistry()
	cfg := o.config()
	cfg.Metrics, cfg.LeaseTTL = reg, time.Hour
	w := o.start(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	if r := w.Running(); len(r) != 1 || r[0].Instance != task.Instance || r[0].Activity != task.Activity || r[0].Stopped {
		t.Fatalf("running %+v", r)
	}
	o.must(o.rdb.Del(context.Background(), o.leaseKey(task)).Err())
	o.must(o.conn.SendHints(w.Name(), []message.Hint{{
		Instance: task.Instance, Execution: 1, Activity: task.Activity, Effect: task.Effect,
		Reason: cancel.Requested, By: "ops", Text: "fraud", At: 1_790_000_000_000,
	}}))
	if c := o.cancelCause(b); c.Error() != "cancelled: requested by ops: fraud" || c.At.UnixMilli() != 1_790_000_000_000 {
		t.Fatalf("cause %+v", c)
	}
	o.until("counted", func() bool { return counted(t, reg, "pawl_worker_activities_total", "cancelled") == 1 })
	if n := counted(t, reg, "pawl_worker_activities_total", "failed"); n != 0 {
		t.Fatal("a cancelled activity is counted as a failure")
	}
	if in := o.inbox(task); len(in) > 0 {
		t.Fatalf("a completion after the cancellation: %+v", in)
	}
}

func TestRenewalFindsTheReasonWithoutAHint(t *testing.T) {
	t.Parallel() // mostly waits
	o := newOwner(t)
	b := newBlocking()
	cfg := o.config()
	cfg.LeaseTTL = 6 * time.Second // renewed every two seconds
	o.start(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	ctx := context.Background()
	for _, e := range []history.Event{
		&history.ActivityCancelRequested{Scheduled: task.Activity + 1, Reason: cancel.Purged},
		&history.ActivityCancelRequested{Scheduled: task.Activity, Reason: cancel.LostSelect, Text: "deadline won"},
		&history.Completed{},
	} {
		raw, err := eventcodec.Encode(e)
		o.must(err)
		o.must(o.rdb.RPush(ctx, o.part(task).History(task.Instance, 1), raw).Err())
	}
	o.must(o.rdb.Del(ctx, o.leaseKey(task)).Err())
	if c := o.cancelCause(b); c.Reason != cancel.LostSelect || c.Text != "deadline won" {
		t.Fatalf("cause %+v", c)
	}
}

func TestCompletionAfterCancelIsDroppedAndCountedAsCancelled(t *testing.T) {
	o := newOwner(t)
	b, reg := newBlocking(), prometheus.NewRegistry()
	cfg := o.config()
	cfg.Metrics, cfg.LeaseTTL = reg, time.Hour
	o.start(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	o.must(o.rdb.Del(context.Background(), o.leaseKey(task)).Err())
	close(b.release)
	o.until("counted", func() bool { return counted(t, reg, "pawl_worker_activities_total", "cancelled") == 1 })
	if in := o.inbox(task); len(in) > 0 {
		t.Fatalf("pushed: %+v", in)
	}
}

func TestSecondDeliveryOfAHeldActivityDoesNotStartIt(t *testing.T) {
	o := newOwner(t)
	b, reg := newBlocking(), prometheus.NewRegistry()
	cfg := o.config()
	cfg.Metrics = reg
	o.start(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	o.publish(task)
	o.until("the claim is rejected", func() bool { return counted(t, reg, "pawl_worker_tasks_total", "held") >= 1 })
	close(b.release)
	if c := o.completed(task); c.Claims != 1 || b.runs.Load() != 1 {
		t.Fatalf("claims %d, runs %d", c.Claims, b.runs.Load())
	}
	o.drained("block")
}

func TestActivityWithExhaustedClaimsIsNotClaimed(t *testing.T) {
	o := newOwner(t)
	b, reg := newBlocking(), prometheus.NewRegistry()
	cfg := o.config()
	cfg.Metrics = reg
	o.start(cfg, b.do("block"))
	task := o.schedule("block", "block", nothing)
	task.MaxClaims = 3
	o.must(o.rdb.HSet(context.Background(), o.leaseKey(task), "n", "3").Err())
	o.publish(task)
	o.until("the claim is rejected", func() bool { return counted(t, reg, "pawl_worker_tasks_total", "exhausted") >= 1 })
	o.drained("block")
	if b.runs.Load() > 0 || o.lease(task)["n"] != "3" {
		t.Fatalf("runs %d, lease %v", b.runs.Load(), o.lease(task))
	}
}

func TestTaskWithoutAHandlerGoesToAWorkerThatHasOne(t *testing.T) {
	o := newOwner(t)
	shared := pawl.Queue("shared")
	reg := prometheus.NewRegistry()
	cfg := o.config()
	cfg.Metrics = reg
	o.start(cfg, pawl.NewActivity[pawl.None, string]("old", shared).Do(func(context.Context, pawl.None) (string, error) { return "old", nil }))
	task := o.schedule("new", "shared", nothing)
	o.publish(task)
	o.until("returned", func() bool { return counted(t, reg, "pawl_worker_tasks_total", "unregistered") > 0 })
	other := o.config()
	other.Name = "other"
	o.start(other, pawl.NewActivity[pawl.None, string]("new", shared).Do(func(context.Context, pawl.None) (string, error) { return "new", nil }))
	if c := o.completed(task); c.Worker != "other" {
		t.Fatalf("ran on %s", c.Worker)
	}
}

func TestConcurrencyBoundsRunningActivitiesAndAllRun(t *testing.T) {
	o := newOwner(t)
	cfg := o.config()
	cfg.Concurrency = 3
	var now, most atomic.Int32
	o.start(cfg, pawl.NewActivity[pawl.None, pawl.None]("count").Do(func(context.Context, pawl.None) (pawl.None, error) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		runtime.Gosched()
		now.Add(-1)
		return pawl.None{}, nil
	}))
	tasks := make([]transport.Task, 200)
	for i := range tasks {
		tasks[i] = o.send("count", nothing)
	}
	for _, task := range tasks {
		o.completed(task)
	}
	if m := most.Load(); m > 3 {
		t.Fatalf("%d at once", m)
	}
}

func TestNewRejectsAnInvalidConfig(t *testing.T) {
	nc, rdb := &nats.Conn{}, redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = rdb.Close() })
	a := newBlocking().do("a")
	for what, c := range map[string]struct {
		cfg  worker.Config
		with []pawl.ActivityBinding
		want string
	}{
		"no NATS":   {worker.Config{Redis: rdb}, []pawl.ActivityBinding{a}, "Config.NATS"},
		"no Redis":  {worker.Config{NATS: nc}, []pawl.ActivityBinding{a}, "Config.Redis"},
		"short TTL": {worker.Config{NATS: nc, Redis: rdb, LeaseTTL: time.Millisecond}, []pawl.ActivityBinding{a}, "lease TTL must be at least 100ms (got 1ms)"},
		"negative":  {worker.Config{NATS: nc, Redis: rdb, Concurrency: -1}, []pawl.ActivityBinding{a}, "concurrency -1"},
		"bad name":  {worker.Config{NATS: nc, Redis: rdb, Name: "a.b"}, []pawl.ActivityBinding{a}, `"a.b"`},
		"nothing":   {worker.Config{NATS: nc, Redis: rdb}, nil, "pass bindings to worker.New"},
		"twice":     {worker.Config{NATS: nc, Redis: rdb}, []pawl.ActivityBinding{a, a}, "activity a"},
	} {
		if _, err := worker.New(c.cfg, c.with...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestStopOfAWorkerThatWasNotStartedReleasesItsMetrics(t *testing.T) {
	o := newOwner(t)
	cfg, reg := o.config(), prometheus.NewRegistry()
	cfg.Metrics = reg
	for range 2 { // the second worker cannot register its metrics unless the first has unregistered them
		w, err := worker.New(cfg, newBlocking().do("a"))
		o.must(err)
		o.must(w.Stop(context.Background()))
		if err := w.Start(context.Background()); !errors.Is(err, worker.ErrStarted) {
			t.Fatalf("started after it was stopped: %v", err)
		}
	}
}

func TestStartWaitsForTheNamespace(t *testing.T) {
	o := newOwner(t)
	cfg := o.config()
	cfg.Namespace = redistest.Namespace()
	w, err := worker.New(cfg, newBlocking().do("a"))
	o.must(err)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := w.Start(ctx); err == nil {
		t.Fatal("started without a namespace")
	}
	w, err = worker.New(cfg, newBlocking().do("a"))
	o.must(err)
	if err := w.Ready(); err == nil {
		t.Fatal("ready before it was started")
	}
	started := make(chan error, 1)
	go func() { started <- w.Start(context.Background()) }()
	conn, err := transport.Open(context.Background(), o.dial(), transport.Options{Namespace: cfg.Namespace, Partitions: partitions})
	o.must(err)
	t.Cleanup(conn.Close)
	o.must(<-started)
	o.until("ready", func() bool { return w.Ready() == nil }) // Redis may reply late
	if err := w.Start(context.Background()); !errors.Is(err, worker.ErrStarted) {
		t.Fatalf("started twice: %v", err)
	}
	o.must(w.Stop(context.Background()))
	o.must(w.Stop(context.Background()))
	if err := w.Ready(); err == nil {
		t.Fatal("ready after it was stopped")
	}
}

func TestStartRejectsRedisAndNATSOfDifferentNamespaces(t *testing.T) {
	o := newOwner(t)
	o.must(o.rdb.HSet(context.Background(), o.space.Meta(), "partitions", partitions+1).Err())
	w, err := worker.New(o.config(), newBlocking().do("a"))
	o.must(err)
	if err := w.Start(context.Background()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(partitions+1)) {
		t.Fatal(err)
	}
}
