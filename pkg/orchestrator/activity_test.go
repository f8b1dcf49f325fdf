package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

var (
	greet = pawl.NewActivity[string, string]("greet")
	slow  = pawl.NewActivity[string, string]("slow")
	hello = pawl.NewOrchestration[string, string]("hello")
	race  = pawl.NewOrchestration[string, string]("race")
	ping  = pawl.NewEvent[string]("ping")
)

func doGreet(_ context.Context, name string) (string, error) { return "hello " + name, nil }

func callGreet(ctx *pawl.Context, name string) (string, error) { return greet.Call(ctx, name) }

func TestInstancesCompleteTheirActivities(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(callGreet))
	s.work(worker.Config{}, greet.Do(doGreet))
	for i := range 50 {
		s.start("hello", fmt.Sprint("h-", i), `"you"`)
	}
	for i := range 50 {
		d := s.ended(fmt.Sprint("h-", i))
		got, err := author.Result(hello).Decode(d.Result)
		if d.Status != "completed" || err != nil || got != "hello you" {
			t.Fatalf("%s: %s %q %v %v", d.Instance, d.Status, got, err, d.Failure)
		}
	}
}

func TestChainFanOutTimersAndEventsCombine(t *testing.T) {
	s := newHarness(t)
	all := pawl.NewOrchestration[int, string]("all")
	s.orchestrate(orchestrator.Config{}, all.Do(func(ctx *pawl.Context, n int) (string, error) {
		first, err := greet.Call(ctx, "first")
		if err != nil {
			return "", err
		}
		items := make([]int, n)
		parts, err := pawl.Map(ctx, 8, items, func(ctx *pawl.Context, _ int) (string, error) { return greet.Call(ctx, "part") })
		if err != nil {
			return "", err
		}
		if err := pawl.Sleep(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
		event, err := ping.Receive(ctx)
		return fmt.Sprint(first, len(parts), event), err
	}))
	s.work(worker.Config{}, greet.Do(doGreet))
	s.event("ping", "all-1", `"early"`)
	s.start("all", "all-1", `40`)
	d := s.ended("all-1")
	got, err := author.Result(all).Decode(d.Result)
	if err != nil || got != "hello first40early" {
		t.Fatalf("got %q, %v, %v", got, err, d.Failure)
	}
}

func TestLoserOfASelectIsCancelledInItsWorkerWithTheReason(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(func(ctx *pawl.Context, in string) (string, error) {
		work, event := slow.Start(ctx, in), ping.Next(ctx)
		first, err := pawl.Select(ctx, work, event)
		if err != nil {
			return "", err
		}
		if first == event {
			return "too late", nil
		}
		return work.Get(ctx)
	}))
	running, causes := make(chan struct{}), make(chan error, 1)
	s.work(worker.Config{}, slow.Do(func(ctx context.Context, _ string) (string, error) {
		close(running)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	}))
	s.start("race", "race-1", `"x"`)
	<-running
	s.event("ping", "race-1", `"go"`)
	var cancelled *cancel.Cancelled
	if cause := <-causes; !errors.As(cause, &cancelled) || cancelled.Reason != cancel.LostSelect {
		t.Fatalf("cause: %v", cause)
	}
	s.ended("race-1")
	var seen bool
	for _, e := range s.history("race-1") {
		if c, ok := e.(*history.ActivityCancelRequested); ok && c.Reason == cancel.LostSelect {
			seen = true
		}
	}
	if !seen {
		t.Fatal("the history has no reason")
	}
}

func TestCancelledInstanceCancelsItsActivityWithRequesterAndReason(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(func(ctx *pawl.Context, in string) (string, error) { return slow.Call(ctx, in) }))
	running, causes := make(chan struct{}), make(chan error, 1)
	s.work(worker.Config{}, slow.Do(func(ctx context.Context, _ string) (string, error) {
		close(running)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	}))
	s.start("race", "c-1", `"x"`)
	<-running
	s.publish(message.OutInput{Instance: "c-1", Kind: message.KindCancel, By: "ops", Text: "wrong customer"})
	var c *cancel.Cancelled
	if cause := <-causes; !errors.As(cause, &c) || c.Reason != cancel.Requested || c.By != "ops" || c.Text != "wrong customer" {
		t.Fatalf("cause: %#v", cause)
	}
	if d := s.ended("c-1"); d.Status != "cancelled" {
		t.Fatalf("status %s: %v", d.Status, d.Failure)
	}
}

func TestUnregisteredOrchestrationIsListedAsStalledAndResumesWhenDeployed(t *testing.T) {
	s := newHarness(t)
	o := s.orchestrate(orchestrator.Config{}, race.Do(callGreet))
	s.work(worker.Config{}, greet.Do(doGreet))
	s.start("hello", "w-1", `"you"`)
	s.until("it is listed as stalled", func() bool { return strings.Contains(s.describe("w-1").Stalled, "unregistered") })
	s.stop(o)
	s.orchestrate(orchestrator.Config{}, race.Do(callGreet), hello.Do(callGreet))
	if d := s.ended("w-1"); d.Status != "completed" || d.Stalled != "" {
		t.Fatalf("%+v", d)
	}
}

func TestCodeThatBlocksDoesNotDelayOtherInstances(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	block := make(chan struct{})
	defer close(block)
	hanging := pawl.NewOrchestration[string, string]("hanging")
	s.orchestrate(orchestrator.Config{TurnLimit: 500 * time.Millisecond}, hello.Do(callGreet), hanging.Do(func(*pawl.Context, string) (string, error) {
		<-block
		return "", nil
	}))
	s.work(worker.Config{}, greet.Do(doGreet))
	s.start("hanging", "b-1", `"x"`)
	s.until("it is listed as stalled", func() bool { return strings.Contains(s.describe("b-1").Stalled, "blocked") })
	part := s.conn.PartitionOf("b-1")
	neighbor := ""
	for i := 0; neighbor == ""; i++ {
		if id := fmt.Sprint("n-", i); s.conn.PartitionOf(id) == part {
			neighbor = id
		}
	}
	s.start("hello", neighbor, `"you"`)
	if d := s.ended(neighbor); d.Status != "completed" {
		t.Fatalf("%+v", d)
	}
	if d := s.ended("b-1"); d.Status != "failed" || d.Failure.Code != history.CodeBlocked {
		t.Fatalf("%+v", d)
	}
}
