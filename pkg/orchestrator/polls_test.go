package orchestrator_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// firstAndRest receives one event and then drains. It returns the number of received and of drained events.
func firstAndRest(ctx *pawl.Context, _ string) (string, error) {
	if _, err := add.Receive(ctx); err != nil {
		return "", err
	}
	rest, err := add.Drain(ctx)
	return fmt.Sprint(1, len(rest)), err
}

// An incomplete poll is not recorded in the history. The next owner completes it, after the rest of the inbox.
func TestPollOverSeveralTurnsContinuesWithTheNextOwner(t *testing.T) {
	s := newHarness(t)
	const n = 1200
	for i := range n {
		s.event("add", "d-9", fmt.Sprint(i))
	}
	s.start("hello", "d-9", `"x"`)
	first := s.orchestrate(orchestrator.Config{Member: "a"}, hello.Do(firstAndRest))
	s.until("some inputs are applied", func() bool {
		return s.redis.LLen(s.ctx(), s.key("d-9", "h:d-9:1")).Val() > 0
	})
	s.stop(first)
	left := s.redis.LLen(s.ctx(), s.key("d-9", "in:d-9")).Val()
	t.Logf("%d of %d inputs are left", left, n+1)
	s.orchestrate(orchestrator.Config{Member: "b"}, hello.Do(firstAndRest))
	s.wantResult("d-9", fmt.Sprint(1, n-1))
}

func (s *harness) wantResult(id, want string) {
	s.t.Helper()
	d := s.ended(id)
	if got, err := author.Result(hello).Decode(d.Result); err != nil || got != want {
		s.t.Errorf("%s: result %q, want %q (%v, %v)", id, got, want, err, d.Failure)
	}
}

func TestDrainReceivesEveryEventAcceptedBeforeTheStart(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(firstAndRest))
	for i := range 5 {
		s.event("add", "d-1", fmt.Sprint(i))
	}
	s.start("hello", "d-1", `"x"`)
	s.wantResult("d-1", "1 4")
}

// The start and the events after it arrive in one batch. The first turn receives the whole batch.
func TestDrainReceivesEveryEventIngestedWithTheStart(t *testing.T) {
	s := newHarness(t)
	s.start("hello", "d-2", `"x"`)
	for i := range 5 {
		s.event("add", "d-2", fmt.Sprint(i))
	}
	s.orchestrate(orchestrator.Config{}, hello.Do(firstAndRest))
	s.wantResult("d-2", "1 4")
}

func TestDrainReceivesABacklogOfManyTurns(t *testing.T) {
	s := newHarness(t)
	const n = 600 // a turn reads 256
	for i := range n {
		s.event("add", "d-3", fmt.Sprint(i))
	}
	s.start("hello", "d-3", `"x"`)
	s.orchestrate(orchestrator.Config{}, hello.Do(firstAndRest))
	s.wantResult("d-3", fmt.Sprint(1, n-1))
	if observed := s.count("d-3", history.KindObserved); observed != 1 {
		t.Errorf("Observed is recorded %d times, want once", observed)
	}
}

// The event that was sent with a start is in the inbox at the first turn.
func TestPollReceivesTheEventOfTheStart(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		n, ok, err := add.TryReceive(ctx)
		return fmt.Sprint(n, ok), err
	}))
	s.start("hello", "warm-up", `"x"`) // the owners have caught up
	s.wantResult("warm-up", "0 false")
	s.publish(message.OutInput{
		Instance: "d-7", Kind: message.KindStart, Name: "hello", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`"x"`)},
		Event: &message.OutEvent{Name: "add", Payload: history.Payload{Type: history.TypeJSON, Data: []byte(`7`)}},
	})
	s.wantResult("d-7", "7 true")
}

// A purge waits in the inbox until the instance has ended, so a poll must not wait for it.
func TestPollCompletesBeforeAPurge(t *testing.T) {
	s := newHarness(t)
	s.start("hello", "d-8", `"x"`)
	s.publish(message.OutInput{Instance: "d-8", Kind: message.KindPurge})
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		all, err := add.Drain(ctx)
		if err != nil {
			return "", err
		}
		n, err := add.Receive(ctx)
		return fmt.Sprint(len(all), n), err
	}))
	s.until("the poll is complete", func() bool {
		d := s.describe("d-8")
		return d.Status == "running" && d.UnreadInputs == 0 && s.count("d-8", history.KindObserved) == 1
	})
	s.event("add", "d-8", `9`)
	s.wantResult("d-8", "0 9")
}

func TestUnreadEventsAtTheEndAreReported(t *testing.T) {
	s := newHarness(t)
	for i := range 3 {
		s.event("add", "u-1", fmt.Sprint(i))
	}
	s.event("ping", "u-1", `"a"`)
	s.event("stop", "u-1", `"b"`)
	for range 2 {
		s.event("ping", "u-1", `"c"`)
	}
	s.start("hello", "u-1", `"x"`)
	s.start("hello", "u-2", `"x"`)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		if pawl.Instance(ctx).Instance == "u-2" {
			return "none", nil
		}
		_, err := add.Receive(ctx)
		if err == nil {
			_, err = pawl.NewEvent[string]("stop").Receive(ctx) // events after it stay in the inbox
		}
		return "some", err
	}))
	if got := s.ended("u-1").UnreadEvents; record.FormatUnread(got) != "3 ping, 2 add" {
		t.Errorf("unread: %v", got)
	}
	if got := s.ended("u-2").UnreadEvents; got != nil {
		t.Errorf("unread: %v", got)
	}
}

// neighbor returns the id of another instance in the same partition.
func (s *harness) neighbor(id string) string {
	for i := 0; ; i++ {
		if other := fmt.Sprint("neighbor-", i); s.conn.PartitionOf(other) == s.conn.PartitionOf(id) {
			return other
		}
	}
}

func (s *harness) count(id string, kind history.Kind) (n int) {
	s.t.Helper()
	for _, e := range s.history(id) {
		if e.Kind() == kind {
			n++
		}
	}
	return n
}

// A loop that receives events until none is left has received all events that were accepted before it.
func TestPollingLoopReceivesEveryEvent(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		for n := 0; ; n++ {
			if _, ok, err := add.ReceiveWithin(ctx, 0); !ok || err != nil {
				return fmt.Sprint(n), err
			}
			if _, err := greet.Call(ctx, "x"); err != nil {
				return "", err
			}
		}
	}))
	s.work(worker.Config{}, greet.Do(doGreet))
	for i := range 20 {
		s.event("add", "d-4", fmt.Sprint(i))
	}
	s.start("hello", "d-4", `"x"`)
	s.wantResult("d-4", "20")
}

// Events that an execution has not received go to the next one, which receives all of them with its first poll.
func TestPollsOfEveryExecutionReceiveCarriedOverEvents(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, counter.Do(func(ctx *pawl.Context, in tally) (int, error) {
		if in.Rounds == 0 {
			if _, err := add.Receive(ctx); err != nil {
				return 0, err
			}
			return counter.ContinueAsNew(ctx, tally{Rounds: 1})
		}
		all, err := add.Drain(ctx)
		return len(all), err
	}))
	const n = 300 // a turn reads 256
	for i := range n {
		s.event("add", "d-5", fmt.Sprint(i))
	}
	s.start("counter", "d-5", `{}`)
	d := s.ended("d-5")
	if got, err := author.Result(counter).Decode(d.Result); err != nil || got != n-1 {
		t.Errorf("the second execution has drained %d of %d, %v %v", got, n-1, err, d.Failure)
	}
}

// At a takeover the completion of an activity may be in the inbox while events that were accepted before it are still in the stream.
func TestPollAfterATakeoverReceivesInputsAcceptedWithoutAnOwner(t *testing.T) {
	s := newHarness(t)
	code := hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		if _, err := greet.Call(ctx, "x"); err != nil {
			return "", err
		}
		all, err := add.Drain(ctx)
		return fmt.Sprint(len(all)), err
	})
	first := s.orchestrate(orchestrator.Config{Member: "a"}, code)
	begun, release := make(chan struct{}), make(chan struct{})
	s.work(worker.Config{}, greet.Do(func(ctx context.Context, in string) (string, error) {
		close(begun)
		<-release
		return doGreet(ctx, in)
	}))
	s.start("hello", "d-6", `"x"`)
	<-begun
	s.stop(first)
	other := s.neighbor("d-6")
	for i := range 600 { // before them in the stream, so that the new owner needs time to read
		s.event("add", other, fmt.Sprint(i))
	}
	for i := range 5 {
		s.event("add", "d-6", fmt.Sprint(i))
	}
	close(release)
	s.until("the completion is in the inbox", func() bool {
		return s.redis.LLen(s.ctx(), s.key("d-6", "in:d-6")).Val() == 1
	})
	s.orchestrate(orchestrator.Config{Member: "b"}, code)
	s.wantResult("d-6", "5")
}
