package orchestrator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Redis loses the acknowledgement of an activity while its owner and its worker are running. The restored claim would
// last for a minute, and the next reconciliation is in an hour.
func TestActivityWhoseAckRedisLostDoesNotWaitForItsLease(t *testing.T) {
	for _, c := range []struct {
		name   string
		ingest bool // an input was lost as well
	}{{"with an input", true}, {"alone", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // mostly waits
			s := newOwnHarness(t)
			began, release := make(chan struct{}, 10), make(chan struct{})
			var runs atomic.Int32
			s.orchestrate(orchestrator.Config{ReconcileInterval: time.Hour}, hello.Do(callGreet))
			s.work(worker.Config{LeaseTTL: time.Minute}, greet.Do(func(ctx context.Context, name string) (string, error) {
				runs.Add(1)
				began <- struct{}{}
				<-release
				return doGreet(ctx, name)
			}))
			ids := s.samePartition(2)
			s.start("hello", ids[0], `"you"`)
			<-began
			before := s.snapshot()
			close(release)
			s.ended(ids[0])
			if c.ingest {
				s.start("hello", ids[1], `"you"`)
				s.ended(ids[1])
			}
			s.rollBack(before)
			begun := time.Now()
			s.until("Redis has lost the end", func() bool { return s.describe(ids[0]).Status != "" })
			for i := range 2 {
				if i == 0 || c.ingest {
					if d := s.ended(ids[i]); d.Status != "completed" {
						t.Fatalf("%+v", d)
					}
				}
			}
			t.Logf("ended %v after the rollback", time.Since(begun))
			want := int32(1)
			if c.ingest {
				want = 3 // the activity of the second instance is of a lost turn, or adopted
			}
			if n := runs.Load(); n > want {
				t.Errorf("%d runs", n)
			}
		})
	}
}
