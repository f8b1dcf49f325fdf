package worker_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/worker"
)

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func (o *owner) stop(w *worker.Worker, within time.Duration) error {
	ctx, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	return w.Stop(ctx)
}

func (o *owner) worker(cfg worker.Config, a ...pawl.ActivityBinding) *worker.Worker {
	o.Helper()
	w, err := worker.New(cfg, a...)
	o.must(err)
	o.must(w.Start(context.Background()))
	return w
}

func TestStopLetsRunningActivitiesFinish(t *testing.T) {
	o := newOwner(t)
	b := newBlocking()
	w := o.worker(o.config(), b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	var stopped sync.WaitGroup
	stopped.Go(func() { o.must(o.stop(w, 20*time.Second)) })
	o.until("stopping", func() bool { err := w.Ready(); return err != nil && strings.Contains(err.Error(), "stopping") })
	waiting := o.send("block", nothing) // no worker takes this task
	close(b.release)
	stopped.Wait()
	o.completed(task)
	if b.runs.Load() != 1 || len(o.inbox(waiting)) > 0 {
		t.Fatal("a stopping worker took a task")
	}
}

func TestStopCancelsActivitiesAfterDrainAndReleasesTheirLeases(t *testing.T) {
	o := newOwner(t)
	b, reg := newBlocking(), prometheus.NewRegistry()
	cfg := o.config()
	cfg.Drain, cfg.LeaseTTL, cfg.Metrics = time.Millisecond, time.Hour, reg
	w := o.worker(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	o.must(o.stop(w, 20*time.Second))
	if c := o.cancelCause(b); c.Reason != cancel.WorkerStopping {
		t.Fatalf("cause %v", c)
	}
	if l := o.lease(task); l["n"] != "0" || l["t"] != "" || l["e"] != task.Effect {
		t.Fatalf("lease %v", l)
	}
	at, err := o.rdb.ZScore(context.Background(), o.part(task).Wakeups(), task.Instance).Result()
	if err != nil || at > float64(time.Now().UnixMilli()) {
		t.Fatalf("wakeup at %.0f, %v", at, err)
	}
	if in := o.inbox(task); len(in) > 0 {
		t.Fatalf("a shutdown became a result: %+v", in)
	}

	second := newBlocking()
	close(second.release)
	o.start(o.config(), second.do("block"))
	o.publish(task) // as the owner reconciles
	if c := o.completed(task); c.Claims != 1 {
		t.Fatalf("claims %d", c.Claims)
	}
}

func TestResultDuringStopIsAcked(t *testing.T) {
	o := newOwner(t)
	started := make(signal, 1)
	cfg := o.config()
	cfg.Drain = time.Millisecond
	w := o.worker(cfg, pawl.NewActivity[pawl.None, string]("tidy").Do(func(ctx context.Context, _ pawl.None) (string, error) {
		started <- struct{}{}
		<-ctx.Done()
		return "tidied up in time", nil
	}))
	task := o.send("tidy", nothing)
	o.wait("start", started)
	o.must(o.stop(w, 20*time.Second))
	o.completed(task)
}

func TestActivityThatIgnoresTheStopLosesItsLeaseAndIsNamed(t *testing.T) {
	o := newOwner(t)
	started, release, returned := make(signal, 1), make(signal), make(signal)
	cfg := o.config()
	cfg.LeaseTTL = time.Hour
	w := o.worker(cfg, pawl.NewActivity[pawl.None, string]("uncancellable").Do(func(context.Context, pawl.None) (string, error) {
		defer close(returned)
		started <- struct{}{}
		<-release
		return "too late", nil
	}))
	task := o.send("uncancellable", nothing)
	o.wait("start", started)
	err := o.stop(w, 2500*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "uncancellable (activity 1 of order-1") {
		t.Fatalf("error %v", err)
	}
	if l := o.lease(task); l["n"] != "0" || l["t"] != "" {
		t.Fatalf("lease %v", l)
	}
	close(release)
	o.wait("return", returned)
	o.until("the activity has returned", func() bool { return len(w.Running()) == 0 })
	if in := o.inbox(task); len(in) > 0 {
		t.Fatalf("its result was accepted: %+v", in)
	}
}

func TestExpiredActivityRunsOnAnotherWorkerAndTheFirstCompletionIsRejected(t *testing.T) {
	o := newOwner(t)
	first, second, reg := newBlocking(), newBlocking(), prometheus.NewRegistry()
	close(second.release)
	cfg := o.config()
	cfg.LeaseTTL, cfg.Concurrency, cfg.Metrics = time.Hour, 1, reg // it renews nothing during the test, and takes no second task
	o.start(cfg, first.do("block"))
	task := o.send("block", nothing)
	o.wait("start", first.started)
	o.must(o.rdb.HSet(context.Background(), o.leaseKey(task), "u", "1").Err())
	o.start(o.config(), second.do("block"))
	o.publish(task) // as the owner reconciles
	if c := o.completed(task); c.Claims != 2 {
		t.Fatalf("claims %d", c.Claims)
	}
	close(first.release)
	o.until("counted", func() bool { return counted(t, reg, "pawl_worker_activities_total", "cancelled") == 1 })
	o.completed(task) // still one
}

func TestClaimIsRetriedUntilRedisIsAvailable(t *testing.T) {
	o := newOwner(t, durable...)
	b := newBlocking()
	close(b.release)
	w := o.start(o.config(), b.do("block"))
	task := o.schedule("block", "block", nothing)
	o.redis.Kill()
	o.publish(task)
	o.until("the worker is not ready", func() bool { return w.Ready() != nil })
	o.redis.Restart(t)
	o.until("completed", func() bool {
		if l := o.lease(task); l["e"] != "" && l["t"] == "" {
			o.publish(task) // as the owner reconciles: a claim that was answered too late is released, uncounted
		}
		return len(o.inbox(task)) > 0
	})
	if c := o.completed(task); c.Claims != 1 || b.runs.Load() != 1 {
		t.Fatalf("claims %d, runs %d", c.Claims, b.runs.Load())
	}
	o.until("ready again", func() bool { return w.Ready() == nil })
	o.drained("block")
}

func TestAckIsRetriedUntilRedisIsAvailableAndTakesEffectOnce(t *testing.T) {
	o := newOwner(t, durable...)
	b := newBlocking()
	cfg := o.config()
	cfg.LeaseTTL = 20 * time.Second
	w := o.start(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	o.redis.Kill()
	close(b.release)
	o.until("the worker is not ready", func() bool { return w.Ready() != nil })
	o.redis.Restart(t)
	o.completed(task)
	o.until("ready again", func() bool { return w.Ready() == nil })
	if b.runs.Load() != 1 {
		t.Fatalf("ran %d times", b.runs.Load())
	}
}

func TestConcurrentStartAndStop(t *testing.T) {
	o := newOwner(t)
	cfg := o.config()
	do := pawl.NewActivity[pawl.None, string]("quick").Do(func(context.Context, pawl.None) (string, error) { return "", nil })
	var tasks []transport.Task
	for range 20 {
		cfg.Name = ""
		w := o.worker(cfg, do, newBlocking().do("other"))
		tasks = append(tasks, o.send("quick", nothing))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { o.must(o.stop(w, 20*time.Second)) })
		}
		both.Wait()
	}
	o.start(o.config(), do)
	for _, task := range tasks {
		if len(o.inbox(task)) == 0 {
			o.publish(task) // as the owner reconciles: a claim may have been released
		}
	}
	for _, task := range tasks {
		if _, ok := o.end(task).(*history.ActivityCompleted); !ok {
			t.Fatal("failed")
		}
	}
}
