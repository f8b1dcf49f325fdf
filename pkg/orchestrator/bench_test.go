package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// BenchmarkChains runs instances of five activities each, 500 at a time, with an orchestrator, a
// worker and NATS in this process, for profiles. pawl bench measures with separate processes.
func BenchmarkChains(b *testing.B) {
	const steps, window = 5, 500
	s := newHarness(b)
	chain := pawl.NewOrchestration[int, int]("chain")
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, chain.Do(func(ctx *pawl.Context, n int) (int, error) {
		for range n {
			if _, err := greet.Call(ctx, "x"); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	s.work(worker.Config{LeaseTTL: 10 * time.Second, Concurrency: 256}, greet.Do(doGreet))
	places := make(chan struct{}, window)
	inbox := nats.NewInbox()
	sub, err := s.nats.Subscribe(inbox+".*", func(*nats.Msg) { <-places })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	s.until("partitions are owned", func() bool { return s.describe("x") != nil })
	b.ResetTimer()
	for i := range b.N {
		places <- struct{}{}
		s.conn.PublishInputAsync(message.OutInput{
			Instance: fmt.Sprint("l-", i), Kind: message.KindStart, Name: "chain", Reply: fmt.Sprint(inbox, ".", i),
			Payload: history.Payload{Type: history.TypeJSON, Data: fmt.Append(nil, steps)},
		}, func(_ uint64, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	for range window { // until all have been answered
		places <- struct{}{}
	}
	b.ReportMetric(float64(b.N*steps)/b.Elapsed().Seconds(), "activities/s")
}
