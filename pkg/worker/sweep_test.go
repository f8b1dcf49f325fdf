package worker_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/lease"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// publishAll publishes tasks concurrently, as an owner does.
func (o *owner) publishAll(tasks ...transport.Task) {
	o.Helper()
	acked := make(chan error, len(tasks))
	for _, t := range tasks {
		o.conn.PublishTask(t, func(err error) { acked <- err })
	}
	for range tasks {
		o.must(<-acked)
	}
}

// cancelledTasks returns tasks without leases.
func (o *owner) cancelledTasks(name string, n int) []transport.Task {
	o.Helper()
	tasks := make([]transport.Task, n)
	for i := range tasks {
		id := o.next.Add(1)
		tasks[i] = transport.Task{
			Instance: "order-" + strconv.Itoa(i%100), Execution: 1, Activity: id, Name: name, Queue: name, Attempt: 1,
		}
		tasks[i].Effect = tasks[i].ContentID()
	}
	return tasks
}

// delayAfter returns the delay of a live task after n cancelled tasks, for a worker with the default configuration.
func (o *owner) delayAfter(n int) time.Duration {
	o.Helper()
	o.publishAll(o.cancelledTasks("live", n)...)
	o.send("live", nothing)
	began := make(chan time.Time, 1)
	cfg, reg := o.config(), prometheus.NewRegistry()
	cfg.LeaseTTL, cfg.Metrics = 0, reg
	o.start(cfg, pawl.NewActivity[pawl.None, pawl.None]("live").Do(func(context.Context, pawl.None) (pawl.None, error) {
		began <- time.Now()
		return pawl.None{}, nil
	}))
	from := time.Now()
	took := (<-began).Sub(from)
	o.until("all are counted", func() bool { return counted(o, reg, "pawl_worker_tasks_total", "gone") >= float64(n) }) // a redelivered task is counted twice
	o.drained("live")
	return took
}

// calls returns the number of calls of a command that Redis has executed.
func (o *owner) calls(command string) (n int) {
	o.Helper()
	info, err := o.rdb.Info(o.Context(), "commandstats").Result()
	o.must(err)
	_, after, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	_, _ = fmt.Sscanf(after, "%d", &n)
	return n
}

// A cancelled task that is claimed occupies a slot until Redis replies, and delays the following tasks. Claims read leases with HMGET,
// sweeps with HGET. BenchmarkTaskAfterTenThousandCancelled measures the time.
func TestCancelledTasksAreRemovedInBatchesAndTakeFewSlots(t *testing.T) {
	const n = 5_000
	o := newOwner(t)
	took := o.delayAfter(n)
	claimed, swept := o.calls("hmget"), o.calls("hget")
	t.Logf("%d claimed, %d read in batches, %v", claimed, swept, took)
	if claimed > n/2 || claimed+swept < n {
		t.Errorf("of %d cancelled tasks %d were claimed, and %d read in batches", n, claimed, swept)
	}
}

func BenchmarkTaskAfterTenThousandCancelled(b *testing.B) {
	var sum time.Duration
	for b.Loop() {
		sum += newOwner(b).delayAfter(10_000)
	}
	b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms")
}

func TestSweepClaimsNothingAndReturnsRequiredTasks(t *testing.T) {
	o := newOwner(t)
	b, reg := newBlocking(), prometheus.NewRegistry()
	cfg := o.config()
	cfg.Concurrency, cfg.Metrics, cfg.Name = 1, reg, "busy"
	tasks := o.cancelledTasks("block", 500)
	var live []transport.Task
	for range 40 {
		live = append(live, o.schedule("block", "block", nothing))
	}
	o.publishAll(tasks...)
	o.publishAll(live...)
	o.start(cfg, b.do("block"))
	o.wait("start", b.started)
	o.until("all cancelled tasks are removed", func() bool { return counted(t, reg, "pawl_worker_tasks_total", "gone") >= 500 }) // a redelivered task is counted twice
	if n := counted(t, reg, "pawl_worker_tasks_total", "acquired"); n != 1 {
		t.Fatalf("a worker with one slot has claimed %v tasks", n)
	}
	other := o.config()
	other.Name, other.Concurrency = "idle", 64
	o.start(other, b.do("block"))
	for range live[1:] { // the busy worker holds none of them
		o.wait("start of the others", b.started)
	}
	close(b.release)
	for _, task := range live {
		if c := o.completed(task); c.Claims != 1 {
			t.Fatalf("%d claims", c.Claims)
		}
	}
}

func TestNeverStartedIsReportedOnlyForActivitiesThatDidNotRun(t *testing.T) {
	o := newOwner(t)
	b := newBlocking()
	close(b.release)
	tasks := o.cancelledTasks("block", 300)
	for _, task := range tasks[:100] {
		o.createInstance(task)
	}
	done := o.schedule("block", "block", nothing)
	o.createInstance(done)
	o.start(o.config(), b.do("block"))
	o.publish(done)
	o.completed(done)
	o.publishAll(tasks...)
	for _, task := range tasks {
		if r := o.reported(task); r.Ending != lease.NeverStarted || r.After != 0 {
			t.Fatalf("%+v", r)
		}
	}
	if b.runs.Load() != 1 {
		t.Fatalf("%d were started", b.runs.Load())
	}
}
