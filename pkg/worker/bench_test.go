package worker_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// BenchmarkActivities measures the throughput of a worker on a full queue: claim, handler, ack, doorbell. Leases and tasks are created
// before the timer starts. nats-server runs in this process, redis-server in its own.
func BenchmarkActivities(b *testing.B) {
	o := newOwner(b)
	cfg := o.config()
	cfg.Concurrency = 256
	cfg.LeaseTTL = 10 * time.Second
	done := make(chan struct{}, b.N)
	tasks := o.scheduleAll(b.N)
	acked := make(chan error, b.N)
	for _, t := range tasks {
		o.conn.PublishTask(t, func(err error) { acked <- err })
	}
	for range tasks {
		o.must(<-acked)
	}
	b.ReportAllocs()
	b.ResetTimer()
	o.start(cfg, pawl.NewActivity[pawl.None, pawl.None]("nop").Do(func(context.Context, pawl.None) (pawl.None, error) {
		done <- struct{}{}
		return pawl.None{}, nil
	}))
	for range b.N {
		<-done
	}
	last := tasks[len(tasks)-1]
	o.until("acked", func() bool { return len(o.lease(last)) == 0 })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "activities/s")
}

// scheduleAll creates the leases of n activities in few round trips.
func (o *owner) scheduleAll(n int) []transport.Task {
	o.Helper()
	tasks := make([]transport.Task, n)
	for from := 0; from < n; from += 1000 {
		_, err := o.rdb.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for i := from; i < min(from+1000, n); i++ {
				id := uint64(i + 1)
				t := transport.Task{
					Instance: "bench-" + strconv.Itoa(i%500), Execution: 1, Activity: id,
					Name: "nop", Queue: "nop", Attempt: 1, Payload: history.Payload{}, Origin: history.Position{Seq: 1, Time: 1},
				}
				t.Effect = t.ContentID()
				p.HSet(context.Background(), o.leaseKey(t), "e", t.Effect, "n", "0", "c", "1")
				tasks[i] = t
			}
			return nil
		})
		o.must(err)
	}
	return tasks
}
