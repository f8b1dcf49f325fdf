package partition_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const parts = 6

// stallTTL is a TTL that no stall of the machine exceeds, so that no tenure expires.
const stallTTL = 30 * time.Second

// fleet records which member runs which partition, and checks that no partition runs twice.
type fleet struct {
	t   *testing.T
	rdb redis.UniversalClient
	ns  redisx.Space

	mu      sync.Mutex
	runs    map[int]map[string]*partition.Tenure
	ended   map[int]error            // cause of the last tenure
	blocked map[string]chan struct{} // by member: its actors do not end before the channel is closed
	all     []*partition.Keeper
}

func newFleet(t *testing.T, rdb redis.UniversalClient) *fleet {
	return &fleet{
		t: t, rdb: rdb, ns: redisx.NewSpace(redistest.Namespace()),
		runs: make(map[int]map[string]*partition.Tenure), ended: make(map[int]error), blocked: make(map[string]chan struct{}),
	}
}

func (f *fleet) ctx() context.Context {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	f.t.Cleanup(stop)
	return ctx
}

func (f *fleet) member(name string, ttl time.Duration) *partition.Keeper {
	f.t.Helper()
	return f.memberOf(name, f.rdb, ttl, 0)
}

func (f *fleet) memberOf(name string, rdb redis.UniversalClient, ttl, renew time.Duration) *partition.Keeper {
	f.t.Helper()
	return f.start(partition.Config{Redis: rdb, Member: name, TTL: ttl, Renew: renew})
}

// start completes the configuration of a member, and starts it.
func (f *fleet) start(cfg partition.Config) *partition.Keeper {
	f.t.Helper()
	cfg.Space, cfg.Partitions, cfg.Logger = f.ns, parts, slog.New(slog.DiscardHandler)
	cfg.Run = func(ctx context.Context, t *partition.Tenure) error { return f.run(ctx, cfg.Member, t) }
	cfg.Released = func(int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, o := range f.all {
			o.Nudge()
		}
	}
	k := partition.NewKeeper(cfg)
	f.mu.Lock()
	f.all = append(f.all, k)
	f.mu.Unlock()
	if err := k.Start(f.ctx()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = k.Stop(f.ctx()) })
	return k
}

func (f *fleet) run(ctx context.Context, name string, t *partition.Tenure) error {
	f.mu.Lock()
	if f.runs[t.Part] == nil {
		f.runs[t.Part] = make(map[string]*partition.Tenure)
	}
	f.runs[t.Part][name] = t
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	blocked := f.blocked[name]
	f.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	f.mu.Lock()
	delete(f.runs[t.Part], name)
	f.ended[t.Part] = context.Cause(ctx)
	f.mu.Unlock()
	return nil
}

func (f *fleet) owners() map[int]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[int]string)
	for p, by := range f.runs {
		for name := range by {
			out[p] += name
		}
		if out[p] == "" {
			delete(out, p)
		}
	}
	return out
}

func (f *fleet) tenure(p int) *partition.Tenure {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.runs[p] {
		return t
	}
	return nil
}

// held is a tenure with its member.
type held struct {
	by     string
	tenure *partition.Tenure
}

func (f *fleet) tenures() map[int]held {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[int]held)
	for p, by := range f.runs {
		for name, t := range by {
			out[p] = held{name, t}
		}
	}
	return out
}

// block prevents the actors of a member from ending.
func (f *fleet) block(name string) (unblock func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan struct{})
	f.blocked[name] = ch
	return sync.OnceFunc(func() { close(ch) })
}

func (f *fleet) causes() map[int]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.ended)
}

func (f *fleet) until(what string, ok func() bool) {
	f.t.Helper()
	defer func() {
		if f.t.Failed() {
			f.t.Logf("owners %v", f.owners())
		}
	}()
	poll.Until(f.t, 60*time.Second, what, ok)
}

func (f *fleet) sharedBy(members ...string) func() bool {
	return func() bool {
		got := f.owners()
		for p := range parts {
			if got[p] != partition.Rendezvous(members, p) {
				return false
			}
		}
		return true
	}
}

func TestPartitionsFollowRendezvousAsMembersChange(t *testing.T) {
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb)
		f.member("a", stallTTL)
		f.until("a owns all", f.sharedBy("a"))
		b := f.member("b", stallTTL)
		f.until("a and b share", f.sharedBy("a", "b"))
		f.member("c", stallTTL)
		f.until("three share", f.sharedBy("a", "b", "c"))
		if err := b.Stop(f.ctx()); err != nil {
			t.Fatal(err)
		}
		f.until("a and c share", f.sharedBy("a", "c"))
		for p := range parts {
			if got := f.tenure(p); !got.Clean && got.Epoch > 1 {
				t.Errorf("partition %d was handed over, and is not clean", p)
			}
		}
	})
}

func TestRendezvousMovesOnlyOneMembersShare(t *testing.T) {
	three := []string{"a", "b", "c"}
	for p := range 1000 {
		with, without := partition.Rendezvous(three, p), partition.Rendezvous(three[:2], p)
		if with != "c" && with != without {
			t.Fatalf("partition %d moves from %s to %s although neither joined or left", p, without, with)
		}
	}
	if partition.Rendezvous(nil, 1) != "" {
		t.Fatal("a partition without members has an owner")
	}
}

func TestRollbackEndsTenure(t *testing.T) {
	f := newFleet(t, redistest.Start(t).Client(t))
	f.member("a", stallTTL)
	f.until("a owns all", f.sharedBy("a"))
	first := f.tenure(3)
	key := f.ns.Part(3).Owner()
	// Redis has acknowledged position 7 to the owner, and then loses it.
	first.Acked(history.Position{Seq: 7, Time: 1_790_000_000_000_000_007})
	if err := f.rdb.HSet(f.ctx(), key, "seq", 5, "time", "1790000000000000005").Err(); err != nil {
		t.Fatal(err)
	}
	f.until("another tenure", func() bool { now := f.tenure(3); return now != nil && now != first })
	if now := f.tenure(3); now.Applied.Seq != 5 || now.Token == first.Token || now.Clean {
		t.Fatalf("%+v", now)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !errors.Is(f.ended[3], partition.ErrRolledBack) {
		t.Fatal(f.ended[3])
	}
}

func TestReplacedTokenEndsTenure(t *testing.T) {
	f := newFleet(t, redistest.Start(t).Client(t))
	f.member("a", stallTTL)
	f.until("a owns all", f.sharedBy("a"))
	first := f.tenure(0)
	// Another member holds the partition for an hour, as after a pause of this process.
	now := time.Now().UnixMilli()
	if err := f.rdb.HSet(f.ctx(), f.ns.Part(0).Owner(), "owner", "other", "member", "other", "until", now+3_600_000, "span", 3_600_000).Err(); err != nil {
		t.Fatal(err)
	}
	f.until("the tenure ends", func() bool { return f.tenure(0) != first })
	f.mu.Lock()
	defer f.mu.Unlock()
	if !errors.Is(f.ended[0], partition.ErrLost) {
		t.Fatal(f.ended[0])
	}
}

func TestOwnershipFromBeforeClockStepBackHasExpired(t *testing.T) {
	f := newFleet(t, redistest.Start(t).Client(t))
	// Held until tomorrow, for a span of five seconds: another clock wrote that.
	until := time.Now().Add(24 * time.Hour).UnixMilli()
	for p := range parts {
		if err := f.rdb.HSet(f.ctx(), f.ns.Part(p).Owner(), "owner", "old", "until", until, "span", 5000).Err(); err != nil {
			t.Fatal(err)
		}
	}
	f.member("a", time.Second)
	f.until("a owns all", f.sharedBy("a"))
}

func TestTenuresEndBeforeTokensExpireDuringOutage(t *testing.T) {
	srv := redistest.Start(t)
	f := newFleet(t, srv.Client(t))
	f.member("a", time.Second)
	f.until("a owns all", f.sharedBy("a"))
	srv.Pause()
	f.until("no tenure is left", func() bool { return len(f.owners()) == 0 })
	srv.Resume()
	f.until("a owns all again", f.sharedBy("a"))
}

func TestStartAndStopLeaveNoOwner(t *testing.T) {
	f := newFleet(t, redistest.Start(t).Client(t))
	for i := range 25 {
		k := f.member(fmt.Sprint("m", i), time.Second)
		if i%2 == 0 {
			f.until("something is owned", func() bool { return len(f.owners()) > 0 })
		}
		if err := k.Stop(f.ctx()); err != nil {
			t.Fatal(err)
		}
		if o := f.owners(); len(o) != 0 {
			t.Fatalf("still owned: %v", o)
		}
	}
}

func TestPartitionsOfDeadOwnerAreAcquiredAtExpiry(t *testing.T) {
	t.Parallel() // mostly waits
	s := redistest.Start(t)
	f := newFleet(t, s.Client(t))
	const ttl, renew = 18 * time.Second, 15 * time.Second // the regular round after the expiry would be at thirty seconds
	f.memberOf("living", f.rdb, ttl, renew)
	p, cut := s.Proxy(t)
	f.memberOf("dead", cut, ttl, renew)
	f.until("both own some", func() bool {
		by := make(map[string]int)
		for _, name := range f.owners() {
			by[name]++
		}
		return by["living"] > 0 && by["dead"] > 0 && by["living"]+by["dead"] == parts
	})
	cutAt := time.Now()
	p.Cut()
	f.until("the living member owns all", func() bool {
		for i := range parts {
			if o, err := f.rdb.HGet(t.Context(), f.ns.Part(i).Owner(), "member").Result(); err != nil || o != "living" {
				return false
			}
		}
		return true
	})
	if took := time.Since(cutAt); took > ttl+10*time.Second {
		t.Errorf("took %s", took)
	}
	p.Heal()
}

func TestDeclinedPartitionMovesToAMemberThatDoesNotDeclineIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redistest.Start(t).Client(t))
	f.member("a", stallTTL)
	f.member("b", stallTTL)
	f.until("both have their shares", f.sharedBy("a", "b"))
	f.decline("a")
	f.until("b has all that a declines", f.sharedBy("b"))
	f.decline("b")
	f.until("a has all, of which it declines a part that b declines, too", f.sharedBy("a"))
	f.decline("a") // now all members decline it, and the declines have no effect
	f.until("both have their shares again", f.sharedBy("a", "b"))
}

// decline makes a member decline all partitions that it owns.
func (f *fleet) decline(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, owners := range f.runs {
		if t := owners[name]; t != nil {
			t.Decline()
		}
	}
}
