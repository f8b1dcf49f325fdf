package orchestrator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// Trap: while the concurrency is used up nobody looks at the rate; when a slot is given back too early for the next, nobody was
// there to see when it is its turn.
func TestWhoFindsASlotBeforeItsTurnByTheRateIsLetInAtItsTurn(t *testing.T) {
	s := newStand(t)
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1), pawl.Rate(1, 300*time.Millisecond))
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, who string) (string, error) { return limited.Call(ctx, who) }))
	s.work(worker.Config{Concurrency: 20}, limited.Do(func(_ context.Context, who string) (string, error) { return who, nil }))
	begin := time.Now()
	for i := range 7 {
		s.start("hello", fmt.Sprint("h-", i), `"x"`)
	}
	for i := range 7 {
		s.ended(fmt.Sprint("h-", i))
	}
	if took := time.Since(begin); took > 6*time.Second {
		t.Fatalf("seven with 300 ms between them took %v", took)
	}
	s.quiet("limited")
}
