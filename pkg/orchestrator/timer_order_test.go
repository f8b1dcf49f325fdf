package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// outage runs the instances until they wait, stops the orchestrator, and starts another one after their deadline. In between, before the
// deadline and while the partitions have no owner, it sends inputs.
func (s *harness) outage(cfg orchestrator.Config, code pawl.OrchestrationBinding, limit time.Duration, ids []string, send func(id string)) {
	s.t.Helper()
	o := s.orchestrate(cfg, code)
	began := time.Now()
	for _, id := range ids {
		s.start("hello", id, `"x"`)
	}
	all := time.Now()
	for _, id := range ids {
		s.until(id+" runs or, on a slow machine, has ended", func() bool {
			status := record.Status(s.describe(id).Status)
			return status == record.Running || status.Ended()
		})
	}
	s.stop(o)
	for _, id := range ids {
		send(id)
	}
	if late := time.Since(began); late > limit {
		s.t.Skipf("the machine took %v", late)
	}
	s.until("the deadline passes", func() bool { return time.Since(all) > limit+100*time.Millisecond })
	s.orchestrate(cfg, code)
}

// Trap: after an outage, a timer fires before the inputs that were accepted before its due time have been read.
func TestEventAcceptedBeforeADeadlineWinsAfterAnOutage(t *testing.T) {
	t.Parallel() // mostly waits
	const limit = 3 * time.Second
	s := newHarness(t)
	code := hello.Do(func(ctx *pawl.Context, _ string) (string, error) {
		event, deadline := ping.Next(ctx), pawl.After(ctx, limit)
		switch first, err := pawl.Select(ctx, event, deadline); {
		case err != nil:
			return "", err
		case first == deadline:
			return "deadline", nil
		}
		return event.Get(ctx)
	})
	var ids []string
	for i := range 16 {
		ids = append(ids, fmt.Sprint("o-", i))
	}
	s.outage(orchestrator.Config{}, code, limit, ids, func(id string) { s.event("ping", id, `"event"`) })
	for _, id := range ids {
		if got, err := author.Result(hello).Decode(s.ended(id).Result); err != nil || got != "event" {
			t.Errorf("%s: %q won, %v", id, got, err)
		}
	}
}

// The backlog is larger than one read of the inbox, and older than the timer: no input may be missing when the timer fires.
func TestTimerFiresAfterABacklogOfAnySize(t *testing.T) {
	const limit, events = 3 * time.Second, 700
	s := newHarness(t)
	code := hello.Do(func(ctx *pawl.Context, _ string) (string, error) { // the digest of the guide
		if err := pawl.Sleep(ctx, limit); err != nil {
			return "", err
		}
		all, err := ping.Drain(ctx)
		return fmt.Sprint(len(all)), err
	})
	s.outage(orchestrator.Config{}, code, limit, []string{"backlog"}, func(id string) {
		for range events {
			s.event("ping", id, `"x"`)
		}
	})
	if got, err := author.Result(hello).Decode(s.ended("backlog").Result); err != nil || got != fmt.Sprint(events) {
		t.Errorf("%s of %d events are before the timer, %v", got, events, err)
	}
}

// A second start that was accepted while the instance was still retained finds it, and starts no other.
func TestRetentionWaitsForStartsThatWereAcceptedBefore(t *testing.T) {
	t.Parallel() // mostly waits
	const kept = 3 * time.Second
	s := newHarness(t)
	code := hello.Do(func(*pawl.Context, string) (string, error) { return "", nil })
	cfg := orchestrator.Config{Retention: orchestrator.Retention{Completed: kept}}
	o := s.orchestrate(cfg, code)
	s.start("hello", "r", `"x"`)
	d := s.ended("r")
	s.stop(o)
	s.start("hello", "r", `"x"`)
	over := time.UnixMilli(d.Ended).Add(kept)
	if time.Now().After(over) {
		t.Skip("the machine is too slow")
	}
	s.until("its retention has passed", func() bool { return time.Now().After(over.Add(100 * time.Millisecond)) })
	c := counters(t)
	cfg.Metrics = c.reg
	s.orchestrate(cfg, code)
	s.until("it is purged", func() bool { return c.get("pawl_orchestrator_instances_purged_total") > 0 })
	if turns := c.get("pawl_orchestrator_turns_total"); turns != 0 {
		t.Errorf("%v turns: the second start has begun another instance", turns)
	}
}

// Events wait for a start for a day; a start that was accepted within that day receives them.
func TestEarlyEventsWaitForAStartThatWasAcceptedInTime(t *testing.T) {
	t.Parallel() // mostly waits
	s := newHarness(t)
	code := hello.Do(func(ctx *pawl.Context, _ string) (string, error) { return ping.Receive(ctx) })
	s.stop(s.orchestrate(orchestrator.Config{}, code))
	at := time.Now().Add(2*time.Second - 24*time.Hour)
	s.push("e", "ping", "kept", at)
	s.start("hello", "e", `"x"`)
	if time.Since(at) > 24*time.Hour {
		t.Skip("the machine is too slow")
	}
	s.until("a day has passed", func() bool { return time.Since(at) > 24*time.Hour+100*time.Millisecond })
	s.orchestrate(orchestrator.Config{}, code)
	if got, err := author.Result(hello).Decode(s.ended("e").Result); err != nil || got != "kept" {
		t.Errorf("%q, %v", got, err)
	}
}

// A completion whose doorbell was lost exists only in Redis. It arrived before the deadline, so it wins.
func TestTimerFiresAfterACompletionWhoseDoorbellWasLost(t *testing.T) {
	t.Parallel() // mostly waits
	const limit = 5 * time.Second
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: time.Minute}, hello.Do(func(ctx *pawl.Context, in string) (string, error) {
		return greet.Call(ctx, in, pawl.AttemptTimeout(limit))
	}))
	s.start("hello", "b", `"you"`)
	var e *history.ActivityScheduled
	s.until("the activity is scheduled", func() bool {
		if s.describe("b").Status == "running" {
			for _, ev := range s.history("b") {
				if a, ok := ev.(*history.ActivityScheduled); ok {
					e = a
				}
			}
		}
		return e != nil
	})
	if time.Since(time.UnixMilli(e.At)) > limit/2 {
		t.Skip("the machine is too slow") // the completion has to arrive before the deadline
	}
	body, err := eventcodec.Encode(&history.ActivityCompleted{Scheduled: e.ID, Result: history.Payload{Type: history.TypeJSON, Data: []byte(`"in time"`)}})
	if err != nil {
		t.Fatal(err)
	}
	// As ack.lua pushes it, but without the doorbell, and without the wakeup that would find it.
	el := eventcodec.Element{ID: "a" + e.Effect + ".1", At: time.Now().UnixMilli(), Body: body}
	if err := s.redis.RPush(s.ctx(), s.key("b", "in:b"), el.Encode()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.redis.Del(s.ctx(), s.key("b", fmt.Sprintf("l:b:1:%d", e.ID))).Err(); err != nil {
		t.Fatal(err)
	}
	d := s.ended("b")
	if got, err := author.Result(hello).Decode(d.Result); err != nil || got != "in time" {
		t.Errorf("%q, %v, %+v", got, err, d.Failure)
	}
}
