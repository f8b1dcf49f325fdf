package orchestrator_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pkg/gate"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// A stall may last until somebody deploys other code, and what the others wait for is over.
func TestAnActivityThatHasEndedGivesItsSlotBackWhileItsInstanceIsStalled(t *testing.T) {
	for _, c := range []struct {
		name string
		code []pawl.OrchestrationBinding // instead of what has called it
	}{
		{"unregistered", nil},
		{"diverged", []pawl.OrchestrationBinding{hello.Do(callGreet)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, stile := newStand(t), newTurnstile()
			limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
			call := func(ctx *pawl.Context, who string) (string, error) { return limited.Call(ctx, who) }
			other := pawl.NewOrchestration[string, string]("other")
			first := s.orchestrate(orchestrator.Config{}, hello.Do(call))
			s.work(worker.Config{}, limited.Do(stile.do))
			s.start("hello", "h", `"h"`)
			s.receive(stile.began)
			s.stop(first)
			s.orchestrate(orchestrator.Config{Look: 10 * time.Second}, append(c.code, other.Do(call))...)
			s.start("other", "o", `"o"`)
			s.waiting("limited", 1)
			stile.end <- struct{}{}
			began := time.Now()
			if who := s.receive(stile.began); who != "o" {
				t.Fatal(who)
			}
			if d := time.Since(began); d > 7*time.Second {
				t.Errorf("the slot was kept for %v", d)
			}
			close(stile.end)
			s.ended("o")
			s.quiet("limited")
			if d := s.describe("h"); d.Status != "running" {
				t.Errorf("%+v", d)
			}
		})
	}
}

// The turn that entered was lost, and now its code is not there: it will enter anew.
func TestASlotOfALostTurnIsGivenBackWhileItsInstanceIsStalled(t *testing.T) {
	s := newStand(t)
	s.orchestrate(orchestrator.Config{Look: 10 * time.Second}, hello.Do(callGreet))
	s.start("nobody-has-this", "h", `"h"`)
	s.enter("limited", gate.Member{Ticket: "lost", Instance: "h", Place: gate.ActivityPlace(1, 2)})
	s.quiet("limited")
}

// Events are kept for a day for a start that may never come.
func TestASlotOfNobodyIsGivenBackAlthoughEventsWaitForTheStart(t *testing.T) {
	s := newStand(t)
	s.orchestrate(orchestrator.Config{Look: 10 * time.Second}, hello.Do(callGreet))
	s.event("ping", "h", `1`)
	s.until("it is kept", func() bool { return s.redis.HExists(context.Background(), s.key("h", "stuck"), "h").Val() })
	s.enter("limited", gate.Member{Ticket: "lost", Instance: "h", Place: gate.ActivityPlace(1, 2)})
	s.quiet("limited")
}
