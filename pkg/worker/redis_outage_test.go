package worker_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/cancel"
)

// The short outage includes a renewal, which is due after a third of the TTL, and leaves half of the TTL for a restart of Redis and for
// stalls of the machine.
const (
	shortOutage = 6 * time.Second
	longTTL     = 15 * time.Second

	shortTTL   = 5 * time.Second
	longOutage = 2 * shortTTL // a longer outage would test nothing else
)

// outages runs a test with each way in which Redis may be unavailable for some time.
func outages(t *testing.T, f func(t *testing.T, o *owner, unavailable func(time.Duration))) {
	t.Parallel() // mostly waits
	t.Run("stopped and continued", func(t *testing.T) {
		t.Parallel()
		o := newOwner(t)
		f(t, o, func(d time.Duration) {
			o.redis.Pause()
			<-time.After(d) // the test depends on the duration
			o.redis.Resume()
		})
	})
	t.Run("killed and restarted from its AOF", func(t *testing.T) {
		t.Parallel()
		o := newOwner(t, durable...)
		f(t, o, func(d time.Duration) {
			o.redis.Kill()
			<-time.After(d)
			o.redis.Restart(t)
		})
	})
}

// severalRun starts activities and waits until their leases have been renewed.
func (o *owner) severalRun(t *testing.T, b *blocking, reg *prometheus.Registry) []transport.Task {
	t.Helper()
	tasks := make([]transport.Task, 5)
	for i := range tasks {
		tasks[i] = o.send("block", nothing)
	}
	for range tasks {
		o.wait("start", b.started)
	}
	o.renewed(t, reg, len(tasks))
	return tasks
}

func (o *owner) renewed(t *testing.T, reg *prometheus.Registry, n int) {
	t.Helper()
	was := counted(t, reg, "pawl_worker_renewals_total")
	o.until("renewed", func() bool { return counted(t, reg, "pawl_worker_renewals_total") >= was+float64(n) })
}

func TestRedisOutageShorterThanTheTTLCancelsNoActivity(t *testing.T) {
	outages(t, func(t *testing.T, o *owner, unavailable func(time.Duration)) {
		b, reg, cfg := newBlocking(), prometheus.NewRegistry(), o.config()
		cfg.LeaseTTL, cfg.Metrics = longTTL, reg
		w := o.start(cfg, b.do("block"))
		tasks := o.severalRun(t, b, reg)
		unavailable(shortOutage)
		o.renewed(t, reg, len(tasks))
		for _, r := range w.Running() {
			if r.Stopped {
				t.Errorf("activity %d of %s is cancelled", r.Activity, r.Instance)
			}
		}
		close(b.release)
		for _, task := range tasks {
			if c := o.completed(task); c.Claims != 1 {
				t.Errorf("activity %d was claimed %d times", task.Activity, c.Claims)
			}
		}
		select {
		case err := <-b.cause:
			t.Errorf("cancelled: %v", err)
		default:
		}
	})
}

func TestRedisOutageLongerThanTheTTLCancelsActivitiesWhichRunAgain(t *testing.T) {
	outages(t, func(t *testing.T, o *owner, unavailable func(time.Duration)) {
		b, reg, cfg := newBlocking(), prometheus.NewRegistry(), o.config()
		cfg.LeaseTTL, cfg.Metrics = shortTTL, reg
		o.start(cfg, b.do("block"))
		tasks := o.severalRun(t, b, reg)
		unavailable(longOutage)
		for range tasks {
			if c := o.cancelCause(b); c.Reason != cancel.LeaseLost {
				t.Fatalf("cause %v", c)
			}
		}
		o.until("counted", func() bool { return counted(t, reg, "pawl_worker_activities_total", "lost") == float64(len(tasks)) })
		if n := counted(t, reg, "pawl_worker_activities_total", "failed") + counted(t, reg, "pawl_worker_activities_total", "cancelled"); n > 0 {
			t.Fatal("an outage was counted as a failure or a cancellation")
		}
		for _, task := range tasks {
			if in := o.inbox(task); len(in) > 0 {
				t.Fatalf("an outage became a result: %+v", in)
			}
		}
		close(b.release)
		for _, task := range tasks { // as the owner does when it finds the expired claims
			o.publish(task)
		}
		for _, task := range tasks {
			if c := o.completed(task); c.Claims != 2 {
				t.Errorf("activity %d was claimed %d times", task.Activity, c.Claims)
			}
		}
		if i := o.described(); i.LastError == "" || i.LastErrorAt == 0 {
			t.Fatalf("the outage is not reported: %+v", i)
		}
	})
}
