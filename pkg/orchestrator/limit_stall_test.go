package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// A stall may last until other code is deployed, but the activity has ended, and other callers wait for its slot.
func TestEndedActivityReleasesItsSlotWhileItsInstanceIsStalled(t *testing.T) {
	t.Parallel() // mostly waits
	for _, c := range []struct {
		name string
		code []pawl.OrchestrationBinding // replaces the code that called the activity
	}{
		{"unregistered", nil},
		{"diverged", []pawl.OrchestrationBinding{hello.Do(callGreet)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, held := newHarness(t), newHeldActivity()
			limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
			call := func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }
			other := pawl.NewOrchestration[string, string]("other")
			first := s.orchestrate(orchestrator.Config{}, hello.Do(call))
			s.work(worker.Config{}, limited.Do(held.do))
			s.start("hello", "h", `"h"`)
			s.receive(held.began)
			s.stop(first)
			s.orchestrate(orchestrator.Config{ReconcileInterval: time.Minute}, append(c.code, other.Do(call))...)
			s.start("other", "o", `"o"`)
			s.waiting("limited", 1)
			held.end <- struct{}{}
			began := time.Now()
			if caller := s.receive(held.began); caller != "o" {
				t.Fatal(caller)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("the slot was kept for %v", d)
			}
			close(held.end)
			s.ended("o")
			s.quiet("limited")
			if d := s.describe("h"); d.Status != "running" {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Trap: only the first of several notices that arrive together is applied. If its slot stays in use, no other slot would ever be
// released.
func TestUnusedSlotsOfAStalledInstanceAreReleasedTogether(t *testing.T) {
	t.Parallel() // mostly waits
	const slots = 12
	s, held := newHarness(t), newHeldActivity()
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(slots))
	other := pawl.NewOrchestration[string, string]("other")
	calls := func(ctx *pawl.Context, caller string) (string, error) {
		var all []*pawl.Future[string]
		for range slots {
			all = append(all, limited.Start(ctx, caller))
		}
		_, err := pawl.All(ctx, all...)
		return caller, err
	}
	first := s.orchestrate(orchestrator.Config{}, hello.Do(calls))
	s.work(worker.Config{Concurrency: 2 * slots}, limited.Do(held.do))
	s.start("hello", "h", `"h"`)
	for range slots {
		s.receive(held.began)
	}
	s.stop(first)
	s.orchestrate(orchestrator.Config{ReconcileInterval: time.Minute}, other.Do(calls))
	s.start("other", "o", `"o"`)
	s.waiting("limited", slots)
	for range slots {
		held.end <- struct{}{}
	}
	began := time.Now()
	for range slots {
		s.receive(held.began)
	}
	if d := time.Since(began); d > 25*time.Second {
		t.Errorf("they were released within %v", d)
	}
	close(held.end)
	s.ended("o")
	s.quiet("limited")
}

// The turn that entered the limit was lost, and now its code is missing. The call will enter again later.
func TestSlotOfALostTurnIsReleasedWhileItsInstanceIsStalled(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, hello.Do(callGreet))
	s.start("undeployed", "h", `"h"`)
	s.enter("limited", limit.Member{Ticket: "lost", Instance: "h", Place: limit.ActivityPlace(1, 2)})
	s.quiet("limited")
}

// Events are kept for a day for a start that may never arrive.
func TestOrphanedSlotIsReleasedAlthoughEventsWaitForTheStart(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, hello.Do(callGreet))
	s.event("ping", "h", `1`)
	s.until("the event is kept", func() bool { return s.redis.HExists(context.Background(), s.key("h", "stalled"), "h").Val() })
	s.enter("limited", limit.Member{Ticket: "lost", Instance: "h", Place: limit.ActivityPlace(1, 2)})
	s.quiet("limited")
}

// lingering delays the reply of the first reconciliation of an instance without a start, and the second reconciliation itself.
type lingering struct {
	on         atomic.Bool
	seen       atomic.Int32
	reconciled chan struct{} // signaled after the first reconciliation was carried out, and before the second
	replied    chan struct{} // closed to deliver the reply of the first. Its owner may repeat it before, as the second one
	proceed    chan struct{} // closed to carry out the second
}

func (*lingering) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*lingering) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (w *lingering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, all []redis.Cmder) error {
		for _, c := range all {
			if !w.on.Load() || !strings.Contains(fmt.Sprint(c.Args()...), "not-started") {
				continue
			}
			switch w.seen.Add(1) {
			case 1:
				defer func() { w.reconciled <- struct{}{}; <-w.replied }()
			case 2:
				w.reconciled <- struct{}{}
				<-w.proceed
			}
		}
		return next(ctx, all)
	}
}

func (s limitHarness) reconciled(at *lingering) {
	s.t.Helper()
	select {
	case <-at.reconciled:
	case <-time.After(time.Minute):
		s.t.Error("no reconciliation")
	}
}

// Trap: a reconciliation describes the state when it was sent. A later notice may be about a later entry, by another owner.
func TestOrphanedSlotIsReleasedByAReconciliationAfterTheNotice(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	held := &lingering{reconciled: make(chan struct{}, 2), replied: make(chan struct{}), proceed: make(chan struct{})}
	s.redis.AddHook(held)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 10 * time.Second}, hello.Do(callGreet))
	s.event("ping", "h", `1`)
	s.until("the event is kept", func() bool { return s.redis.HExists(context.Background(), s.key("h", "stalled"), "h").Val() })
	held.on.Store(true)
	before := limit.Member{Ticket: "before", Instance: "h", Place: limit.ActivityPlace(1, 2)}
	after := limit.Member{Ticket: "after", Instance: "h", Place: limit.ActivityPlace(1, 3)}
	s.enterWith("limited", history.Policy{Concurrency: 2}, before)
	s.reconciled(held)
	s.enterWith("limited", history.Policy{Concurrency: 2}, after)
	notice := message.LimitNotice{Limit: "limited", Member: after.String(), At: time.Now().Add(time.Second).UnixMilli()}
	if err := s.conn.SendLimitNotices(s.conn.PartitionOf("h"), []message.LimitNotice{notice}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		s.describe("h") // the notice has arrived before the last description
	}
	close(held.replied)
	s.reconciled(held)
	if s.stats("limited").Active == 0 {
		t.Error("the earlier reconciliation released both")
	}
	close(held.proceed)
	s.quiet("limited")
}

// cut permits one commit of an instance, and fails all others while on is set.
type cut struct {
	instance string
	on       atomic.Bool
	seen     atomic.Int32
}

func (*cut) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*cut) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (w *cut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return failing(next, func(args []any) error {
		if len(args) > 7 && strings.Contains(fmt.Sprint(args[7]), ":h:"+w.instance+":") && w.seen.Add(1) > 1 && w.on.Load() {
			return errors.New("the node of the instance is unreachable")
		}
		return nil
	})
}

// Between two commits a rejection exists only in memory, and a takeover loads only instances that are due within one interval.
func TestUncommittedRejectionIsReconciledWithinOneInterval(t *testing.T) {
	s, held := newHarness(t), newHeldActivity()
	limited := pawl.NewActivity[string, string]("limited", pawl.Concurrency(1), pawl.Reject())
	const interval = 10 * time.Second
	unreachable := &cut{instance: "h-1"}
	unreachable.on.Store(true)
	s.redis.AddHook(unreachable)
	s.orchestrate(orchestrator.Config{ReconcileInterval: interval}, hello.Do(func(ctx *pawl.Context, caller string) (string, error) { return limited.Call(ctx, caller) }))
	s.work(worker.Config{}, limited.Do(held.do))
	s.start("hello", "h-0", `"h-0"`)
	s.receive(held.began)
	s.start("hello", "h-1", `"h-1"`)
	s.until("the rejection is being committed", func() bool { return unreachable.seen.Load() > 1 })
	at, err := s.redis.ZScore(s.ctx(), s.key("h-1", "wakeups"), "h-1").Result()
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Until(time.UnixMilli(int64(at))); d > interval {
		t.Errorf("its wakeup is in %v", d)
	}
	unreachable.on.Store(false)
	if d := s.ended("h-1"); d.Status != "failed" || d.Failure.Code != history.CodeLimited {
		t.Errorf("%s: %+v", d.Status, d.Failure)
	}
	close(held.end)
	s.ended("h-0")
	s.quiet("limited")
}
