package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

type tally struct{ Count, Rounds int }

var (
	counter = pawl.NewOrchestration[tally, int]("counter")
	add     = pawl.NewEvent[int]("add")
	shown   = pawl.NewStatus[int]()
)

// count receives one event per execution, and leaves later ones to the next execution.
func count(ctx *pawl.Context, t tally) (int, error) {
	n, err := add.Receive(ctx)
	if err != nil {
		return 0, err
	}
	t.Count, t.Rounds = t.Count+n, t.Rounds+1
	if err := shown.Set(ctx, t.Count); err != nil {
		return 0, err
	}
	if n == 0 {
		return t.Count, nil
	}
	return counter.ContinueAsNew(ctx, t)
}

func TestContinueAsNewLosesNoUnreadEventAndKeepsTwoHistories(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, counter.Do(count))
	const n = 60
	for i := 1; i <= n/2; i++ { // before the start
		s.event("add", "c-1", fmt.Sprint(i))
	}
	s.start("counter", "c-1", `{}`)
	for i := n/2 + 1; i <= n; i++ {
		s.event("add", "c-1", fmt.Sprint(i))
	}
	s.event("add", "c-1", `0`)
	d := s.ended("c-1")
	if got, err := author.Result(counter).Decode(d.Result); err != nil || got != n*(n+1)/2 {
		t.Fatalf("counted %d, %v, %v", got, err, d.Failure)
	}
	if d.Execution != n+1 || d.CustomStatus == nil || d.CustomStatus.Version != n+1 {
		t.Errorf("execution %d, status %+v", d.Execution, d.CustomStatus)
	}
	keys := s.redis.Keys(s.ctx(), "pawl:{"+s.ns+".*}:h:c-1:*").Val()
	if len(keys) != 2 {
		t.Errorf("histories %v", keys)
	}
}

func TestContinueAsNewCancelsOutstandingWorkWithItsReason(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(waitForPing), counter.Do(func(ctx *pawl.Context, t tally) (int, error) {
		if t.Rounds > 0 {
			return t.Count, nil
		}
		slow.Start(ctx, "x")
		race.Start(ctx, "x", pawl.ID("child"))
		if _, err := add.Receive(ctx); err != nil {
			return 0, err
		}
		return counter.ContinueAsNew(ctx, tally{Rounds: 1, Count: 7})
	}))
	started, causes := make(chan struct{}, 1), make(chan error, 1)
	s.work(worker.Config{}, slow.Do(func(ctx context.Context, _ string) (string, error) {
		started <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	}))
	s.start("counter", "c-1", `{}`)
	<-started
	s.event("add", "c-1", `1`)
	var c *cancel.Cancelled
	if err := <-causes; !errors.As(err, &c) || c.Reason != cancel.ContinuedAsNew {
		t.Errorf("cause %v", err)
	}
	if d := s.ended("c-1"); d.Execution != 2 || d.Status != "completed" {
		t.Errorf("%+v", d)
	}
	if d := s.ended("child"); d.Status != "cancelled" {
		t.Errorf("the child is %s", d.Status)
	}
	for _, e := range s.history("child") {
		if c, ok := e.(*history.CancelRequested); ok && c.Reason != cancel.ContinuedAsNew {
			t.Errorf("the child received %+v", c)
		}
	}
}

func TestChildThatContinuesAsNewKeepsItsParent(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, counter.Do(func(ctx *pawl.Context, t tally) (int, error) {
		if t.Rounds == 20 {
			return t.Count, nil
		}
		return counter.ContinueAsNew(ctx, tally{Rounds: t.Rounds + 1, Count: t.Count + 2})
	}), hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		n, err := counter.Call(ctx, tally{})
		return fmt.Sprint(n), err
	}))
	s.start("hello", "p-1", `"x"`)
	d := s.ended("p-1")
	if got, err := author.Result(hello).Decode(d.Result); err != nil || got != "40" {
		t.Fatalf("%q %v %v", got, err, d.Failure)
	}
}

func TestVersionOfTheStartGovernsAndWaitsForAnOrchestratorThatHasIt(t *testing.T) {
	s := newHarness(t)
	greet := func(version string) pawl.OrchestrationBinding {
		return hello.Do(func(ctx *pawl.Context, in string) (string, error) {
			_, err := ping.Receive(ctx)
			return version + pawl.Instance(ctx).Version + in, err
		}, pawl.Version(version))
	}
	first := s.orchestrate(orchestrator.Config{Member: "a"}, greet("9"))
	s.start("hello", "old", `"x"`)
	s.until("old runs", func() bool { return s.describe("old").Version == "9" })
	s.stop(first)
	second := s.orchestrate(orchestrator.Config{Member: "b"}, greet("9"), greet("10"))
	s.start("hello", "new", `"x"`)
	s.until("new runs", func() bool { return s.describe("new").Version == "10" })
	s.stop(second)
	third := s.orchestrate(orchestrator.Config{Member: "c"}, greet("9"))
	s.event("ping", "old", `"go"`)
	s.event("ping", "new", `"go"`)
	if got, _ := author.Result(hello).Decode(s.ended("old").Result); got != "99x" {
		t.Errorf("old: %q", got)
	}
	s.until("new is listed as stalled", func() bool {
		why := s.describe("new").Stalled
		return strings.Contains(why, `version "10"`) && strings.Contains(why, "unregistered")
	})
	s.stop(third)
	s.orchestrate(orchestrator.Config{Member: "d"}, greet("9"), greet("10"))
	if got, _ := author.Result(hello).Decode(s.ended("new").Result); got != "1010x" {
		t.Errorf("new: %q", got)
	}
}

func TestContinueAsNewMayChangeToANewerVersion(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{},
		counter.Do(func(ctx *pawl.Context, t tally) (int, error) {
			if t.Rounds == 0 {
				return counter.ContinueAsNew(ctx, tally{Rounds: 1}) // the same version
			}
			return counter.ContinueAsNew(ctx, tally{Rounds: 2, Count: t.Count + 1}, pawl.Latest)
		}, pawl.Version("1")),
		counter.Do(func(_ *pawl.Context, t tally) (int, error) { return 100*t.Rounds + t.Count, nil }, pawl.Version("2")))
	s.publishStart("counter", "c-1", "1", `{}`)
	d := s.ended("c-1")
	if got, err := author.Result(counter).Decode(d.Result); err != nil || got != 201 || d.Version != "2" {
		t.Fatalf("%d %v %v %s", got, err, d.Failure, d.Version)
	}
}
