package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Redis rejects all writes for a while: nothing is lost, and no component retries in a tight loop.
func TestWritesRefusedByRedisAreRetriedWithBackoffUntilTheySucceed(t *testing.T) {
	t.Parallel() // mostly waits
	for name, trouble := range map[string]struct{ begin, end []any }{
		"out of memory": {[]any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		"read only":     {[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newOwnHarness(t)
			c := counters(t)
			s.orchestrate(orchestrator.Config{Metrics: c.reg}, hello.Do(callGreet))
			s.work(worker.Config{}, greet.Do(doGreet))
			const n = 20
			for i := range n {
				s.start("hello", fmt.Sprint("h-", i), `"you"`)
			}
			do := func(cmd []any) {
				t.Helper()
				if err := s.redis.Do(s.ctx(), cmd...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			do(trouble.begin)
			for i := range n {
				s.start("hello", fmt.Sprint("h-", n+i), `"you"`)
			}
			before, begun := c.get("pawl_orchestrator_store_errors_total"), time.Now()
			pause := time.NewTimer(1500 * time.Millisecond)
			<-pause.C
			if errs := c.get("pawl_orchestrator_store_errors_total") - before; errs > 270*time.Since(begun).Seconds() {
				t.Errorf("%v calls failed in %v", errs, time.Since(begun))
			}
			do(trouble.end)
			for i := range 2 * n {
				if d := s.ended(fmt.Sprint("h-", i)); d.Status != "completed" {
					t.Errorf("%s: %s, %v", d.Instance, d.Status, d.Failure)
				}
			}
		})
	}
}

func TestRedisRestartedEmptyIsRefilledFromTheStream(t *testing.T) {
	s := newOwnHarness(t)
	s.orchestrate(orchestrator.Config{OwnerTTL: 2 * time.Second}, hello.Do(callGreet))
	s.work(worker.Config{}, greet.Do(doGreet))
	for i := range 10 {
		s.start("hello", fmt.Sprint("a-", i), `"you"`)
	}
	s.ended("a-9")
	s.server.Restart(t) // nothing is stored on disk
	for i := range 10 {
		s.start("hello", fmt.Sprint("b-", i), `"you"`)
	}
	for i := range 10 {
		s.ended(fmt.Sprint("b-", i))
		s.ended(fmt.Sprint("a-", i)) // INPUTS still has its start
	}
}

func TestCodeThatPanicsFailsItsInstanceWithoutRetry(t *testing.T) {
	s := newHarness(t)
	c := counters(t)
	s.orchestrate(orchestrator.Config{Metrics: c.reg}, hello.Do(func(*pawl.Context, string) (string, error) { panic("oh") }))
	for i := range 10 {
		s.start("hello", fmt.Sprint("p-", i), `"you"`)
	}
	for i := range 10 {
		if d := s.ended(fmt.Sprint("p-", i)); d.Status != "failed" {
			t.Errorf("%+v", d)
		}
	}
	if n := c.get("pawl_orchestrator_turns_total"); n != 10 {
		t.Errorf("%v turns for 10 instances", n)
	}
}

// Orchestrators join and leave under load. All hand-overs are clean, so no instance waits for a reconciliation.
func TestHandoversUnderLoadLoseNothingAndDelayNoInstance(t *testing.T) {
	s := newHarness(t)
	const instances, steps, moves, interval = 24, 20, 4, 40 * time.Second
	chain := pawl.NewOrchestration[int, int]("chain")
	do := chain.Do(func(ctx *pawl.Context, n int) (int, error) {
		for range n {
			if _, err := greet.Call(ctx, "x"); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	s.work(worker.Config{LeaseTTL: 10 * time.Second}, greet.Do(func(ctx context.Context, in string) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
			return doGreet(ctx, in)
		}
	}))
	o := s.orchestrate(orchestrator.Config{ReconcileInterval: interval}, do)
	for i := range instances {
		s.start("chain", fmt.Sprint("m-", i), fmt.Sprint(steps))
	}
	for range moves {
		s.until("some continue", func() bool { return s.describe("m-0").Events > 0 })
		next := s.orchestrate(orchestrator.Config{ReconcileInterval: interval}, do)
		s.stop(o)
		o = next
	}
	late := 0
	for i := range instances {
		id := fmt.Sprint("m-", i)
		if d := s.ended(id); d.Status != "completed" {
			t.Fatalf("%+v", d)
		}
		var last int64
		for _, e := range s.history(id) {
			if c, ok := e.(*history.ActivityCompleted); ok {
				if last != 0 && c.At-last > interval.Milliseconds()/2 {
					late++
				}
				last = c.At
			}
		}
	}
	t.Logf("%d of %d steps took longer than %v", late, instances*steps, interval/2)
	if late > instances/8 {
		t.Errorf("%d steps waited for a reconciliation", late)
	}
}

func TestStopWithoutRedisEndsWithAnError(t *testing.T) {
	t.Parallel() // mostly waits
	s := newOwnHarness(t)
	o := s.orchestrate(orchestrator.Config{OwnerTTL: 2 * time.Second}, hello.Do(callGreet))
	s.start("hello", "s-1", `"you"`)
	s.until("it runs", func() bool { return s.describe("s-1").Status == "running" })
	s.server.Pause()
	defer s.server.Resume()
	ctx, stop := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer stop()
	begin := time.Now()
	err := o.Stop(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want a deadline", err)
	}
	t.Logf("stopped after %v", time.Since(begin))
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("stopping took %v", took)
	}
}
