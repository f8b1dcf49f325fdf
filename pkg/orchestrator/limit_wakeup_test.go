package orchestrator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Trap: while all slots are in use, the time of the next sweep does not depend on the rate. A slot that was released before the rate
// allowed the next admission stayed idle for up to two seconds.
func TestWaiterWithAFreeSlotIsAdmittedWhenTheRateAllowsIt(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1), pawl.Rate(1, 300*time.Millisecond))
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{Concurrency: 20}, limited.Do(func(_ context.Context, caller string) (string, error) { return caller, nil }))
	begin := time.Now()
	for i := range 20 {
		s.start("hello", fmt.Sprint("h-", i), `"x"`)
	}
	for i := range 20 {
		s.ended(fmt.Sprint("h-", i))
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Fatalf("twenty with 300 ms between them took %v", took)
	}
	s.quiet("limited")
}

// Trap: a limit rejects policies older than its own. If Redis has lost the latest policy, it would stay in force at the limit forever,
// and no command would show or delete it.
func TestPolicyLostByRedisIsNoLongerInForce(t *testing.T) {
	for name, restart := range map[string]bool{"while an orchestrator has it": false, "before an orchestrator has read it": true} {
		t.Run(name, func(t *testing.T) {
			s, held := newHarness(t), newHeldActivity()
			plain := pawl.NewActivity[string, string]("plain")
			bind := hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return plain.Call(ctx, caller) })
			if _, err := s.limits().SetPolicy(s.ctx(), limit.ActionLevel+"plain", history.Policy{Concurrency: 1}); err != nil {
				t.Fatal(err)
			}
			o := s.orchestrate(orchestrator.Config{}, bind)
			s.work(worker.Config{Concurrency: 50}, plain.Do(held.do))
			for i := range 3 {
				s.start("hello", fmt.Sprint("h-", i), `"x"`)
			}
			s.waiting("plain", 2)
			if restart {
				s.stop(o)
			}
			if err := s.redis.Del(s.ctx(), s.space.Policies()).Err(); err != nil {
				t.Fatal(err)
			}
			if restart {
				s.orchestrate(orchestrator.Config{}, bind)
			}
			for range 3 {
				s.receive(held.began)
			}
			close(held.end)
			for i := range 3 {
				s.ended(fmt.Sprint("h-", i))
			}
			s.quiet("plain")
		})
	}
}
