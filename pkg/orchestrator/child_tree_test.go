package orchestrator_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

var bomb = pawl.NewOrchestration[int, int]("bomb")

// Trap: children of children. A tree that keeps starting children grows as fast as its cancellation follows it.
func TestCancellationEndsATreeThatKeepsStartingChildren(t *testing.T) {
	s := newHarness(t)
	var deepest, running atomic.Int64
	code := bomb.Do(func(ctx *pawl.Context, depth int) (int, error) {
		deepest.Store(max(deepest.Load(), int64(depth)))
		running.Add(1)
		for {
			if _, err := bomb.Call(ctx, depth+1); pawl.Err(ctx) != nil {
				return 0, err // otherwise it starts another child, however this one has ended
			}
		}
	})
	cfg := orchestrator.Config{Limits: orchestrator.Limits{Depth: 1 << 20}}
	s.orchestrate(cfg, code)
	cfg.Member = "other" // two processes: marks set by one must reach the other
	s.orchestrate(cfg, code)
	s.start("bomb", "root", `0`)
	s.until("the tree has grown", func() bool { return deepest.Load() >= 10 })
	s.publish(message.OutInput{Instance: "root", Kind: message.KindCancel, By: "ops"})
	s.until("no instance runs", func() bool {
		for p := range 8 {
			if list, err := s.store.List(s.ctx(), p, store.ListQuery{Statuses: []record.Status{record.Running}, Limit: 1}); err != nil || len(list.Rows) > 0 {
				return false
			}
		}
		return s.describe("root").Status == "cancelled"
	})
	t.Logf("%d levels, %d instances", deepest.Load(), running.Load())
}

// Children in a detached scope are not cancelled with their parent, and neither are their own children.
func TestCompensationByChildrenRunsBelowACancelledParent(t *testing.T) {
	s := newHarness(t)
	var compensated atomic.Int64
	s.orchestrate(orchestrator.Config{}, bomb.Do(func(ctx *pawl.Context, depth int) (int, error) {
		if depth < 0 { // a compensation, which starts a child itself
			if depth == -1 {
				_, err := bomb.Call(ctx, -2)
				return 0, err
			}
			compensated.Add(1)
			return 0, nil
		}
		if depth == 5 {
			_, err := ping.Receive(ctx)
			if _, failed := bomb.Call(pawl.Detach(ctx), -1); failed != nil {
				t.Errorf("the compensation failed: %v", failed)
			}
			return 0, err
		}
		return bomb.Call(ctx, depth+1, pawl.ID([]string{"1", "2", "3", "4", "5"}[depth]))
	}))
	s.start("bomb", "root", `0`)
	s.until("the last one waits", func() bool { return s.describe("5").Status == "running" })
	s.publish(message.OutInput{Instance: "root", Kind: message.KindCancel})
	if d := s.ended("5"); d.Status != "cancelled" || compensated.Load() != 1 {
		t.Errorf("%s, %d compensations", d.Status, compensated.Load())
	}
}

func TestChildBelowTheMaximumDepthIsRejectedAtTheCall(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{Limits: orchestrator.Limits{Depth: 3}}, bomb.Do(func(ctx *pawl.Context, depth int) (int, error) {
		n, err := bomb.Call(ctx, depth+1)
		if errors.Is(err, pawl.ErrTooDeep) {
			return depth, nil
		}
		return n, err
	}))
	s.start("bomb", "root", `0`)
	d := s.ended("root")
	if got, err := author.Result(bomb).Decode(d.Result); err != nil || got != 3 {
		t.Errorf("the last of the line has depth %d, %v, %+v", got, err, d.Failure)
	}
}
