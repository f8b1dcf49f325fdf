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
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// purge requests a purge and returns the answer.
func (s *harness) purge(id string, force bool) request.Answer {
	s.t.Helper()
	answers := make(chan request.Answer, 1)
	inbox, err := request.OnAnswers(s.conn, func(_ string, a request.Answer) { answers <- a })
	if err != nil {
		s.t.Fatal(err)
	}
	defer inbox.Stop()
	s.publish(message.OutInput{Instance: id, Kind: message.KindPurge, Force: force, By: "ops", Text: "tidy", Reply: inbox.Subject("p")})
	select {
	case a := <-answers:
		return a
	case <-s.ctx().Done():
		s.t.Fatalf("no answer to the purge of %s", id)
		return request.Answer{}
	}
}

// left lists all keys of an instance, and all other keys that mention it.
func (s *harness) left(id string) (keys []string) {
	s.t.Helper()
	for _, k := range s.redis.Keys(s.ctx(), "pawl:{"+s.ns+".*}:*"+id+"*").Val() {
		// The ids of its messages stay for an hour, and its children stay in the set of the children of this parent.
		if !strings.Contains(k, "}:d:") && !strings.Contains(k, "}:v:") {
			keys = append(keys, k)
		}
	}
	for _, k := range s.redis.Keys(s.ctx(), "pawl:{"+s.ns+".*}:*").Val() {
		if (strings.HasSuffix(k, "wakeups") || strings.Contains(k, "}:x:") || strings.Contains(k, "}:v:")) && s.redis.ZScore(s.ctx(), k, id).Err() == nil {
			keys = append(keys, k+" names it")
		}
	}
	return keys
}

func TestPurgeRemovesEveryExecutionAndLaterInputsStartTheNext(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, counter.Do(count))
	s.start("counter", "c-1", `{}`)
	for _, n := range []string{`1`, `2`, `0`} {
		s.event("add", "c-1", n)
	}
	origin := s.ended("c-1").Origin
	if a := s.purge("c-1", false); a.Status != request.StatusPurged {
		t.Fatalf("%+v", a.Problem)
	}
	if left := s.left("c-1"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// After a purge, in one batch: events with the start to which they belong, and inputs for the previous instance.
	s.start("counter", "c-2", `{}`)
	s.event("add", "c-2", `0`)
	s.ended("c-2")
	s.publish(message.OutInput{Instance: "c-2", Kind: message.KindPurge})
	s.event("add", "c-2", `5`)
	s.publish(message.OutInput{Instance: "c-2", Kind: message.KindCancel})
	s.publish(message.OutInput{Instance: "c-2", Kind: message.KindPurge, Force: true})
	s.start("counter", "c-2", `{}`)
	s.event("add", "c-2", `0`)
	s.until("the next one ends", func() bool { d := s.describe("c-2"); return d.Status == "completed" && d.Execution == 2 })
	d := s.describe("c-2")
	if got, err := author.Result(counter).Decode(d.Result); err != nil || got != 5 || d.Origin == origin {
		t.Errorf("%d, %v", got, err)
	}
}

func TestForcedPurgeOfARunningInstanceCancelsItsActivitiesAndChildren(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, only.Do(waitForPing), hello.Do(func(ctx *pawl.Context, in string) (string, error) {
		child := only.Start(ctx, in, pawl.ID("child"))
		if _, err := slow.Call(ctx, in); err != nil {
			return "", err
		}
		return child.Get(ctx)
	}), race.Do(func(ctx *pawl.Context, in string) (string, error) {
		_, err := hello.Call(ctx, in, pawl.ID("p-1"))
		var c *pawl.Cancelled
		if errors.As(err, &c) && c.Reason == cancel.Purged {
			return "purged by " + c.By, nil
		}
		return "", fmt.Errorf("not purged: %w", err)
	}))
	running, causes := make(chan struct{}, 1), make(chan error, 1)
	s.work(worker.Config{}, slow.Do(func(ctx context.Context, _ string) (string, error) {
		running <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	}))
	s.start("race", "top", `"x"`)
	<-running
	if a := s.purge("p-1", false); a.Problem == nil || a.Problem.Code != request.ProblemRefused || !strings.Contains(a.Problem.Message, "is running") {
		t.Fatalf("%+v", a)
	}
	if a := s.purge("p-1", true); a.Status != request.StatusPurged {
		t.Fatalf("%+v", a.Problem)
	}
	var c *cancel.Cancelled
	if err := <-causes; !errors.As(err, &c) || c.Reason != cancel.Purged || c.Text != "tidy" {
		t.Errorf("cause %v", err)
	}
	if d := s.ended("child"); d.Status != "cancelled" {
		t.Errorf("child %s", d.Status)
	}
	if got, err := author.Result(race).Decode(s.ended("top").Result); err != nil || got != "purged by ops" {
		t.Errorf("the parent received %q, %v", got, err)
	}
	if left := s.left("p-1"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestStalledInstanceIsPurgedByForceEvenBeforeItBegins(t *testing.T) {
	s := newHarness(t)
	first := s.orchestrate(orchestrator.Config{Member: "a"}, race.Do(waitForPing))
	s.start("race", "begun", `"x"`)
	s.until("it runs", func() bool { return s.describe("begun").Status == "running" })
	s.stop(first)
	s.orchestrate(orchestrator.Config{Member: "b"}, hello.Do(callGreet))
	s.event("ping", "begun", `"x"`)
	s.start("race", "fresh", `"x"`)
	s.event("ping", "fresh", `"x"`)
	s.start("race", "many-inputs", `"x"`)
	for range 600 { // more than an orchestrator keeps of an inbox in memory
		s.event("ping", "many-inputs", `"x"`)
	}
	for _, id := range []string{"begun", "fresh", "many-inputs"} {
		s.until(id+" is stalled", func() bool { return s.describe(id).Stalled != "" })
		if a := s.purge(id, true); a.Status != request.StatusPurged {
			t.Fatalf("%s: %+v", id, a.Problem)
		}
		if left := s.left(id); len(left) > 0 {
			t.Errorf("left of %s: %v", id, left)
		}
	}
}

func TestPurgeOfAChildThatHasNotBegunIsReportedToItsParent(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, in string) (string, error) { return only.Call(ctx, in, pawl.ID("child")) }))
	s.start("hello", "p-1", `"x"`)
	s.until("the child is stalled", func() bool { return s.describe("child").Stalled != "" })
	if a := s.purge("child", true); a.Status != request.StatusPurged {
		t.Fatalf("%+v", a.Problem)
	}
	if d := s.ended("p-1"); d.Failure == nil || d.Failure.Code != history.CodeCancelled {
		t.Errorf("%s, %+v", d.Status, d.Failure)
	}
}

func TestRetentionIsByStatusAndBeginsWhenTheParentHasTheEnd(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 200 * time.Millisecond, Retention: orchestrator.Retention{Completed: 300 * time.Millisecond, Failed: -1}},
		only.Do(func(_ *pawl.Context, in string) (string, error) { return in, nil }),
		hello.Do(func(ctx *pawl.Context, in string) (string, error) { return only.Call(ctx, in, pawl.ID("child")) }),
		race.Do(func(*pawl.Context, string) (string, error) { return "", errToo }))
	s.start("hello", "p-1", `"x"`)
	s.start("race", "failed", `"x"`)
	s.ended("failed")
	purged := func(id string) bool {
		rec, err := s.store.Record(s.ctx(), s.conn.PartitionOf(id), id)
		return err == nil && rec == nil && len(s.left(id)) == 0
	}
	s.until("both are purged", func() bool { return purged("p-1") && purged("child") })
	if rec, err := s.store.Record(s.ctx(), s.conn.PartitionOf("failed"), "failed"); err != nil || rec == nil || rec.Status != record.Failed {
		t.Errorf("the failed instance: %v %v", rec, err)
	}
}
