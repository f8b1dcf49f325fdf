package orchestrator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// restorePartition restores one partition from a copy, as if one of several masters had restarted.
func (s *harness) restorePartition(partition int, to snapshot) {
	s.t.Helper()
	prefix := s.space.Part(partition).Prefix()
	now := s.snapshot()
	if _, err := s.redis.TxPipelined(s.ctx(), func(p redis.Pipeliner) error {
		for k := range now {
			if strings.HasPrefix(k, prefix) {
				p.Del(s.ctx(), k)
			}
		}
		for k, v := range to {
			if strings.HasPrefix(k, prefix) {
				p.Restore(s.ctx(), k, 0, v)
			}
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

// The turn that Redis has lost took only the start, and started the child. The turn that replaces it takes the
// start and the cancellation together.
func TestChildOfALostTurnIsCancelledByTheTurnThatSchedulesAndCancelsIt(t *testing.T) {
	s := newOwnHarness(t)
	bs := []pawl.OrchestrationBinding{only.Do(waitForPing), race.Do(func(ctx *pawl.Context, in string) (string, error) {
		return only.Call(ctx, in, pawl.ID("c-1"))
	})}
	parent := "p-0"
	for n := 1; s.conn.PartitionOf(parent) == s.conn.PartitionOf("c-1"); n++ {
		parent = fmt.Sprint("p-", n)
	}
	s.stop(s.orchestrate(orchestrator.Config{Member: "a"}, bs...))
	before := s.snapshot()
	b := s.orchestrate(orchestrator.Config{Member: "b"}, bs...)
	s.start("race", parent, `"x"`)
	s.until("the child runs", func() bool { return s.describe("c-1").Status == "running" })
	s.stop(b)
	s.publish(message.OutInput{Instance: parent, Kind: message.KindCancel, By: "ops", Text: "enough"})
	s.restorePartition(s.conn.PartitionOf(parent), before)
	c := s.orchestrate(orchestrator.Config{Member: "c"}, bs[0]) // it has no code for the parent, so both inputs of the parent are in its inbox before a turn
	s.until("both are unread", func() bool { return s.describe(parent).UnreadInputs == 2 })
	s.stop(c)
	s.orchestrate(orchestrator.Config{Member: "d"}, bs...)
	for _, id := range []string{parent, "c-1"} {
		if d := s.ended(id); d.Status != "cancelled" {
			t.Errorf("%s is %s", id, d.Status)
		}
	}
	s.until("every outbox is empty", func() bool { return s.pending(parent) == 0 && s.pending("c-1") == 0 })
}
