package orchestrator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// corruptions returns functions that corrupt a key of an instance that waits for an activity: they change its type, or its content.
func corruptions(s *harness) map[string]func(p redisx.Part, id string) {
	text := func(key string) {
		s.redis.Del(s.ctx(), key)
		s.redis.Set(s.ctx(), key, "a text", 0)
	}
	all := map[string]func(p redisx.Part, id string){
		"record of another type":      func(p redisx.Part, id string) { text(p.Instance(id)) },
		"record that does not decode": func(p redisx.Part, id string) { s.redis.HSet(s.ctx(), p.Instance(id), "execution", "x", "orig", "x") },
		"record without head":         func(p redisx.Part, id string) { s.redis.HDel(s.ctx(), p.Instance(id), "head") },
		"history of another type":     func(p redisx.Part, id string) { text(p.History(id, 1)) },
		"history that does not decode": func(p redisx.Part, id string) {
			s.redis.LSet(s.ctx(), p.History(id, 1), 0, "\xff garbage")
		},
		"history that is too long":        func(p redisx.Part, id string) { s.redis.RPush(s.ctx(), p.History(id, 1), "\xff") },
		"inbox of another type":           func(p redisx.Part, id string) { text(p.Inbox(id)) },
		"inbox that does not decode":      func(p redisx.Part, id string) { s.redis.RPush(s.ctx(), p.Inbox(id), "garbage", "s1.2\nx\n") },
		"message ids of another type":     func(p redisx.Part, id string) { text(p.Seen(id)) },
		"message ids without an instance": func(p redisx.Part, id string) { s.redis.ZAdd(s.ctx(), p.Seen(id), zNow("x").Members...) },
		"reports of another type":         func(p redisx.Part, id string) { text(p.Reports(id, 1)) },
		"reports that do not decode":      func(p redisx.Part, id string) { s.redis.HSet(s.ctx(), p.Reports(id, 1), "2", "garbage") },
		"lease of another type":           func(p redisx.Part, id string) { text(p.Lease(id, 1, 2)) },
		"lease of another effect":         func(p redisx.Part, id string) { s.redis.HSet(s.ctx(), p.Lease(id, 1, 2), "e", "x", "u", "y") },
		"stalled entry that is no JSON":   func(p redisx.Part, id string) { s.redis.HSet(s.ctx(), p.Stalled(), id, "garbage") },
		"keys of other executions":        func(p redisx.Part, id string) { text(p.History(id, 7)); text(p.Lease(id, 7, 9)); text(p.Instance(id)) },
	}
	all["everything of another type"] = func(p redisx.Part, id string) {
		for _, key := range []string{p.Instance(id), p.History(id, 1), p.Inbox(id), p.Seen(id), p.Reports(id, 1), p.Lease(id, 1, 2)} {
			text(key)
		}
	}
	return all
}

func TestForcedPurgeRemovesCorruptInstances(t *testing.T) {
	s := newHarness(t)
	os := []pawl.OrchestrationBinding{race.Do(waitPing), hello.Do(callSlow)}
	c, err := client.New(s.ctx(), s.nats, client.Options{Namespace: s.ns, RepeatInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := s.orchestrate(orchestrator.Config{}, os...)
	all := corruptions(s)
	names := slices.Sorted(maps.Keys(all))
	ids := s.samePartition(2*len(names) + 1)
	part := s.space.Part(s.conn.PartitionOf(ids[0]))
	beside, ids := ids[0], ids[1:]
	s.start("race", beside, `"x"`)
	for _, id := range ids {
		s.start("hello", id, `"x"`)
	}
	for _, id := range ids {
		s.until(id+" waits", func() bool { return s.redis.Exists(s.ctx(), part.Lease(id, 1, 2)).Val() == 1 })
	}
	for i, when := range []string{"in memory", "not in memory"} {
		if i > 0 {
			s.stop(o)
		}
		mine := ids[i*len(names) : (i+1)*len(names)]
		for k, name := range names {
			all[name](part, mine[k])
		}
		if i > 0 {
			s.orchestrate(orchestrator.Config{Member: "next"}, os...)
		}
		for k, name := range names {
			s.purgeAndRestart(c, fmt.Sprintf("%s, %s", name, when), mine[k])
		}
	}
	s.event("ping", beside, `"go"`)
	if d := s.ended(beside); record.Status(d.Status) != record.Completed {
		t.Errorf("the neighbor: %+v", d)
	}
}

// purgeAndRestart purges an instance by force, and starts another one with its id.
func (s *harness) purgeAndRestart(c *client.Client, what, id string) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.ctx(), time.Minute)
	defer stop()
	part := s.space.Part(s.conn.PartitionOf(id))
	if err := c.Purge(ctx, id, client.Force()); err != nil {
		s.t.Errorf("%s: %v", what, err)
		return
	}
	left := s.left(id)
	left = slices.DeleteFunc(left, func(k string) bool { n, ok := part.Parse(k); return ok && n.Instance != id }) // n-1 and n-10
	if typ := s.redis.Type(ctx, part.Seen(id)).Val(); len(left) > 0 || typ != "none" && typ != "zset" {
		s.t.Errorf("%s: left: %v; message ids: %s", what, left, typ)
	}
	if s.redis.HExists(ctx, part.Stalled(), id).Val() {
		s.t.Errorf("%s: it is listed as stalled", what)
	}
	s.start("hello", id, `"x"`)
	s.until(what+": the next one runs", func() bool { return s.redis.Exists(ctx, part.Lease(id, 1, 2)).Val() == 1 })
}

func TestForcedPurgeOfAnUnreadableChildIsReportedToItsParent(t *testing.T) {
	s := newHarness(t)
	s.orchestrate(orchestrator.Config{}, only.Do(callSlow), hello.Do(func(ctx *pawl.Context, in string) (string, error) { return only.Call(ctx, in, pawl.ID("child")) }))
	s.start("hello", "p-1", `"x"`)
	part := s.space.Part(s.conn.PartitionOf("child"))
	s.until("the child waits", func() bool { return s.redis.Exists(s.ctx(), part.Lease("child", 1, 2)).Val() == 1 })
	s.redis.LSet(s.ctx(), part.History("child", 1), 0, "\xff")
	s.event("noise", "child", `1`)
	s.redis.RPush(s.ctx(), part.History("child", 1), "\xff")
	if a := s.purge("child", true); a.Problem != nil {
		t.Fatalf("%+v", a.Problem)
	}
	if d := s.ended("p-1"); d.Failure == nil || d.Failure.Code != history.CodeCancelled {
		t.Errorf("%s, %+v", d.Status, d.Failure)
	}
}
