package partition_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redistest"
)

// forever is a TTL longer than any test: a partition that changes its owner within the test does so for another reason than expiry.
const forever = 10 * time.Minute

// broken is a connection to Redis that can be interrupted.
type broken struct{ down atomic.Bool }

var errBroken = errors.New("broken")

func (b *broken) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *broken) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if b.down.Load() {
			return errBroken
		}
		return next(ctx, cmd)
	}
}

func (b *broken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if b.down.Load() {
			return errBroken
		}
		return next(ctx, cmds)
	}
}

// interruptible starts a member that sends no heartbeats and renewals once its connection is interrupted.
func (f *fleet) interruptible(name string, s *redistest.Server) *broken {
	f.t.Helper()
	conn := &broken{}
	rdb := s.Client(f.t)
	rdb.AddHook(conn)
	f.start(partition.Config{Redis: rdb, Member: name, TTL: forever, Renew: 100 * time.Millisecond})
	f.t.Cleanup(func() { conn.down.Store(false) })
	return conn
}

// recorded counts the partitions that a member owns according to Redis.
func (f *fleet) recorded(member string) (n int) {
	f.t.Helper()
	for p := range parts {
		if m, err := f.rdb.HGet(f.ctx(), f.ns.Part(p).Owner(), "member").Result(); err == nil && m == member {
			n++
		}
	}
	return n
}

func TestDeadMemberIsReplacedBeforeItsOwnershipExpires(t *testing.T) {
	s := redistest.Start(t)
	f := newFleet(t, s.Client(t))
	conn := f.interruptible("a", s)
	f.until("a owns all", f.sharedBy("a"))
	gone := func(_ context.Context, member string) bool { return member == "a" }
	f.start(partition.Config{Redis: f.rdb, Member: "b", TTL: forever, Renew: 100 * time.Millisecond, Gone: gone})
	f.until("both share", f.sharedBy("a", "b"))
	conn.down.Store(true)
	f.until("b owns all", func() bool { return f.recorded("b") == parts })
	conn.down.Store(false) // it is still running: it is fenced, and is assigned its share again
	f.until("both share again, after clean hand-overs", func() bool {
		for _, p := range f.shareOf("a", "a", "b") {
			if now := f.tenure(p); now == nil || !now.Clean {
				return false
			}
		}
		return f.sharedBy("a", "b")() && f.recorded("a") == len(f.shareOf("a", "a", "b"))
	})
}

// shareOf lists the partitions of a member.
func (f *fleet) shareOf(member string, members ...string) (all []int) {
	for p := range parts {
		if partition.Rendezvous(members, p) == member {
			all = append(all, p)
		}
	}
	return all
}

// A member that is paused, or cut off from Redis, is silent; a member that reconnects to NATS has no listener for a moment.
func TestSilentMemberThatListensKeepsItsPartitions(t *testing.T) {
	for name, answer := range map[string]func(n int32) bool{
		"it listens":               func(int32) bool { return false },
		"it is missing for a time": func(n int32) bool { return n%2 == 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			f := newFleet(t, s.Client(t))
			conn := f.interruptible("a", s)
			f.until("a owns all", f.sharedBy("a"))
			var probes atomic.Int32
			f.start(partition.Config{Redis: f.rdb, Member: "b", TTL: forever, Renew: 100 * time.Millisecond, Gone: func(context.Context, string) bool { return answer(probes.Add(1)) }})
			f.until("both share", f.sharedBy("a", "b"))
			conn.down.Store(true)
			before := probes.Load()
			f.until("a was probed several times", func() bool { return probes.Load() > before+6 })
			if got, want := f.recorded("a"), len(f.shareOf("a", "a", "b")); got != want {
				t.Errorf("a owns %d partitions, want %d", got, want)
			}
		})
	}
}

// A member that NATS has lost is not even probed while it sends heartbeats.
func TestMemberThatSendsHeartbeatsIsNotDead(t *testing.T) {
	f := newFleet(t, redistest.Start(t).Client(t))
	var probes atomic.Int32
	gone := func(context.Context, string) bool { probes.Add(1); return true }
	f.start(partition.Config{Redis: f.rdb, Member: "a", TTL: forever, Renew: time.Minute, Gone: gone})
	b := f.start(partition.Config{Redis: f.rdb, Member: "b", TTL: forever, Renew: time.Minute, Gone: gone})
	f.until("both share", f.sharedBy("a", "b"))
	before := f.tenures()
	for range 5 {
		b.Nudge()
		wait(t, 50*time.Millisecond) // rounds are at least 10 ms apart
	}
	if n := probes.Load(); n > 0 {
		t.Errorf("%d probes", n)
	}
	for p, was := range before {
		if f.tenure(p) != was.tenure {
			t.Errorf("partition %d has moved", p)
		}
	}
}

// A process that restarts under the same name does not wait for its own ownership to expire.
func TestMemberOfTheSameNameAcquiresItsFormerPartitions(t *testing.T) {
	s := redistest.Start(t)
	f := newFleet(t, s.Client(t))
	conn := f.interruptible("a", s)
	f.until("a owns all", f.sharedBy("a"))
	earlier := f.tenures()
	conn.down.Store(true)
	f.start(partition.Config{Redis: f.rdb, Member: "a", TTL: forever, Renew: 100 * time.Millisecond})
	f.until("the second a owns all", func() bool {
		for p, was := range earlier {
			token, err := f.rdb.HGet(f.ctx(), f.ns.Part(p).Owner(), "owner").Result()
			if err != nil || token == was.tenure.Token {
				return false
			}
		}
		return true
	})
}
