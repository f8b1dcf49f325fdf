package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/worker"
)

// logbook records log lines.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// lines returns the lines that contain text.
func (l *logbook) lines(text string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(l.buf.String(), "\n") {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

// uncancellable is an activity that ignores its context.
type uncancellable struct {
	started, release, returned signal
}

func newUncancellable() *uncancellable {
	return &uncancellable{started: make(signal, 100), release: make(signal), returned: make(signal, 100)}
}

func (d *uncancellable) run(context.Context, pawl.None) (string, error) {
	helper := make(signal)
	go d.startedByUncancellable(helper)
	d.started <- struct{}{}
	<-helper
	d.returned <- struct{}{}
	return "too late", nil
}

func (d *uncancellable) startedByUncancellable(done signal) {
	<-d.release
	close(done)
}

func (d *uncancellable) do(name string) pawl.ActivityBinding {
	return pawl.NewActivity[pawl.None, string](name).Do(d.run)
}

// revoke deletes a lease as the commit of a cancellation does, and sends the worker a hint.
func (o *owner) revoke(w *worker.Worker, t transport.Task) {
	o.Helper()
	o.must(o.rdb.Del(context.Background(), o.leaseKey(t)).Err())
	o.must(o.conn.SendHints(w.Name(), []message.Hint{{
		Instance: t.Instance, Execution: 1, Activity: t.Activity, Effect: t.Effect, Reason: cancel.LostSelect, Text: "deadline won",
	}}))
}

// createInstance creates the record of the task's instance, which reports require.
func (o *owner) createInstance(t transport.Task) {
	o.Helper()
	o.must(o.rdb.HSet(context.Background(), o.part(t).Instance(t.Instance), "status", "running", "execution", "1").Err())
}

// reported waits for the report about an activity, and returns it.
func (o *owner) reported(t transport.Task) lease.Report {
	o.Helper()
	var r lease.Report
	o.until("a report", func() bool {
		fields, err := o.rdb.HGetAll(context.Background(), o.part(t).Reports(t.Instance, 1)).Result()
		o.must(err)
		var ok bool
		r, ok = record.DecodeReport(fields[itoa(t.Activity)])
		return ok
	})
	return r
}

func TestActivityThatIgnoresItsCancellationIsAbandonedAfterItsGracePeriod(t *testing.T) {
	o := newOwner(t)
	d, reg, book := newUncancellable(), prometheus.NewRegistry(), &logbook{}
	cfg := o.config()
	cfg.Concurrency, cfg.Grace, cfg.Metrics, cfg.Logger = 1, 50*time.Millisecond, reg, slog.New(slog.NewTextHandler(book, nil))
	cfg.LeaseTTL = time.Hour // only the hint cancels
	w := o.start(cfg, d.do("uncancellable"))
	task := o.send("uncancellable", nothing)
	o.createInstance(task)
	o.wait("start", d.started)
	second := o.send("uncancellable", nothing)
	o.revoke(w, task)
	o.wait("the second activity has the only slot", d.started)

	if n := counted(t, reg, "pawl_worker_abandoned"); n != 1 {
		t.Fatalf("%v abandoned", n)
	}
	if n := counted(t, reg, "pawl_worker_activities_total", "uncancellable", "abandoned"); n > 1 {
		t.Fatalf("counted %v times", n)
	}
	if a := w.Abandoned(); len(a) != 1 || a[0].Instance != task.Instance || a[0].Activity != task.Activity || !a[0].Stopped || len(w.Running()) != 1 {
		t.Fatalf("abandoned %+v, running %+v", a, w.Running())
	}
	if r := o.reported(task); r.Ending != lease.Abandoned || r.After < 50*time.Millisecond || r.Worker != w.Name() {
		t.Fatalf("%+v", r)
	}
	o.until("logged", func() bool { return len(book.lines("activity abandoned")) > 0 })
	line := book.lines("activity abandoned")[0]
	for _, want := range []string{"(*uncancellable).run", "(*uncancellable).startedByUncancellable", "grace_test.go", "lost-select: deadline won", "grace=50ms"} {
		if !strings.Contains(line, want) {
			t.Errorf("the log lacks %q: %s", want, line)
		}
	}
	if strings.Contains(line, "(*task).run") {
		t.Errorf("the stack is the worker's: %s", line)
	}

	close(d.release)
	o.completed(second)
	o.wait("return", d.returned)
	o.wait("return", d.returned)
	o.until("no activity is abandoned", func() bool { return counted(t, reg, "pawl_worker_abandoned") == 0 && len(w.Abandoned()) == 0 })
	if in := o.inbox(task); len(in) > 0 {
		t.Fatalf("its result was accepted: %+v", in)
	}
	if n := len(book.lines("activity abandoned")); n != 1 {
		t.Fatalf("logged %d times", n)
	}
	if n := counted(t, reg, "pawl_worker_activities_total", "uncancellable", "cancelled"); n != 0 {
		t.Fatal("the outcome was counted twice")
	}
}

func TestActivityThatReturnsWithinItsGracePeriodIsReportedAsStopped(t *testing.T) {
	o := newOwner(t)
	cfg := o.config()
	cfg.LeaseTTL, cfg.Grace = time.Hour, time.Nanosecond
	started, cleaned := make(signal), make(signal)
	w := o.start(cfg, pawl.NewActivity[pawl.None, pawl.None]("clean").Do(func(ctx context.Context, _ pawl.None) (pawl.None, error) {
		close(started)
		<-ctx.Done()
		<-cleaned
		return pawl.None{}, ctx.Err()
	}).WithGrace(time.Minute)) // overrides the worker's grace period
	task := o.send("clean", nothing)
	o.createInstance(task)
	o.wait("start", started)
	o.revoke(w, task)
	o.until("cancelled", func() bool { r := w.Running(); return len(r) == 1 && r[0].Stopped })
	close(cleaned)
	if r := o.reported(task); r.Ending != lease.Stopped || r.After < 0 || r.After > 20*time.Second || r.At.UnixMilli() < 1e12 {
		t.Fatalf("%+v", r)
	}
}

// An abandoned activity releases its slot, but still uses memory and CPU.
func TestTooManyAbandonedActivitiesMakeTheWorkerUnready(t *testing.T) {
	o := newOwner(t)
	d, book := newUncancellable(), &logbook{}
	cfg := o.config()
	cfg.Grace, cfg.MaxAbandoned, cfg.LeaseTTL, cfg.Logger = time.Millisecond, 2, time.Hour, slog.New(slog.NewTextHandler(book, nil))
	w := o.start(cfg, d.do("uncancellable"))
	for n := range 3 {
		o.until("ready", func() bool { return w.Ready() == nil }) // Redis may reply late
		task := o.send("uncancellable", nothing)
		o.wait("start", d.started)
		o.revoke(w, task)
		o.until("abandoned", func() bool { return len(w.Abandoned()) == n+1 })
	}
	err := w.Ready()
	if err == nil || !strings.Contains(err.Error(), "3 abandoned activities run") || !strings.Contains(err.Error(), "3 of them are uncancellable") {
		t.Fatal(err)
	}
	o.until("logged", func() bool { return len(book.lines("worker not ready")) == 1 })
	if i := o.described(); i.NotReady == "" || len(i.Abandoned) != 3 || i.Abandoned[0].Activity != "uncancellable" || i.Abandoned[0].Instance == "" {
		t.Fatalf("%+v", i)
	}
	close(d.release)
	o.until("ready again", func() bool { return w.Ready() == nil })
}

func TestActivityWithALostLeaseHasItsGracePeriodAndNoReport(t *testing.T) {
	o := newOwner(t)
	d, reg := newUncancellable(), prometheus.NewRegistry()
	cfg := o.config()
	cfg.LeaseTTL, cfg.Grace, cfg.Metrics = 5*time.Second, 10*time.Millisecond, reg
	w := o.start(cfg, d.do("uncancellable"))
	task := o.send("uncancellable", nothing)
	o.createInstance(task)
	o.wait("start", d.started)
	o.must(o.rdb.HSet(context.Background(), o.leaseKey(task), "t", "of another worker").Err())
	o.until("abandoned", func() bool { return counted(t, reg, "pawl_worker_activities_total", "uncancellable", "abandoned") == 1 })
	close(d.release)
	o.until("no activity is abandoned", func() bool { return len(w.Abandoned()) == 0 })
	if n := o.rdb.Exists(context.Background(), o.part(task).Reports(task.Instance, 1)).Val(); n > 0 {
		t.Fatal("a lost lease was reported as a cancellation")
	}
}

func TestWorkerDescribesItself(t *testing.T) {
	o := newOwner(t)
	b := newBlocking()
	cfg := o.config()
	cfg.Name, cfg.Concurrency = "w1", 7
	o.start(cfg, b.do("block"), pawl.NewActivity[pawl.None, string]("other", pawl.Queue("shared")).Do(b.run))
	o.send("block", nothing)
	o.wait("start", b.started)
	i := o.described()
	if i.Name != "w1" || i.Host == "" || i.PID == 0 || i.Since < 1e12 || strings.Join(i.Activities, " ") != "block other" ||
		strings.Join(i.Queues, " ") != "block shared" || i.Concurrency != 7 || i.Running != 1 || i.NotReady != "" || i.LastError != "" {
		t.Fatalf("%+v", i)
	}
	close(b.release)
}
