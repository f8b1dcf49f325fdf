package partition_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/redistest"
)

// inputs simulates the inputs of a member: it receives all until it is cut off, and then nothing until it is healed.
type inputs struct {
	began  time.Time
	last   atomic.Int64 // time since began of the last input before it was cut off; 0: it is not cut off
	healed atomic.Int64 // time since began
}

func newInputs() *inputs { return &inputs{began: time.Now().Add(-time.Hour)} }

func (i *inputs) cut()  { i.last.Store(int64(time.Since(i.began))) }
func (i *inputs) heal() { i.healed.Store(int64(time.Since(i.began))); i.last.Store(0) }

func (i *inputs) silence() (silent, steady time.Duration) {
	last := time.Duration(i.last.Load())
	if last == 0 {
		return 0, time.Since(i.began) - time.Duration(i.healed.Load())
	}
	return time.Since(i.began) - last, last - time.Duration(i.healed.Load())
}

const (
	cutOff    = 500 * time.Millisecond
	readerTTL = 30 * time.Second
)

// reader starts a member whose inputs can be cut off.
func (f *fleet) reader(name string, after time.Duration) (*partition.Keeper, *inputs) {
	f.t.Helper()
	in := newInputs()
	return f.start(partition.Config{Redis: f.rdb, Member: name, TTL: readerTTL, Renew: 200 * time.Millisecond, Inputs: in.silence, CutOff: after}), in
}

func TestCutOffMemberHandsOverAndReturns(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb)
		a, ofA := f.reader("a", cutOff)
		f.reader("b", cutOff)
		f.reader("c", cutOff)
		f.until("three share", f.sharedBy("a", "b", "c"))
		before := f.tenures()
		ofA.cut()
		began := time.Now()
		f.until("b and c share", f.sharedBy("b", "c"))
		if took := time.Since(began); took < cutOff || took > readerTTL/2 {
			t.Errorf("handed over after %v: before it was cut off, or only when its tokens expired", took)
		}
		if a.Reach() != partition.CutOff {
			t.Error(a.Reach())
		}
		f.until("a owns no partition", func() bool { return len(a.Owned()) == 0 })
		for p, was := range before {
			if now := f.tenure(p); was.by == "a" && now.Clean {
				t.Errorf("partition %d is recorded as clean, but its owner could not publish", p)
			} else if was.by != "a" && now != was.tenure {
				t.Errorf("partition %d has moved, but its owner %s is not cut off", p, was.by)
			}
		}
		ofA.heal()
		f.until("three share again", f.sharedBy("a", "b", "c"))
		for p, was := range before {
			if now := f.tenure(p); was.by == "a" && !now.Clean {
				t.Errorf("partition %d was not handed back cleanly", p)
			}
		}
	})
}

// The server has failed, so moving partitions would not help. The members lose the server, and reconnect, one after the other,
// which must not move partitions either.
func TestMembersThatAreAllCutOffKeepTheirPartitions(t *testing.T) {
	t.Parallel()                  // mostly waits
	const after = 6 * time.Second // half of it is much longer than a heartbeat takes, even on a machine that stalls for a second or two
	f := newFleet(t, redistest.Start(t).Client(t))
	var all []*inputs
	for _, name := range []string{"a", "b", "c"} {
		_, in := f.reader(name, after)
		all = append(all, in)
	}
	f.until("three share", f.sharedBy("a", "b", "c"))
	before := f.tenures()
	for _, in := range all {
		in.cut()
		wait(t, after/30)
	}
	wait(t, after+after/3)
	for _, in := range all {
		in.heal()
		wait(t, after/10)
	}
	wait(t, after)
	for p, was := range before {
		if f.tenure(p) != was.tenure {
			t.Errorf("partition %d has moved", p)
		}
	}
}

// The release cannot wait for an actor that waits for NATS while it holds a lock of the connection.
func TestCutOffMemberReleasesWithoutItsActors(t *testing.T) {
	f := newFleet(t, redistest.Start(t).Client(t))
	_, ofA := f.reader("a", cutOff)
	f.until("a owns all", f.sharedBy("a"))
	wait(t, 2*cutOff) // until its reach is reading
	unblock := f.block("a")
	t.Cleanup(unblock)
	f.reader("b", cutOff)
	ofA.cut()
	f.until("b owns all", func() bool {
		for p := range parts {
			if m, err := f.rdb.HGet(f.ctx(), f.ns.Part(p).Owner(), "member").Result(); err != nil || m != "b" {
				return false
			}
		}
		return true
	})
	unblock()
	f.until("the actors of a have ended", f.sharedBy("b"))
	for p, err := range f.causes() {
		if !errors.Is(err, partition.ErrCutOff) && !errors.Is(err, partition.ErrHandover) {
			t.Errorf("partition %d: %v", p, err)
		}
	}
}

func TestEligibleExcludesCutOffMembersWhileAnotherReads(t *testing.T) {
	states := []partition.Reach{partition.Reading, partition.Unproven, partition.CutOff}
	for _, a := range states {
		for _, b := range states {
			for _, c := range states {
				members := []partition.Member{{Name: "c", Reach: c}, {Name: "a", Reach: a}, {Name: "b", Reach: b}}
				reads := a == partition.Reading || b == partition.Reading || c == partition.Reading
				var want []string
				for i, r := range []partition.Reach{a, b, c} {
					if r != partition.CutOff || !reads {
						want = append(want, string(rune('a'+i)))
					}
				}
				var got []string
				for _, m := range partition.Eligible(members) {
					got = append(got, m.Name)
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s %s %s: %q, want %q", a, b, c, got, want)
				}
			}
		}
	}
	if got := partition.Eligible(nil); len(got) != 0 {
		t.Error(got)
	}
}

func wait(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
