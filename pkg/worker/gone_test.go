package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
)

// headOfQueue fills a queue with n tasks whose activities are cancelled and one that is wanted,
// and tells how long a worker that begins to take them lets the last one wait.
func headOfQueue(t testing.TB, n int) (time.Duration, *prometheus.Registry) {
	o := newOwner(t)
	acked := make(chan error, n)
	for range n {
		task := o.schedule("late", "late", nothing)
		o.next.Add(0)
		o.conn.PublishTask(task, func(err error) { acked <- err })
	}
	for range n {
		o.must(<-acked)
	}
	o.must(o.rdb.FlushDB(context.Background()).Err()) // cancelled, every one
	began := make(chan time.Time, 1)
	o.send("late", nothing)
	cfg, reg := o.config(), prometheus.NewRegistry()
	cfg.LeaseTTL, cfg.Metrics = 10*time.Second, reg
	o.start(cfg, pawl.NewActivity[pawl.None, pawl.None]("late").Do(func(context.Context, pawl.None) (pawl.None, error) {
		began <- time.Now()
		return pawl.None{}, nil
	}))
	from := time.Now()
	return (<-began).Sub(from), reg
}

func TestGone(t *testing.T) {
	for _, n := range []int{0, 10_000, 10_000, 10000} {
		d, _ := headOfQueue(t, n)
		t.Log(n, d)
	}
}
