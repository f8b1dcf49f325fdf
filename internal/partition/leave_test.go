package partition_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redistest"
)

// slow is a connection to Redis that, once it is armed, delays the next heartbeat so that other calls can overtake it.
type slow struct {
	armed atomic.Bool
	held  chan struct{} // closed when a heartbeat is delayed
	left  chan struct{} // closed when a member has left
	beats atomic.Int32  // the delayed heartbeat, and those after it
}

// overtaking is how long a heartbeat is delayed if no member leaves in that time. Within it the test has to call Stop. It is half of the time
// after which a call is repeated.
const overtaking = 1500 * time.Millisecond

func (s *slow) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		beats, leaves := s.about(cmds)
		if beats {
			s.beats.Add(1)
		}
		if beats && s.armed.CompareAndSwap(true, false) {
			s.beats.Store(1)
			close(s.held)
			select {
			case <-s.left:
			case <-time.After(overtaking):
			}
		}
		err := next(ctx, cmds)
		if leaves {
			close(s.left)
		}
		return err
	}
}

// arm delays the next heartbeat, and returns when it is delayed.
func (s *slow) arm(k *partition.Keeper) {
	s.armed.Store(true)
	k.Nudge()
	<-s.held
}

// beating returns a fleet of one member, which owns all partitions, and whose heartbeat is delayed.
func beating(t *testing.T, s *redistest.Server) (*slow, *fleet, *partition.Keeper) {
	t.Helper()
	conn := &slow{held: make(chan struct{}), left: make(chan struct{})}
	rdb := s.Client(t)
	rdb.AddHook(conn)
	f := newFleet(t, rdb)
	k := f.memberOf("a", f.rdb, time.Minute, 20*time.Second) // a heartbeat may take most of a renewal interval
	f.until("a owns all", func() bool { return len(f.owners()) == parts })
	conn.arm(k)
	return conn, f, k
}

// about reports whether a heartbeat is among the calls, and whether a member leaves with one of them: its span is 0.
func (s *slow) about(cmds []redis.Cmder) (beats, leaves bool) {
	for _, cmd := range cmds {
		if a := cmd.Args(); len(a) == 8 && a[4] == "a" && a[0] == "EVALSHA" { // script, number of keys, key; member, its span, that of others, its reach
			beats = beats || a[5] != int64(0)
			leaves = leaves || a[5] == int64(0)
		}
	}
	return beats, leaves
}

// A heartbeat that takes effect after its member has left would keep the member for a whole TTL, and its partitions without an
// owner.
func TestHeartbeatDoesNotReviveMemberThatLeft(t *testing.T) {
	t.Parallel() // mostly waits
	s := redistest.Start(t)
	_, f, k := beating(t, s)
	if err := k.Stop(f.ctx()); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Client(t).HKeys(f.ctx(), f.ns.Members()).Result(); err != nil || len(all) > 0 {
		t.Errorf("members after all have left: %q (%v)", all, err)
	}
}

// If Redis does not answer, a heartbeat takes up to a renewal interval, and Stop waits for it whatever its context is.
func TestStoppedMemberSendsNoHeartbeat(t *testing.T) {
	t.Parallel() // mostly waits
	s := redistest.Start(t)
	for i := range 8 { // select chooses between a nudge and a stop at random
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			conn, f, k := beating(t, s)
			k.Nudge()
			if err := k.Stop(f.ctx()); err != nil {
				t.Fatal(err)
			}
			if n := conn.beats.Load(); n != 1 {
				t.Fatalf("%d heartbeats, want only the delayed one", n)
			}
		})
	}
}

// late is a connection to Redis on which the replies to the first acquisitions are delayed.
type late struct {
	release chan struct{}
	held    atomic.Bool
	beats   atomic.Int32
}

func (l *late) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (l *late) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l *late) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		acquires := false
		for _, cmd := range cmds {
			switch a := cmd.Args(); {
			case len(a) == 0 || a[0] != "EVALSHA":
			case len(a) == 8 && a[4] == "b": // script, number of keys, key; member, its span, that of others, its reach
				l.beats.Add(1)
			case len(a) == 11 && a[5] == "b": // script, number of keys, key; token, member, span, secret, partitions, dead, silent
				acquires = true
			}
		}
		if acquires && l.held.CompareAndSwap(false, true) {
			<-l.release
		}
		return err
	}
}

// A member tries to acquire a partition that has an owner, and the notice of its release arrives before the reply. The round that the notice
// starts skips the partition as busy, and the next regular round is an hour away.
func TestPartitionReleasedDuringAnAcquisitionIsAcquired(t *testing.T) {
	s := redistest.Start(t)
	f := newFleet(t, s.Client(t))
	f.memberOf("a", f.rdb, 2*time.Hour, time.Hour)
	f.until("a owns all", func() bool { return len(f.owners()) == parts })
	conn := &late{release: make(chan struct{})}
	rdb := s.Client(t)
	rdb.AddHook(conn)
	f.memberOf("b", rdb, 2*time.Hour, time.Hour)
	f.until("a has released the partitions of b", func() bool {
		for p := range parts {
			if partition.Rendezvous([]string{"a", "b"}, p) == "b" && f.owners()[p] == "a" {
				return false
			}
		}
		return conn.held.Load()
	})
	beats, since := conn.beats.Load(), time.Now()
	f.until("b has finished the rounds of all notices", func() bool {
		if now := conn.beats.Load(); now != beats {
			beats, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	close(conn.release)
	f.until("b owns its partitions", f.sharedBy("a", "b"))
}
