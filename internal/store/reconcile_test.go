package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/record"
)

func TestReconcileRepairsLeases(t *testing.T) {
	each(t, map[string]func(b *harness){
		"leases are reported, and expired claims removed": func(b *harness) {
			b.started("a", "h1", 1, 2, 3, 4, 5)
			b.claim("a", 2, 1, 30*time.Second)
			b.claim("a", 3, 2, -time.Millisecond)
			b.claim("a", 4, 3, -time.Millisecond)
			b.must(b.rdb.HSet(b.ctx(), b.p.Lease("a", 1, 5), "n", 3).Err()) // claims exhausted, and released
			got, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h1", Leases: leasesOf(1, 2, 3, 4, 5), MaxClaims: 3, Wakeup: b.now() + 60_000})
			b.must(err)
			var states string
			for _, l := range got.Leases {
				states += fmt.Sprintf("%c%d ", l.Status, l.Claims)
			}
			if states != "W0 C1 X2 P3 P3 " {
				b.Errorf("found %s", states)
			}
			if l := b.lease("a", 3); l["t"] != "" || l["u"] != "" || l["w"] != "" || l["n"] != "2" || l["e"] != "e3" {
				b.Errorf("%v", l)
			}
			b.wantWakeup("a", 30_001) // when the valid claim expires
		},
		"a claim that expires too late, after a step back of the clock, has expired": func(b *harness) {
			b.started("a", "h1", 1)
			b.must(b.rdb.HSet(b.ctx(), b.p.Lease("a", 1, 1), "t", "tok", "w", "w", "u", b.now()+3_600_000, "d", 10_000, "n", 1).Err())
			got, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h1", Leases: leasesOf(1), MaxClaims: 3, Wakeup: b.now() + 10_000})
			b.must(err)
			if got.Leases[0].Status != record.ClaimExpired {
				b.Errorf("%+v", got)
			}
		},
		"a lost lease is recreated, unless an input is unread": func(b *harness) {
			b.started("a", "h1", 1)
			b.must(b.rdb.HSet(b.ctx(), b.p.Lease("a", 1, 1), "e", "of a lost turn", "t", "tok").Err())
			b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), element("x")).Err())
			l := record.Reconciliation{Instance: "a", Head: "h1", Leases: leasesOf(1), MaxClaims: 3, Wakeup: b.now() + 10_000}
			got, err := b.reconcile(l)
			b.must(err)
			if got.Leases[0].Status != record.LeaseMissing || got.Unread != 1 {
				b.Errorf("%+v", got)
			}
			b.wantWakeup("a", 2000)
			b.must(b.rdb.Del(b.ctx(), b.p.Inbox("a")).Err())
			got, err = b.reconcile(l)
			b.must(err)
			if got.Leases[0].Status != record.LeaseRecreated || got.Unread != 0 {
				b.Errorf("%+v", got)
			}
			if l := b.lease("a", 1); l["e"] != "e1" || l["t"] != "" || l["n"] != "0" {
				b.Errorf("%v", l)
			}
		},
		"the fence and another head reject it": func(b *harness) {
			b.started("a", "h1", 1)
			b.claim("a", 1, 1, -time.Millisecond)
			before := b.dump()
			if _, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h0", Leases: leasesOf(1), MaxClaims: 3, Stalled: "why"}); !errors.Is(err, record.ErrConflict) {
				b.Error(err)
			}
			b.owner("another", time.Minute)
			if _, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h1", Leases: leasesOf(1), MaxClaims: 3, Stalled: "why"}); !errors.Is(err, record.ErrFenced) {
				b.Error(err)
			}
			if after := b.dump(); fmt.Sprint(before) != fmt.Sprint(after) {
				b.Errorf("something was written:\n%v\n%v", before, after)
			}
		},
		"the reason of a stall and the hold of the inbox are set and cleared": func(b *harness) {
			b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), element("x")).Err()) // without a record
			_, err := b.reconcile(record.Reconciliation{Instance: "a", MaxClaims: 3, Wakeup: b.now() + 60_000, Deferral: record.DeferAll, Stalled: "why"})
			b.must(err)
			b.wantWakeup("a", 60_000)
			if why, err := b.st.StalledReason(b.ctx(), part, "a"); err != nil || why != "why" {
				b.Errorf("%q, %v", why, err)
			}
			_, err = b.reconcile(record.Reconciliation{Instance: "a", MaxClaims: 3, Stalled: record.NotStalled})
			b.must(err)
			b.wantWakeup("a", 2000)
			if all, err := b.st.StalledIDs(b.ctx(), part); err != nil || len(all) != 0 {
				b.Errorf("%v, %v", all, err)
			}
		},
		"the wakeup is removed if nothing is due": func(b *harness) {
			b.started("a", "h1")
			_, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h1", MaxClaims: 3})
			b.must(err)
			b.wantNoWakeup("a")
		},
	})
}

func TestDueInstancesAreReturnedInOrder(t *testing.T) {
	each(t, map[string]func(b *harness){
		"instances are returned the longest due first, and postponed by two seconds": func(b *harness) {
			now := b.now()
			for name, in := range map[string]int64{"late": -1000, "later": -2000, "latest": -3000, "soon": 60_000} {
				b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redisZ(now+in, name)).Err())
			}
			got, err := b.due(2)
			b.must(err)
			if fmt.Sprint(got.Instances) != "[latest later]" || got.Next != now-1000 {
				b.Errorf("%+v", got)
			}
			b.wantWakeup("latest", 2000)
			got, err = b.due(2)
			b.must(err)
			if fmt.Sprint(got.Instances) != "[late]" {
				b.Errorf("%+v", got)
			}
			if got, err = b.due(2); err != nil || len(got.Instances) != 0 || got.Next < now+1000 || got.Next > b.now()+2000 {
				b.Errorf("%+v, %v", got, err)
			}
		},
		"limits are returned in the same way, separately": func(b *harness) {
			now := b.now()
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redisZ(now-1000, "instance")).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Limits(), redisZ(now-3000, "charge/acme"), redisZ(now-2000, "charge"), redisZ(now+1_000, "ship")).Err())
			got, err := b.due(1)
			b.must(err)
			if fmt.Sprint(got.Instances, got.Limits) != "[instance] [charge/acme]" || got.NextLimit != now-2000 || got.Next < now+1000 {
				b.Errorf("%+v", got)
			}
			at, err := b.rdb.ZScore(b.ctx(), b.p.Limits(), "charge/acme").Result()
			b.must(err)
			if off := int64(at) - now; off < 2000 || off > 7000 {
				b.Errorf("postponed by %d ms", off)
			}
		},
		"a sweep that was scheduled before the clock stepped back is due": func(b *harness) {
			now := b.now()
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redisZ(now+3_600_000, "instance")).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Limits(), redisZ(now-1_000, "due"), redisZ(now+1_900, "soon"), redisZ(now+3_600_000, "charge"), redisZ(now+3_601_000, "ship")).Err())
			got, err := b.due(2)
			b.must(err)
			if fmt.Sprint(got.Instances, got.Limits) != "[] [due charge]" {
				b.Errorf("%+v", got)
			}
			got, err = b.due(2)
			b.must(err)
			if fmt.Sprint(got.Limits) != "[ship]" || got.NextLimit > now+1_900 {
				b.Errorf("%+v", got)
			}
		},
		"without wakeups nothing is due": func(b *harness) {
			if got, err := b.due(2); err != nil || len(got.Instances) != 0 || got.Next != 0 || got.Now == 0 {
				b.Errorf("%+v, %v", got, err)
			}
		},
		"a read that the fence rejects postpones no wakeup": func(b *harness) {
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redisZ(5, "a")).Err())
			b.owner("another", time.Minute)
			if _, err := b.due(2); !errors.Is(err, record.ErrFenced) {
				b.Error(err)
			}
			if v, err := b.rdb.ZScore(b.ctx(), b.p.Wakeups(), "a").Result(); err != nil || v != 5 {
				b.Error(v, err)
			}
		},
	})
}

func TestWakeupsListsInstancesDueWithinSpan(t *testing.T) {
	each(t, map[string]func(b *harness){
		"on every store": func(b *harness) {
			now := b.now()
			for name, in := range map[string]int64{"late": -1000, "soon": 5000, "far": 60_000} {
				b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redisZ(now+in, name)).Err())
			}
			at, got, err := b.st.Wakeups(b.ctx(), part, 10*time.Second)
			if err != nil || fmt.Sprint(got) != "[late soon]" || at < now || at > b.now() {
				b.Errorf("%v at %d, %v", got, at, err)
			}
		},
	})
}

func TestUnreadIsOrderedAndBounded(t *testing.T) {
	read := func(b *harness) (sizes []int) {
		got, err := b.st.Unread(b.ctx(), part, "a")
		b.must(err)
		for _, e := range got {
			sizes = append(sizes, len(e))
		}
		return sizes
	}
	push := func(b *harness) (want []int) {
		for i := range 300 { // more than a batch, and not a multiple of the step
			b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), strings.Repeat("x", i+1)).Err())
			want = append(want, i+1)
		}
		return want
	}
	each(t, map[string]func(b *harness){
		"by count": func(b *harness) {
			if got := read(b); len(got) != 0 {
				b.Errorf("a missing inbox returns %v", got)
			}
			if want, got := push(b), read(b); !slices.Equal(got, want[:record.UnreadBatch]) {
				b.Errorf("sizes %v", got)
			}
		},
	})
	onReal(t, map[string]func(b *harness){ // miniredis takes seconds for megabytes
		"by bytes": func(b *harness) {
			push(b)
			b.must(b.rdb.LPush(b.ctx(), b.p.Inbox("a"), strings.Repeat("x", 3<<20), strings.Repeat("x", 3<<20)).Err())
			if got := read(b); !slices.Equal(got, []int{3 << 20}) {
				b.Errorf("sizes %v", got)
			}
			b.must(b.rdb.LPush(b.ctx(), b.p.Inbox("a"), strings.Repeat("x", 5<<20)).Err())
			if got := read(b); !slices.Equal(got, []int{5 << 20}) {
				b.Errorf("sizes %v", got)
			}
			all, err := b.st.Inbox(b.ctx(), part, "a", 0)
			if b.must(err); len(all) != 303 {
				b.Errorf("%d elements in all", len(all))
			}
		},
	})
}
