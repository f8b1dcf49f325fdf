package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

// snapshot is a copy of all keys, as after a restart from an old AOF, or a failover to a lagging replica.
type snapshot map[string]string

func (s *harness) snapshot() snapshot {
	s.t.Helper()
	// One script, so that the copy is consistent.
	const copyAll = `local out = {}
for _, k in ipairs(redis.call('KEYS', '*')) do
  out[#out + 1] = k
  out[#out + 1] = redis.call('DUMP', k)
end
return out`
	flat, err := s.redis.Eval(s.ctx(), copyAll, nil).StringSlice()
	if err != nil {
		s.t.Fatal(err)
	}
	out := make(snapshot)
	for i := 0; i < len(flat); i += 2 {
		out[flat[i]] = flat[i+1]
	}
	return out
}

func (s *harness) rollBack(to snapshot) {
	s.t.Helper()
	if _, err := s.redis.TxPipelined(s.ctx(), func(p redis.Pipeliner) error {
		p.FlushAll(s.ctx())
		for k, v := range to {
			p.Restore(s.ctx(), k, 0, v)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

func TestRollbackOfRedisUnderAnOwnerLosesNothing(t *testing.T) {
	s := newOwnHarness(t)
	const instances, events, rounds = 12, 12, 3
	collect := pawl.NewOrchestration[string, string]("collect")
	s.orchestrate(orchestrator.Config{}, collect.Do(func(ctx *pawl.Context, _ string) (string, error) {
		var got []string
		for range events {
			v, err := ping.Receive(ctx)
			if err != nil {
				return "", err
			}
			echo, err := greet.Call(ctx, v)
			if err != nil {
				return "", err
			}
			got = append(got, strings.TrimPrefix(echo, "hello "))
		}
		return strings.Join(got, ","), nil
	}))
	s.work(worker.Config{}, greet.Do(doGreet))
	for i := range instances {
		s.start("collect", fmt.Sprint("r-", i), `"x"`)
	}
	next := 0
	send := func(n int) {
		for range n {
			for i := range instances {
				s.event("ping", fmt.Sprint("r-", i), fmt.Sprintf("%q", fmt.Sprint("e", next)))
			}
			next++
		}
	}
	for range rounds {
		send(2)
		before := s.snapshot()
		send(2)
		s.until("some turns are committed", func() bool { return s.describe("r-0").Events > 5 })
		s.rollBack(before)
	}
	send(events - next)
	want := make([]string, events)
	for i := range want {
		want[i] = fmt.Sprint("e", i)
	}
	for i := range instances {
		d := s.ended(fmt.Sprint("r-", i))
		got, err := author.Result(collect).Decode(d.Result)
		if err != nil || got != strings.Join(want, ",") {
			t.Fatalf("r-%d: %q, %v, %v", i, got, err, d.Failure)
		}
	}
}

// Trap: a client receives "no such instance" although the start is in the stream.
func TestStartedInstanceIsNeverUnknown(t *testing.T) {
	s := newOwnHarness(t)
	const instances = 200
	code := hello.Do(func(ctx *pawl.Context, _ string) (string, error) { return ping.Receive(ctx) })
	o := s.orchestrate(orchestrator.Config{}, code)
	c := s.operator()
	known := func(when string) {
		t.Helper()
		for i := instances - 1; i >= 0; i -= 20 {
			s.until("it is described", func() bool {
				_, err := c.Describe(s.ctx(), fmt.Sprint("k-", i))
				if errors.Is(err, client.ErrNotFound) {
					t.Errorf("%s: %v", when, err)
				}
				return err == nil
			})
		}
	}
	before := s.snapshot()
	for i := range instances {
		s.start("hello", fmt.Sprint("k-", i), `"x"`)
	}
	s.stop(o)
	s.rollBack(before)
	s.orchestrate(orchestrator.Config{}, code)
	known("after a takeover")
	s.rollBack(before)
	known("after a rollback")
	s.until("an absent instance is unknown", func() bool {
		_, err := c.Describe(s.ctx(), "absent")
		return errors.Is(err, client.ErrNotFound)
	})
}

func TestLostTaskIsPublishedAgain(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 300 * time.Millisecond}, hello.Do(callGreet))
	s.start("hello", "t-1", `"you"`)
	s.until("the task is published", func() bool { return len(s.describe("t-1").Activities) == 1 })
	s.loseTasks()
	s.work(worker.Config{}, greet.Do(doGreet))
	if d := s.ended("t-1"); d.Status != "completed" {
		t.Fatalf("%+v", d)
	}
}

func TestActivityThatExhaustsItsClaimsIsPoisonAndFailsByName(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: 200 * time.Millisecond, MaxClaims: 2}, hello.Do(callGreet))
	s.start("hello", "p-1", `"you"`)
	s.until("it is outstanding", func() bool { return len(s.describe("p-1").Activities) == 1 })
	part, lease := s.conn.PartitionOf("p-1"), "l:p-1:1:2"
	key := fmt.Sprintf("pawl:{%s.%d}:%s", s.ns, part, lease)
	for claims := 1; claims <= 2; claims++ { // two workers that claimed and died
		if err := s.redis.HSet(s.ctx(), key, "t", "dead", "w", "dead", "u", "1", "d", "1000", "n", fmt.Sprint(claims)).Err(); err != nil {
			t.Fatal(err)
		}
		if claims == 1 {
			s.until("the claim is removed", func() bool { return s.redis.HGet(s.ctx(), key, "t").Err() == redis.Nil })
		}
	}
	if d := s.ended("p-1"); d.Status != "failed" || d.Failure.Code != "pawl.poison" {
		t.Fatalf("%+v %+v", d, d.Failure)
	}
}

func TestPartitionsMoveInMillisecondsWhenOrchestratorsJoinOrLeave(t *testing.T) {
	s := newHarness(t)
	const ttl = 30 * time.Second
	first := s.orchestrate(orchestrator.Config{Member: "a", OwnerTTL: ttl}, hello.Do(callGreet))
	s.until("the first owns all", func() bool { return len(first.Partitions()) == 8 })
	second := s.orchestrate(orchestrator.Config{Member: "b", OwnerTTL: ttl}, hello.Do(callGreet))
	begin := time.Now()
	s.until("both own partitions", func() bool {
		a, b := len(first.Partitions()), len(second.Partitions())
		return a > 0 && b > 0 && a+b == 8
	})
	t.Logf("joined in %v", time.Since(begin))
	begin = time.Now()
	s.stop(first)
	s.until("the second owns all", func() bool { return len(second.Partitions()) == 8 })
	if took := time.Since(begin); took > ttl/2 { // an owner that does not release its partitions keeps them for a whole TTL
		t.Errorf("a clean hand-over took %v", took)
	} else {
		t.Logf("left in %v", took)
	}
	s.work(worker.Config{}, greet.Do(doGreet))
	s.start("hello", "m-1", `"you"`)
	s.ended("m-1")
}

func TestTasksReturnedByAStoppingWorkerRunAtOnceDespiteABacklog(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{ReconcileInterval: time.Hour}, hello.Do(callGreet))
	began := make(chan struct{}, 100)
	first := s.work(worker.Config{Name: "first", Concurrency: 1, Drain: time.Millisecond, LeaseTTL: time.Minute}, greet.Do(func(ctx context.Context, _ string) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}))
	for i := range 5 { // one runs, the others are the backlog
		s.start("hello", fmt.Sprint("g-", i), `"you"`)
	}
	<-began
	s.stop(first)
	s.work(worker.Config{Name: "second", LeaseTTL: time.Minute}, greet.Do(doGreet))
	for i := range 5 {
		if d := s.ended(fmt.Sprint("g-", i)); d.Status != "completed" {
			t.Fatalf("%+v", d)
		}
	}
}
