package worker_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/cancel"
)

func TestSuccessIsCountedAfterTheAck(t *testing.T) {
	o := newOwner(t, durable...)
	b, reg, cfg := newBlocking(), prometheus.NewRegistry(), o.config()
	cfg.LeaseTTL, cfg.Metrics = time.Minute, reg
	w := o.start(cfg, b.do("block"))
	o.send("block", nothing)
	o.wait("start", b.started)
	o.redis.Kill()
	close(b.release)
	o.until("the ack has failed", func() bool { return w.Ready() != nil && len(w.Running()) == 0 })
	if n := counted(t, reg, "pawl_worker_activities_total", "completed"); n != 0 {
		t.Fatal("counted before the ack")
	}
	o.redis.Restart(t)
	o.until("counted", func() bool { return counted(t, reg, "pawl_worker_activities_total", "completed") == 1 })
}

func TestCancellationAfterTheCompletionHasNoEffect(t *testing.T) {
	o := newOwner(t)
	b, reg, book, cfg := newBlocking(), prometheus.NewRegistry(), &logbook{}, o.config()
	close(b.release)
	cfg.Metrics, cfg.Logger = reg, slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w := o.start(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.completed(task)
	o.createInstance(task)
	o.revoke(w, task) // deletes no lease, and sends a hint
	o.publish(task)   // a second delivery
	o.until("the claim is rejected", func() bool { return counted(t, reg, "pawl_worker_tasks_total", "gone") >= 1 })
	o.completed(task) // still one
	o.until("counted", func() bool { return counted(t, reg, "pawl_worker_activities_total", "completed") == 1 })
	for _, outcome := range []string{"failed", "cancelled", "lost", "abandoned"} {
		if n := counted(t, reg, "pawl_worker_activities_total", outcome); n != 0 {
			t.Errorf("%v are counted as %s", n, outcome)
		}
	}
	if logged := book.lines("level="); len(logged) > 0 {
		t.Errorf("logged %q", logged)
	}
}

func TestResultOfADeletedActivityIsDroppedAfterItsIDIsReused(t *testing.T) {
	o := newOwner(t)
	first, second, cfg := newBlocking(), newBlocking(), o.config()
	close(second.release)
	cfg.LeaseTTL, cfg.Concurrency = time.Hour, 1 // it renews nothing during the test, and takes no second task
	w := o.start(cfg, first.do("block"))
	old := o.send("block", nothing)
	o.wait("start", first.started)

	again := old
	again.Origin.Seq++ // another decision of another incarnation
	again.Effect = again.ContentID()
	ctx := context.Background()
	o.must(o.rdb.Del(ctx, o.leaseKey(old)).Err())
	o.must(o.rdb.HSet(ctx, o.leaseKey(again), "e", again.Effect, "n", "0", "c", strconv.FormatInt(time.Now().UnixMilli(), 10)).Err())
	close(first.release)
	o.until("it has returned", func() bool { return len(w.Running()) == 0 })
	other := o.config()
	other.Name = "other"
	o.start(other, second.do("block"))
	o.publish(again)
	o.publish(again) // the first worker may have taken the first message
	if c := o.completed(again); string(c.Result.Data) == "" || c.Claims != 1 {
		t.Fatalf("%+v", c)
	}
	if first.runs.Load()+second.runs.Load() != 2 {
		t.Fatalf("the first activity ran %d times, the second %d times", first.runs.Load(), second.runs.Load())
	}
}

// A hint may come from any NATS client, and may be about a lease that still exists.
func TestForgedHintDoesNotStopAnActivity(t *testing.T) {
	o := newOwner(t)
	b, reg, cfg := newBlocking(), prometheus.NewRegistry(), o.config()
	cfg.LeaseTTL, cfg.Metrics = time.Hour, reg
	w := o.start(cfg, b.do("block"))
	task := o.send("block", nothing)
	o.wait("start", b.started)
	o.must(o.conn.SendHints(w.Name(), []message.Hint{{
		Instance: task.Instance, Execution: 1, Activity: task.Activity, Effect: task.Effect, Reason: cancel.Purged, By: "mallory",
	}}))
	o.until("the lease is renewed", func() bool { return counted(t, reg, "pawl_worker_renewals_total") >= 1 })
	if r := w.Running(); len(r) != 1 || r[0].Stopped {
		t.Fatalf("%+v", r)
	}
	close(b.release)
	o.completed(task)
}
