package orchestrator_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/queue"
	"github.com/pawlrun/pawl/pkg/worker"
)

// TestLoad measures everything in one process; it is for profiles, and runs only when asked.
func TestLoad(t *testing.T) {
	if os.Getenv("PAWL_LOAD") == "" {
		t.Skip("set PAWL_LOAD=1 to run")
	}
	s := newStand(t)
	chain := pawl.NewOrchestration[int, int]("chain")
	reg := prometheus.NewRegistry()
	s.orchestrate(orchestrator.Config{Look: 10 * time.Second, Metrics: reg}, chain.Do(func(ctx *pawl.Context, n int) (int, error) {
		for range n {
			if _, err := greet.Call(ctx, "x"); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	s.work(worker.Config{LeaseTTL: 10 * time.Second, Concurrency: 256}, greet.Do(doGreet))
	const n, steps, window = 10000, 5, 500
	var mu sync.Mutex
	got := 0
	done := make(chan struct{}, n)
	inbox := nats.NewInbox()
	sub, err := s.nats.Subscribe(inbox+".*", func(*nats.Msg) {
		mu.Lock()
		got++
		mu.Unlock()
		done <- struct{}{}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	s.until("partitions are owned", func() bool { return s.describe("x") != nil })
	begin := time.Now()
	for i := range n {
		if i >= window {
			<-done
		}
		s.conn.PublishInputAsync(queue.OutInput{
			Instance: fmt.Sprint("l-", i), Kind: queue.KindStart, Name: "chain", Reply: fmt.Sprint(inbox, ".", i),
			Payload: history.Payload{Type: history.TypeJSON, Data: []byte("5")},
		}, func(_ uint64, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range window {
		<-done
	}
	d := time.Since(begin).Seconds()
	if info, err := s.redis.Info(s.ctx(), "commandstats", "cpu", "stats").Result(); err == nil {
		t.Log(info)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if v := f.GetMetric()[0].GetCounter().GetValue(); v > 0 {
			t.Logf("%s %.0f", f.GetName(), v)
		}
	}
	t.Logf("%d instances, %.0f activities/s, %.0f instances/s", n, n*steps/d, n/d)
}
