package orchestrator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// pingFar sends an event to another instance, and then waits.
func pingFar(ctx *pawl.Context, in string) (string, error) {
	if err := ping.Send(ctx, "far", in); err != nil {
		return "", err
	}
	return ping.Receive(ctx)
}

// leaveUnmarkedOutbox leaves an instance of pingFar whose outbox is published but not marked as such, as after a crash between
// the acknowledgement by the stream and the mark.
func (s *harness) leaveUnmarkedOutbox(id string) {
	s.t.Helper()
	first := s.orchestrate(orchestrator.Config{Member: "a"}, hello.Do(pingFar))
	s.start("hello", id, `"x"`)
	s.until("it has sent its event", func() bool { return s.describe(id).Status == "running" && s.pending(id) == 0 })
	s.stop(first)
	if err := s.redis.HDel(s.ctx(), s.key(id, "i:"+id), "pub").Err(); err != nil {
		s.t.Fatal(err)
	}
	s.reconcileNow(id)
}

// If a message were sent again at every reconciliation, its receiver would accept it again an hour later, after it has dropped the id.
func TestOutboxOfASleepingInstanceIsRepublishedOnceAndTrimmed(t *testing.T) {
	s := newHarness(t)
	s.leaveUnmarkedOutbox("p-1")
	s.orchestrate(orchestrator.Config{Member: "b"}, hello.Do(pingFar))
	s.until("the outbox is trimmed", func() bool { return s.pending("p-1") == 0 })
	if n := s.messages(s.subject("in.*.own.far.event.ping")); n > 2 {
		t.Errorf("it was sent %d times", n)
	}
	s.event("ping", "p-1", `"go"`)
	s.ended("p-1")
}

func TestOutboxOfAStalledInstanceIsRepublishedOnceAndTrimmed(t *testing.T) {
	s := newHarness(t)
	s.leaveUnmarkedOutbox("p-1")
	s.publish(message.OutInput{Instance: "p-1", Kind: message.KindCancel, By: "ops"})
	b := s.orchestrate(orchestrator.Config{Member: "b"}, only.Do(waitForPing))
	s.until("it is stalled, and its outbox is trimmed", func() bool { return s.describe("p-1").Stalled != "" && s.describe("p-1").PendingMessages == 0 })
	s.stop(b)
	s.orchestrate(orchestrator.Config{Member: "c"}, hello.Do(pingFar))
	if d := s.ended("p-1"); d.Status != "cancelled" {
		t.Errorf("%s", d.Status)
	}
}

// maxMessage makes INPUTS reject larger messages.
func (s streamHarness) maxMessage(bytes int32) {
	s.t.Helper()
	js, st := s.inputs()
	cfg := st.CachedInfo().Config
	cfg.MaxMsgSize = bytes
	if _, err := js.UpdateStream(s.ctx(), cfg); err != nil {
		s.t.Fatal(err)
	}
}

func TestOversizedEndOfAChildIsReportedToItsParent(t *testing.T) {
	s := newHarness(t)
	big := strings.Repeat("x", 100<<10)
	s.orchestrate(orchestrator.Config{},
		only.Do(func(_ *pawl.Context, in string) (string, error) {
			if in == "fail" {
				return "", pawl.WithData(errToo, big)
			}
			return big, nil
		}),
		hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
			if _, err := only.Call(ctx, "fail", pawl.ID("c-1")); !errors.Is(err, errToo) {
				return "", fmt.Errorf("unexpected failure of the child: %w", err)
			}
			_, err := only.Call(ctx, "", pawl.ID("c-2"))
			return "", err
		}))
	s.maxMessage(64 << 10)
	s.start("hello", "p-1", `"x"`)
	d := s.ended("p-1")
	if d.Failure == nil || d.Failure.Code != history.CodeTooLarge || !strings.Contains(d.Failure.Message, "child c-2") {
		t.Fatalf("%+v", d.Failure)
	}
}

func TestOversizedStartOfAChildIsReportedToItsParent(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		return only.Call(ctx, strings.Repeat("x", 100<<10), pawl.ID("c-1"))
	}))
	s.maxMessage(64 << 10)
	s.start("hello", "p-1", `"x"`)
	if d := s.ended("p-1"); d.Failure == nil || d.Failure.Code != history.CodeTooLarge {
		t.Fatalf("%+v", d.Failure)
	}
}

func TestCustomStatusOfChangedCodeThatSetsItLessOftenIsPublished(t *testing.T) {
	s := newHarness(t)
	sets := func(times int) func(*pawl.Context, string) (string, error) {
		return func(ctx *pawl.Context, _ string) (string, error) {
			for n := range times {
				if err := shown.Set(ctx, n); err != nil {
					return "", err
				}
			}
			if _, err := ping.Receive(ctx); err != nil {
				return "", err
			}
			if err := shown.Set(ctx, 99); err != nil {
				return "", err
			}
			return ping.Receive(ctx)
		}
	}
	first := s.orchestrate(orchestrator.Config{Member: "a"}, hello.Do(sets(3)))
	s.start("hello", "s-1", `"x"`)
	s.until("it is shown", func() bool { d := s.describe("s-1"); return d.CustomStatus != nil && d.CustomStatus.Version == 3 })
	s.stop(first)
	s.orchestrate(orchestrator.Config{Member: "b"}, hello.Do(sets(1)))
	s.event("ping", "s-1", `"go"`)
	s.until("the status of the new code is shown", func() bool {
		d := s.describe("s-1")
		if d.CustomStatus == nil || d.CustomStatus.Version != 4 {
			return false
		}
		n, err := author.Value(shown).Decode(d.CustomStatus.Payload)
		return err == nil && n == 99
	})
}
