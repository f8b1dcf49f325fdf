package limiter_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestEntryIsAdmittedWhileThereIsRoomAndNoWaiter(t *testing.T) { each(t, admissionCases()) }

func admissionCases() map[string]func(b *harness) {
	return map[string]func(b *harness){
		"a caller is admitted at once if there is room, and otherwise waits last": func(b *harness) {
			b.policy(concurrency(2))
			a := b.enter("a", "b", "c", "d")
			b.want("entering", formatVerdicts(a), "admitted, admitted, 1, 2")
			if !a.SweepNow || a.Waiting != 2 || a.Holding != 2 || len(a.Granted) != 0 || a.Now == 0 || a.LimitedUntil != 0 {
				b.Errorf("%+v", a)
			}
			b.want("waiters", b.waiters(), "c d")
			if a := b.enter("e"); formatVerdicts(a) != "3" || a.SweepNow {
				b.Errorf("%s, %+v", formatVerdicts(a), a)
			}
		},
		"a paused limit admits no caller: waiters keep their positions, and the resumption admits them in order": func(b *harness) {
			b.policy(concurrency(2))
			b.want("entering", formatVerdicts(b.enter("a", "b", "c")), "admitted, admitted, 1")
			paused := concurrency(2)
			paused.Paused = true
			b.policy(paused)
			b.want("entering", formatVerdicts(b.enter("d")), "2")
			b.want("granted", memberNames(b.leave("a").Granted), "")
			b.want("waiters", b.waiters(), "c d")
			b.want("a holder repeats its request", formatVerdicts(b.enter("b")), "admitted")
			b.policy(concurrency(2))
			b.want("granted", memberNames(b.leave("b").Granted), "c d")
		},
		"a leave admits exactly the next waiter, and three leaves admit three in order": func(b *harness) {
			b.policy(concurrency(3))
			b.enter("a", "b", "c", "d", "e", "f", "g")
			b.want("granted", memberNames(b.leave("b").Granted), "d")
			b.want("granted", memberNames(b.leave("a", "c", "d").Granted), "e f g")
			b.want("counters", b.counters(), "7 4 0 0 0 0")
		},
		"a new caller never overtakes waiters, even if the same call releases a slot": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a", "b")
			got := b.admit([]limit.Member{testMember("a")}, limit.Entry{Member: testMember("c")})
			b.want("new caller", formatVerdicts(got), "1")
			b.want("granted", memberNames(got.Granted), "b")
			b.want("new caller with room", func() string { b.policy(concurrency(9)); return formatVerdicts(b.enter("d")) }(), "admitted") // and c before it
			b.want("waiters", b.waiters(), "")
		},
		"a member counts once and keeps its place": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a", "b", "c")
			before := b.counters()
			b.want("again", formatVerdicts(b.enter("c", "b", "a", "a")), "2, 1, admitted, admitted")
			b.want("counters", b.counters(), before)
			b.want("waiters", b.waiters(), "b c")
		},
		"a member that enters twice in one call enters once": func(b *harness) {
			b.policy(concurrency(1))
			b.want("entering", formatVerdicts(b.enter("a", "a", "b", "b")), "admitted, admitted, 1, 1")
			b.want("counters", b.counters(), "2 0 0 0 0 0")
		},
		"a leave of an unknown member has no effect, and creates no limit": func(b *harness) {
			b.policy(concurrency(1))
			b.leave("absent")
			if _, ok, err := b.limits.Stats(b.Context(), b.limit); ok || err != nil {
				b.Errorf("the limit exists, %v", err)
			}
			b.enter("a")
			b.leave("absent", "a", "a")
			b.leave("a")
			b.want("counters", b.counters(), "1 1 0 0 0 0")
		},
		"later waiters advance when a waiter leaves": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a", "b", "c", "d")
			b.leave("c")
			b.want("places", formatVerdicts(b.enter("b", "d")), "1, 2")
			b.want("granted, after a waiter that leaves in the same call", memberNames(b.leave("b", "a").Granted), "d")
			b.want("counters", b.counters(), "4 1 0 0 2 0")
		},
		"a member that leaves and enters in one call becomes the last waiter": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a", "b", "c")
			b.want("entering again", formatVerdicts(b.admit([]limit.Member{testMember("b")}, limit.Entry{Member: testMember("b")})), "2")
			b.want("waiters", b.waiters(), "c b")
			b.want("counters", b.counters(), "4 0 0 0 1 0")
		},
		"a policy without limits admits every caller": func(b *harness) {
			b.policy(history.Policy{})
			b.want("entering", formatVerdicts(b.enter("a", "b", "c")), "admitted, admitted, admitted")
		},
	}
}

func TestLimitRejectsEntries(t *testing.T) { each(t, rejectionCases()) }

func rejectionCases() map[string]func(b *harness) {
	return map[string]func(b *harness){
		"a full limit rejects callers without recording them": func(b *harness) {
			b.policy(history.Policy{Concurrency: 1, QueueLimit: 2})
			b.want("entering", formatVerdicts(b.enter("a", "b", "c", "d", "e")), "admitted, 1, 2, queue full, queue full")
			b.want("counters", b.counters(), "3 0 2 0 0 0")
			b.leave("b")
			b.want("again, with fewer waiters", formatVerdicts(b.enter("d")), "2")
		},
		"a rejecting policy rejects entries that would wait": func(b *harness) {
			b.policy(history.Policy{Concurrency: 1, Reject: true})
			b.want("entering", formatVerdicts(b.enter("a", "b")), "admitted, limited")
			b.want("a holder", formatVerdicts(b.enter("a")), "admitted")
			b.want("granted by the leave", memberNames(b.leave("a").Granted), "")
			b.want("again, with room", formatVerdicts(b.enter("b")), "admitted")
			b.want("counters", b.counters(), "2 1 1 0 0 0")
		},
		"a policy that becomes rejecting keeps earlier waiters": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a", "b")
			b.policy(history.Policy{Concurrency: 1, Reject: true})
			b.want("waiting before", formatVerdicts(b.enter("b", "c")), "1, limited")
			b.want("granted", memberNames(b.leave("a").Granted), "b")
		},
	}
}

func TestRestoredHolderIsAdmittedAboveLimit(t *testing.T) { each(t, restoredCases()) }

func restoredCases() map[string]func(b *harness) {
	in := func(name string) limit.Entry { return limit.Entry{Member: testMember(name), Active: true} }
	return map[string]func(b *harness){
		"a holder without a record is added": func(b *harness) {
			b.policy(concurrency(1))
			b.want("entering", formatVerdicts(b.admit(nil, in("a"), in("b"), limit.Entry{Member: testMember("c")})), "admitted, admitted, 1")
			b.want("granted while there are too many", memberNames(b.leave("a").Granted), "")
			b.want("granted", memberNames(b.leave("b").Granted), "c")
			b.want("counters", b.counters(), "3 2 0 0 0 0")
		},
		"a waiter becomes a holder": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a", "b", "c")
			before := b.counters()
			b.want("entering", formatVerdicts(b.admit(nil, in("c"))), "admitted")
			b.want("waiters", b.waiters(), "b")
			b.want("counters", b.counters(), before)
		},
		"a holder does not change": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a")
			b.admit(nil, in("a"))
			b.want("counters", b.counters(), "1 0 0 0 0 0")
		},
		"a rejected caller that reports itself active is no longer counted as rejected": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a", "b")
			if n, err := b.limits.Clear(b.Context(), b.limit); n != 1 || err != nil {
				b.Fatal(n, err)
			}
			b.want("counters", b.counters(), "2 0 0 0 0 1")
			b.admit(nil, in("b"))
			b.want("counters", b.counters(), "2 0 0 0 0 0")
			b.want("it is admitted", formatVerdicts(b.enter("b")), "admitted")
		},
		"a restored holder does not count toward rate and quota": func(b *harness) {
			b.policy(history.Policy{Rate: 1, RateWindow: 3_600_000, Quota: 1, QuotaWindow: 3_600_000})
			b.admit(nil, in("a"), in("b"))
			b.want("later entries", formatVerdicts(b.enter("c", "d")), "admitted, 1")
		},
	}
}

func TestRejectedWaiterIsRecordedUntilItLeaves(t *testing.T) { each(t, recordedRejectionCases()) }

func recordedRejectionCases() map[string]func(b *harness) {
	return map[string]func(b *harness){
		"cleared": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a", "b", "c")
			n, err := b.limits.Clear(b.Context(), b.limit)
			b.must(err)
			if n != 2 {
				b.Errorf("cleared %d", n)
			}
			b.want("entering again", formatVerdicts(b.enter("a", "b", "c")), "admitted, cleared, cleared")
			s := b.sweep(nil)
			if len(s.Rejected) != 2 || memberName(s.Rejected[0].Member) != "b" || !s.Rejected[0].Cleared || !s.Rejected[1].Cleared {
				b.Errorf("to be notified: %+v", s.Rejected)
			}
			if again := b.sweep(nil); len(again.Rejected) != 0 && again.Now < s.Now+2000 {
				b.Errorf("notified twice within two seconds: %+v", again.Rejected)
			}
			b.leave("b")
			b.want("after it has left", formatVerdicts(b.enter("b")), "1")
			b.want("counters", b.counters(), "4 0 0 0 0 2")
			if n, err := b.limits.Clear(b.Context(), "other"); n != 0 || err != nil {
				b.Errorf("clearing a limit that does not exist: %d, %v", n, err)
			}
		},
		"timed out": func(b *harness) {
			b.policy(history.Policy{Concurrency: 1, QueueTimeout: 20})
			a := b.enter("a", "b")
			if until := a.Verdicts[1].Until; until < a.Now+20 || until > a.Now+21 {
				b.Errorf("waits until %d at %d", until, a.Now)
			}
			for b.stats().TimedOut == 0 {
				if s := b.sweep(nil); len(s.Rejected) == 1 && (memberName(s.Rejected[0].Member) != "b" || s.Rejected[0].Cleared) {
					b.Errorf("%+v", s.Rejected)
				}
			}
			b.want("entering again", formatVerdicts(b.enter("b")), "timed out")
			b.want("granted", memberNames(b.leave("a").Granted), "")
			b.want("counters", b.counters(), "2 1 0 1 0 0")
			if s := b.sweep(nil); s.Next == 0 || s.IdleFor != 0 {
				b.Errorf("idle although a notice is due: %+v", s)
			}
			b.leave("b")
			if s := b.sweep(nil); s.Next != 0 {
				b.Errorf("swept again without members: %+v", s)
			}
		},
	}
}

func TestChangedPolicyAppliesToMembers(t *testing.T) { each(t, changedCases()) }

func changedCases() map[string]func(b *harness) {
	return map[string]func(b *harness){
		"a lower concurrency evicts no holder, and admits no waiter until there is room": func(b *harness) {
			b.policy(concurrency(3))
			b.enter("a", "b", "c", "d")
			down := limit.InForce{Policy: concurrency(1), Level: "action", Version: 1}
			if s := b.sweep(&down); s.Holding != 3 || len(s.Granted) != 0 {
				b.Errorf("%+v", s)
			}
			b.force = limit.InForce{} // the limit keeps its policy
			b.want("granted", memberNames(b.leave("a", "b").Granted), "")
			b.want("granted", memberNames(b.leave("c").Granted), "d")
		},
		"an older version is rejected, an equal one is accepted": func(b *harness) {
			b.force = limit.InForce{Policy: concurrency(1), Level: "action", Version: 5}
			b.enter("a", "b")
			older := limit.InForce{Policy: concurrency(9), Level: "group", Version: 4}
			if s := b.sweep(&older); len(s.Granted) != 0 || s.Version != 5 {
				b.Errorf("%+v", s)
			}
			b.force = older
			b.want("entering with an older one", formatVerdicts(b.enter("c")), "2")
			same := limit.InForce{Policy: concurrency(2), Level: "action", Version: 5, Declared: history.Declared{Group: "payments"}}
			if s := b.sweep(&same); memberNames(s.Granted) != "b" || s.Declared.Group != "payments" {
				b.Errorf("%+v", s)
			}
			if p := b.stats().Policy; p != concurrency(2) {
				b.Errorf("in force is %+v", p)
			}
		},
		"a first policy limits new entries": func(b *harness) {
			b.want("no policy at all", formatVerdicts(b.enter("a", "b")), "admitted, admitted")
			b.policy(concurrency(1))
			b.want("entering", formatVerdicts(b.enter("c")), "1")
		},
	}
}

// On miniredis a thousand members take seconds.
func TestDeletedPolicyAdmitsAllWaiters(t *testing.T) {
	b, _ := server(t)
	suite(t, b.rdb, b.run, thousandCases())
}

func thousandCases() map[string]func(b *harness) {
	return map[string]func(b *harness){
		"a higher concurrency admits at the next sweep, a thousand at a time": func(b *harness) {
			b.policy(concurrency(1))
			var names []string
			for i := range 1_501 {
				names = append(names, fmt.Sprint(i))
			}
			b.enter(names...)
			up := limit.InForce{Policy: concurrency(5_000), Level: "action", Version: 7}
			s := b.sweep(&up)
			if len(s.Granted) != 1000 || !s.More || s.Waiting != 500 || s.Holding != 1001 || s.Version != 7 || s.Next != s.Now {
				b.Errorf("%d admitted, more %v, %d wait, %d hold, version %d, next in %d", len(s.Granted), s.More, s.Waiting, s.Holding, s.Version, s.Next-s.Now)
			}
			rest := b.sweep(nil)
			b.want("in order", memberNames(append(s.Granted, rest.Granted...)), strings.Join(names[1:], " "))
			if rest.More || rest.Waiting != 0 {
				b.Errorf("%+v", rest)
			}
		},
		"a new caller does not overtake waiters that one script could not admit": func(b *harness) {
			b.policy(concurrency(1))
			var names []string
			for i := range 1_101 {
				names = append(names, fmt.Sprint(i))
			}
			b.enter(names...)
			b.policy(concurrency(5_000))
			a := b.enter("new")
			if len(a.Granted) != 1_000 || formatVerdicts(a) != "101" {
				b.Errorf("%d admitted, new caller: %s", len(a.Granted), formatVerdicts(a))
			}
			b.want("the rest", memberNames(b.sweep(nil).Granted), strings.Join(names[1_001:], " ")+" new")
		},
	}
}

func TestSweepReportsMembersToNotify(t *testing.T) {
	b := clock(t)
	b.policy(concurrency(1))
	b.enter("a", "b")
	s := b.sweep(nil)
	if s.Next != epoch+2000 || len(s.Stale) != 0 || s.Waiting != 1 || s.Holding != 1 || s.More {
		t.Errorf("just entered: %+v", s)
	}
	b.at(1_999)
	if s := b.sweep(nil); len(s.Stale) != 0 {
		t.Errorf("checked too early: %+v", s.Stale)
	}
	b.at(2_000)
	b.want("after two seconds", memberNames(b.sweep(nil).Stale), "a")
	b.want("at once again", memberNames(b.sweep(nil).Stale), "")
	b.at(3_999)
	b.want("a request shows that its caller is active", formatVerdicts(b.enter("a")), "admitted")
	b.at(4_500)
	b.want("after two seconds, but active in between", memberNames(b.sweep(nil).Stale), "")
	b.at(6_000)
	b.want("after two more", memberNames(b.sweep(nil).Stale), "a")
	b.at(4_000)
	b.want("the clock has stepped back", memberNames(b.sweep(nil).Stale), "a")
	b.leave("a", "b")
	b.at(34_000)
	if s := b.sweep(nil); s.IdleFor != 30*time.Second || s.Next != 0 {
		t.Errorf("idle: %+v", s)
	}
}

func TestNextSweepIsWhenFirstWaiterTimesOut(t *testing.T) {
	b := clock(t)
	b.policy(history.Policy{Concurrency: 1, QueueTimeout: 3_000})
	b.enter("a", "b")
	if s := b.sweep(nil); s.Next != epoch+2_000 {
		t.Errorf("next in %d", s.Next-epoch)
	}
	b.at(1_500)
	b.enter("c")
	if s := b.sweep(nil); s.Next != epoch+3_000 {
		t.Errorf("next in %d", s.Next-epoch)
	}
	b.at(2_999)
	if s := b.sweep(nil); len(s.Rejected) != 0 {
		t.Errorf("too early: %+v", s.Rejected)
	}
	b.at(3_000)
	if s := b.sweep(nil); len(s.Rejected) != 1 || memberName(s.Rejected[0].Member) != "b" || s.Next != epoch+4_500 {
		t.Errorf("%+v", s)
	}
	b.at(5_000)
	s := b.sweep(nil)
	if len(s.Rejected) != 2 || memberName(s.Rejected[0].Member) != "b" || memberName(s.Rejected[1].Member) != "c" {
		t.Errorf("want b, whose last notice is two seconds old, and c: %+v", s.Rejected)
	}
	b.policy(history.Policy{Concurrency: 1})
	if a := b.enter("d"); a.Verdicts[0].Until != epoch+5_000+3_600_000 {
		t.Errorf("waits until %d, want the default maximum of an hour", a.Verdicts[0].Until-epoch)
	}
}

func TestSweepDetectsDeadlock(t *testing.T) { each(t, deadlockedCases()) }

func deadlockedCases() map[string]func(b *harness) {
	in := func(ms ...limit.Member) (es []limit.Entry) {
		for _, m := range ms {
			es = append(es, limit.Entry{Member: m})
		}
		return es
	}
	return map[string]func(b *harness){
		"every holder waits for a waiter": func(b *harness) {
			b.policy(concurrency(2))
			b.admit(nil, in(testMember("a"), testMember("b"), nestedMember("c", "a"), testMember("d"))...)
			if b.sweep(nil).Deadlocked {
				b.Error("deadlocked although b can leave")
			}
			b.admit(nil, in(nestedMember("e", "b"))...)
			if !b.sweep(nil).Deadlocked || !b.stats().Deadlocked {
				b.Error("not detected")
			}
			p, ok, err := b.limits.Place(b.Context(), b.limit, nestedMember("e", "b"))
			if err != nil || !ok || !p.Deadlocked || p.Position != 3 {
				b.Errorf("%+v, %v, %v", p, ok, err)
			}
			b.admit([]limit.Member{nestedMember("e", "b")})
			if b.sweep(nil).Deadlocked || b.stats().Deadlocked {
				b.Error("deadlocked although the child has left")
			}
		},
		"a holder waits through a descendant that is a holder": func(b *harness) {
			b.policy(concurrency(2))
			b.admit(nil, in(testMember("a"), nestedMember("b", "a"), nestedMember("c", "b"))...)
			if !b.sweep(nil).Deadlocked {
				b.Error("a waits for b, b for c, and c for a slot")
			}
		},
		"no deadlock while the concurrency leaves room": func(b *harness) {
			b.policy(history.Policy{Concurrency: 2, Rate: 1, RateWindow: 3_600_000})
			b.admit(nil, in(testMember("a"), nestedMember("c", "a"))...)
			if b.sweep(nil).Deadlocked {
				b.Error("deadlocked although only the rate limits")
			}
		},
		"no deadlock by the child of a ticket that is not a holder": func(b *harness) {
			b.policy(concurrency(1))
			b.admit(nil, in(testMember("a"), nestedMember("c", "another"))...)
			if b.sweep(nil).Deadlocked {
				b.Error("deadlocked by an unrelated waiter")
			}
		},
	}
}

func TestStatsAndPlacesMatchTheMembers(t *testing.T) { each(t, statsCases()) }

func statsCases() map[string]func(b *harness) {
	return map[string]func(b *harness){
		"a limit with a key": func(b *harness) {
			b.limit = limit.Name("charge-card", "acme")
			b.policy(history.Policy{Concurrency: 1, QueueLimit: 2, Key: "customer.id"})
			a := b.enter("a", "b", "c", "d")
			s := b.stats()
			if s.Action != "charge-card" || s.Key != "acme" || s.MaxConcurrent != 1 || s.QueueLength != 2 || s.Active != 1 || s.Policy != b.force.Policy {
				b.Errorf("%+v", s)
			}
			if s.OldestEnqueuedAt != a.Now {
				b.Errorf("oldest since %d, entered at %d", s.OldestEnqueuedAt, a.Now)
			}
			b.want("counters", b.counters(), "3 0 1 0 0 0")
			p, ok, err := b.limits.Place(b.Context(), b.limit, testMember("c"))
			if err != nil || !ok || p.Position != 2 || p.Waiting != 2 || p.Holding != 1 || p.Since != a.Now || p.Policy != b.force.Policy {
				b.Errorf("%+v, %v, %v", p, ok, err)
			}
			p, ok, err = b.limits.Place(b.Context(), b.limit, testMember("a"))
			if err != nil || !ok || p.Position != 0 || p.Since != 0 {
				b.Errorf("%+v, %v, %v", p, ok, err)
			}
			if _, ok, err := b.limits.Place(b.Context(), b.limit, testMember("d")); ok || err != nil {
				b.Errorf("a rejected caller has a place, %v", err)
			}
			ws, err := b.limits.Waiters(b.Context(), b.limit, 1, 1)
			if err != nil || len(ws) != 1 || ws[0].Member != testMember("c") || ws[0].Position != 2 || ws[0].Since != a.Now {
				b.Errorf("%+v, %v", ws, err)
			}
			if hs, err := b.limits.Holders(b.Context(), b.limit, 5); err != nil || memberNames(hs) != "a" || hs[0] != testMember("a") {
				b.Errorf("%+v, %v", hs, err)
			}
		},
		"actions and keys are independent": func(b *harness) {
			b.policy(concurrency(1))
			for _, name := range []string{"charge-card", limit.Name("charge-card", "acme"), limit.Name("charge-card", "other"), "refund"} {
				b.limit = name
				b.want(name, formatVerdicts(b.enter("a", "b")), "admitted, 1")
			}
		},
	}
}

func TestIdleLimitWithKeyExpiresAfterAnHour(t *testing.T) { each(t, expiryCases()) }

func expiryCases() map[string]func(b *harness) {
	return map[string]func(b *harness){
		"its action is still listed, without callers of its own": func(b *harness) {
			b.limit = limit.Name("charge-card", "acme")
			p := history.Policy{Concurrency: 1, Rate: 10, RateWindow: 60_000, Key: "customer"}
			b.policy(p)
			b.enter("a")
			own := b.space.Limit("charge-card")
			poll.Until(b, time.Minute, "the action is registered", func() bool { return b.rdb.Exists(b.Context(), own.State()).Val() == 1 })
			b.leave("a")
			before := b.rdb.HGetAll(b.Context(), own.State()).Val()
			b.must(b.rdb.Del(b.Context(), b.space.Limit(b.limit).State()).Err())
			b.enter("a")
			s, ok, err := b.limits.Stats(b.Context(), "charge-card")
			if err != nil || !ok || s.Policy != p || s.TotalEnqueued != 0 || s.QueueLength != 0 || b.rdb.PTTL(b.Context(), own.State()).Val() != -1 {
				b.Errorf("%+v, %v, %v", s, ok, err)
			}
			if again := b.rdb.HGetAll(b.Context(), own.State()).Val(); !maps.Equal(before, again) {
				b.Errorf("written again: %v, was %v", again, before)
			}
		},
		"a limit in use does not expire": func(b *harness) {
			b.limit = limit.Name("charge-card", "acme")
			b.policy(history.Policy{Concurrency: 1, Rate: 10, RateWindow: 60_000})
			k := b.space.Limit(b.limit)
			ttl := func(key string) time.Duration {
				d, err := b.rdb.PTTL(context.Background(), key).Result()
				b.must(err)
				return d
			}
			near := func(d, want time.Duration) bool { return d > want-time.Minute && d <= want }
			for range 2 {
				b.enter("a")
				if d := ttl(k.State()); d != -1 {
					b.Errorf("expires in %v although it is in use", d)
				}
				b.leave("a")
				if s, r := ttl(k.State()), ttl(k.Grants()); !near(s, time.Hour) || !near(r, time.Hour) {
					b.Errorf("idle, and expires in %v and %v", s, r)
				}
				b.sweep(nil)
			}
			b.policy(history.Policy{Quota: 5, QuotaWindow: (24 * time.Hour).Milliseconds()})
			b.enter("a")
			b.leave("a")
			if d := ttl(k.State()); !near(d, 24*time.Hour) {
				b.Errorf("expires in %v with a quota window of a day", d)
			}
			b.policy(history.Policy{Rate: 5, RateWindow: (3 * time.Hour).Milliseconds()})
			b.enter("a")
			b.leave("a")
			if s, r := ttl(k.State()), ttl(k.Grants()); !near(s, 3*time.Hour) || !near(r, 3*time.Hour) {
				b.Errorf("expires in %v and %v with a rate window of three hours", s, r)
			}
		},
		"a limit without a key keeps its counters": func(b *harness) {
			b.policy(concurrency(1))
			b.enter("a")
			b.leave("a")
			if d, err := b.rdb.PTTL(context.Background(), b.space.Limit(b.limit).State()).Result(); d != -1 || err != nil {
				b.Errorf("expires in %v, %v", d, err)
			}
		},
		"a sweep does not create a limit": func(b *harness) {
			f := limit.InForce{Policy: concurrency(1), Level: "global"}
			if s := b.sweep(&f); s.Next != 0 || s.IdleFor < time.Hour {
				b.Errorf("%+v", s)
			}
			if n, err := b.rdb.Exists(context.Background(), b.space.Limit(b.limit).State()).Result(); n != 0 || err != nil {
				b.Errorf("%d keys, %v", n, err)
			}
		},
	}
}

// Trap: undeclared keys, and keys in different slots, fail only on a cluster.
func TestLimiterKeepsItsRulesOnACluster(t *testing.T) {
	rdb := redistest.Cluster(t).Client(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	for what, cases := range map[string]map[string]func(b *harness){
		"admitted": admissionCases(), "rejected": rejectionCases(), "restored": restoredCases(), "rejection recorded": recordedRejectionCases(), "changed": changedCases(), "thousands": thousandCases(),
		"deadlocked": deadlockedCases(), "stats": statsCases(), "expired": expiryCases(), "scheduled": wakeupCases(), "orphans": orphanCases(),
		"set at run time": runTimeCases(),
	} {
		t.Run(what, func(t *testing.T) { suite(t, rdb, run, cases) })
	}
}
