package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	family = pawl.NewOrchestration[int, int]("family")
	only   = pawl.NewOrchestration[string, string]("only-child")
	errToo = pawl.NewError("too-much")
)

// generations starts two children with one generation less, and adds up their leaves.
func generations(ctx *pawl.Context, n int) (int, error) {
	if n == 0 {
		return 1, nil
	}
	sums, err := pawl.All(ctx, family.Start(ctx, n-1), family.Start(ctx, n-1))
	if err != nil {
		return 0, err
	}
	return sums[0] + sums[1], nil
}

func TestChildrenOfOtherPartitionsAndOrchestratorsReturnResultsToTheirParent(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{Member: "a"}, family.Do(generations))
	s.orchestrate(orchestrator.Config{Member: "b"}, family.Do(generations))
	s.start("family", "root", `5`)
	d := s.ended("root")
	if got, err := author.Result(family).Decode(d.Result); err != nil || got != 32 {
		t.Fatalf("%d leaves, %v, %v", got, err, d.Failure)
	}
	s.until("the outbox is empty", func() bool { return s.pending("root") == 0 })
}

// pending returns the length of the instance's outbox; 1 while there is no such instance.
func (s *harness) pending(id string) uint64 {
	s.t.Helper()
	if d := s.describe(id); d.Instance != "" {
		return d.PendingMessages
	}
	return 1
}

func TestFailureOfAChildKeepsItsSentinel(t *testing.T) {
	s := newHarness(t)
	var seen bool
	s.orchestrate(orchestrator.Config{},
		only.Do(func(*pawl.Context, string) (string, error) { return "", fmt.Errorf("deep down: %w", errToo) }),
		hello.Do(func(ctx *pawl.Context, in string) (string, error) {
			_, err := only.Call(ctx, in)
			seen = errors.Is(err, errToo)
			return "", err
		}))
	s.start("hello", "p-1", `"x"`)
	if d := s.ended("p-1"); d.Status != "failed" || !seen {
		t.Fatalf("%s, sentinel found: %v, %v", d.Status, seen, d.Failure)
	}
}

func TestCancellationReachesActivitiesOfGrandchildrenButNotAbandonedChildren(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{},
		only.Do(func(ctx *pawl.Context, in string) (string, error) { return slow.Call(ctx, in) }),
		hello.Do(func(ctx *pawl.Context, in string) (string, error) { return only.Call(ctx, in, pawl.ID("leaf")) }),
		race.Do(func(ctx *pawl.Context, in string) (string, error) {
			only.Start(ctx, in, pawl.ID("left"), pawl.Abandon())
			return hello.Call(ctx, in, pawl.ID("middle"))
		}))
	causes := make(chan error, 2)
	ran := make(chan string, 2)
	s.work(worker.Config{}, slow.Do(func(ctx context.Context, _ string) (string, error) {
		ran <- pawl.Info(ctx).Instance
		<-ctx.Done()
		causes <- fmt.Errorf("%s: %w", pawl.Info(ctx).Instance, context.Cause(ctx))
		return "", ctx.Err()
	}))
	s.start("race", "top", `"x"`)
	if got := []string{<-ran, <-ran}; !slices.Contains(got, "leaf") || !slices.Contains(got, "left") {
		t.Fatal(got)
	}
	s.publish(message.OutInput{Instance: "top", Kind: message.KindCancel, By: "ops", Text: "enough"})
	cause := <-causes
	var c *cancel.Cancelled
	if !errors.As(cause, &c) || c.Reason != cancel.Requested || c.By != "ops" || c.Text != "enough" {
		t.Fatalf("%v", cause)
	}
	for _, id := range []string{"top", "middle", "leaf"} {
		if d := s.ended(id); d.Status != "cancelled" {
			t.Errorf("%s is %s", id, d.Status)
		}
	}
	if d := s.describe("left"); d.Status != "running" || d.Parent != "top" {
		t.Errorf("the abandoned child is %s, of %s", d.Status, d.Parent)
	}
	s.publish(message.OutInput{Instance: "left", Kind: message.KindCancel})
	<-causes
	s.ended("left")
}

func TestChildWithATakenIDFailsAtTheCall(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(waitForPing), hello.Do(func(ctx *pawl.Context, in string) (string, error) {
		_, err := race.Call(ctx, in, pawl.ID("mine"))
		if errors.Is(err, pawl.ErrIDTaken) {
			return "taken: " + err.Error(), nil
		}
		return "", fmt.Errorf("not taken: %w", err)
	}))
	s.start("race", "mine", `"x"`)
	s.until("the id is taken", func() bool { return s.describe("mine").Status == "running" })
	s.start("hello", "p-1", `"x"`)
	if d := s.ended("p-1"); d.Status != "completed" {
		t.Fatalf("while it runs: %v", d.Failure)
	}
	s.event("ping", "mine", `"go"`)
	s.ended("mine")
	s.start("hello", "p-2", `"x"`)
	if d := s.ended("p-2"); d.Status != "completed" {
		t.Fatalf("after its end: %v", d.Failure)
	}
}

func waitForPing(ctx *pawl.Context, _ string) (string, error) { return ping.Receive(ctx) }

// pinged starts its child after a ping, so that a test can act before that.
func pinged(ctx *pawl.Context, in string) (string, error) {
	if _, err := ping.Receive(ctx); err != nil {
		return "", err
	}
	return only.Call(ctx, in, pawl.ID("c-1"))
}

// parentOf returns the parent of a child, which the third history event of the parent schedules.
func (s *harness) parentOf(parent, effect string) *history.Parent {
	return &history.Parent{Instance: parent, Origin: s.describe(parent).Origin, Execution: 1, Event: 3, Effect: effect}
}

func TestOrphanOfALostTurnIsCancelledAndReleasesItsIDToTheCurrentChild(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 500 * time.Millisecond}, race.Do(pinged), only.Do(func(ctx *pawl.Context, in string) (string, error) {
		if in == "unknown" {
			_, err := ping.Receive(ctx)
			return "", err
		}
		return "new: " + in, nil
	}))
	s.start("race", "p-1", `"now"`)
	s.until("the parent waits", func() bool { return s.describe("p-1").Events == 1 })
	s.publish(message.OutInput{Sender: message.SenderOrchestrator, Instance: "c-1", Kind: message.KindStart, Name: "only-child", Parent: s.parentOf("p-1", "unknown-effect-0000000"),
		Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"unknown"`)}})
	s.until("the orphan runs", func() bool { return s.describe("c-1").Status == "running" })
	orphan := s.describe("c-1").Origin
	s.event("ping", "p-1", `"go"`)
	d := s.ended("p-1")
	if got, err := author.Result(race).Decode(d.Result); err != nil || got != "new: now" {
		t.Fatalf("%q %v %v", got, err, d.Failure)
	}
	if c := s.ended("c-1"); c.Execution != 2 || c.Origin == orphan || c.Status != "completed" {
		t.Errorf("the child is %+v", c)
	}
}

func TestCancellationBeforeItsStartIsKeptAndThatOfAnotherStartIsNot(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, only.Do(waitForPing))
	parent := &history.Parent{Instance: "absent", Origin: history.Position{Seq: 1, Time: 1}, Execution: 1, Event: 2, Effect: "effect-of-the-start-00"}
	s.publish(message.OutInput{Sender: message.SenderOrchestrator, Instance: "c-1", Kind: message.KindCancel, Of: "effect-of-another-0000", Reason: cancel.LostSelect})
	s.publish(message.OutInput{Sender: message.SenderOrchestrator, Instance: "c-1", Kind: message.KindCancel, Of: parent.Effect, Reason: cancel.ScopeEnded, By: "absent", Text: "too late"})
	s.publish(message.OutInput{Sender: message.SenderOrchestrator, Instance: "c-1", Kind: message.KindStart, Name: "only-child", Parent: parent,
		Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`""`)}})
	d := s.ended("c-1")
	if d.Status != "cancelled" {
		t.Fatalf("%s %v", d.Status, d.Failure)
	}
	for _, e := range s.history("c-1") {
		if c, ok := e.(*history.CancelRequested); ok && (c.Reason != cancel.ScopeEnded || c.Text != "too late") {
			t.Errorf("%+v", c)
		}
	}
}

func TestRepeatedStartIsAnsweredWithTheEndAndRepeatedEndIsDropped(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, race.Do(pinged), only.Do(func(_ *pawl.Context, in string) (string, error) { return in, nil }))
	s.start("race", "p-1", `"now"`)
	s.event("ping", "p-1", `"go"`)
	s.ended("p-1")
	dones := func() uint64 { return s.messages(s.subject("in.*.own.p-1.done")) }
	before := dones() // more than one if the stream was slow to acknowledge it
	if before == 0 {
		t.Fatal("no end was sent")
	}
	rec, err := s.store.Record(s.ctx(), s.conn.PartitionOf("c-1"), "c-1")
	if err != nil {
		t.Fatal(err)
	}
	s.publish(message.OutInput{Sender: message.SenderOrchestrator, Instance: "c-1", Kind: message.KindStart, Name: "only-child", Parent: rec.Parent,
		Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"now"`)}})
	s.until("the end is sent again", func() bool { return dones() > before })
	s.until("the repeated end is dropped", func() bool { return s.describe("p-1").UnreadInputs == 0 && s.describe("c-1").UnreadInputs == 0 })
}
