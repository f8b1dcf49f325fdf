package orchestrator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// The limits recorded in the events make the turn too large. All of its calls have entered by then, and members without a call would block
// the other waiters and use up the rate.
func TestTurnThatGrantsMakeTooLargeLeavesNoWaiter(t *testing.T) {
	s, held := newHarness(t), newHeldActivity()
	const n, overhead = 1000, 100 // bytes of a scheduled event, in addition to its input; a recorded limit adds 38
	const marker = 3 << 20        // bytes of the turn other than calls: calls alone would be rejected before their commit is full
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	fan := pawl.NewOrchestration[int, string]("fan")
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, fan.Do(func(ctx *pawl.Context, n int) (string, error) {
		pawl.Patched(ctx, strings.Repeat("p", marker))
		for range n {
			limited.Start(ctx, strings.Repeat("x", (record.CommitBytes-marker)/n-overhead))
		}
		return ping.Receive(ctx)
	}), hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{}, limited.Do(held.do))
	s.start("hello", "h", `"h"`)
	s.receive(held.began)
	s.start("fan", "f", "1000")
	if d := s.ended("f"); d.Failure == nil || d.Failure.Code != history.CodeTooLarge {
		t.Fatalf("%+v", d.Failure)
	}
	s.waiting("limited", 0)
	if got := s.stats("limited"); got.Withdrawn != n {
		t.Errorf("%d have entered and left, want %d: adjust the size of the turn", got.Withdrawn, n)
	}
	close(held.end)
	s.ended("h")
	s.quiet("limited")
}
