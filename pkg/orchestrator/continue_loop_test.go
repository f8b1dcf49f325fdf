package orchestrator_test

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// Trap: a loop that no operator can end, because its next start is in the inbox before each cancellation and purge.
func TestLoopOfContinueAsNewCanBeCancelledAndPurged(t *testing.T) {
	s := newHarness(t)
	var rejected sync.Map // by instance: a replay, for example for a description, returns the error again
	s.orchestrate(orchestrator.Config{}, counter.Do(func(ctx *pawl.Context, t tally) (int, error) {
		t.Rounds++
		n, err := counter.ContinueAsNew(ctx, t)
		if err != nil {
			rejected.Store(pawl.Instance(ctx).Instance, true)
		}
		return n, err
	}))
	for _, id := range []string{"alone", "backlog", "purged"} {
		s.start("counter", id, `{}`)
		s.until(id+" loops", func() bool { return s.describe(id).Execution > 5 })
		if id != "alone" { // more than the owner reads from an inbox at once
			for range 400 {
				s.conn.PublishInputAsync(message.OutInput{Instance: id, Kind: message.KindEvent, Name: "add"}, func(uint64, error) {})
			}
			s.until("the events have arrived", func() bool { return s.describe(id).UnreadInputs >= 400 })
		}
	}
	for _, id := range []string{"alone", "backlog"} {
		s.publish(message.OutInput{Instance: id, Kind: message.KindCancel, By: "ops", Text: "enough"})
		s.until("it ends", func() bool { // a description would run the code on a replica
			rec, err := s.store.Record(s.ctx(), s.conn.PartitionOf(id), id)
			return err == nil && rec != nil && rec.Status.Ended()
		})
		d := s.describe(id)
		if d.Status != "cancelled" || !strings.Contains(d.Failure.Message, "enough") {
			t.Errorf("%s: %s, %+v", id, d.Status, d.Failure)
		}
		if e, ok := s.history(id)[0].(*history.Started); !ok || e.Cancel == nil || e.Cancel.By != "ops" {
			t.Errorf("%s began as %+v", id, e)
		}
	}
	for id, want := range map[string]bool{"alone": true, "backlog": true, "purged": false} {
		if _, got := rejected.Load(id); got != want {
			t.Errorf("%s: the code got the error: %v, want %v", id, got, want)
		}
	}
	s.publish(message.OutInput{Instance: "purged", Kind: message.KindPurge, Force: true})
	s.until("it is purged", func() bool { return s.describe("purged").Status == "" })
}

// The rate at which an instance begins executions is limited; its neighbors do not wait for it.
func TestExecutionsOfOneInstanceArePaced(t *testing.T) {
	s := newHarness(t)
	c := counters(t)
	s.orchestrate(orchestrator.Config{Metrics: c.reg}, counter.Do(func(ctx *pawl.Context, t tally) (int, error) {
		if t.Count > 0 {
			return t.Count, nil
		}
		return counter.ContinueAsNew(ctx, t)
	}))
	ids := s.samePartition(2)
	begun := time.Now()
	s.start("counter", ids[0], `{}`)
	s.until("its executions are paced", func() bool { return c.get("pawl_orchestrator_executions_paced_total") > 2 })
	s.start("counter", ids[1], `{"Count":1}`)
	if d := s.ended(ids[1]); d.Status != "completed" {
		t.Errorf("%+v", d)
	}
	if n, most := s.describe(ids[0]).Execution, 401+21*uint64(time.Since(begun).Seconds()+1); n > most {
		t.Errorf("%d executions, want at most %d", n, most)
	}
	s.publish(message.OutInput{Instance: ids[0], Kind: message.KindCancel})
	s.ended(ids[0])
}

// Trap: abandoned code spins until the process ends.
func TestAbandonedCodeEndsAtItsNextCall(t *testing.T) {
	for name, spin := range map[string]func(*pawl.Context){
		"Sleep":   func(ctx *pawl.Context) { _ = pawl.Sleep(ctx, 0) },
		"Now":     func(ctx *pawl.Context) { pawl.Now(ctx) },
		"Receive": func(ctx *pawl.Context) { _, _, _ = ping.TryReceive(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newHarness(t)
			var left, begun atomic.Int64
			s.orchestrate(orchestrator.Config{TurnLimit: 100 * time.Millisecond}, hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
				begun.Add(1)
				defer left.Add(1)
				for {
					spin(ctx)
					runtime.Gosched()
				}
			}))
			s.start("hello", "h-1", `"x"`)
			s.until("all of its goroutines have ended", func() bool { return begun.Load() > 0 && left.Load() == begun.Load() })
		})
	}
}
