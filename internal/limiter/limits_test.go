package limiter_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

func TestRateIsNotExceededInAnyWindow(t *testing.T) {
	b := clock(t)
	b.policy(history.Policy{Rate: 3, RateWindow: 1_000, QueueTimeout: -1})
	b.at(0)
	b.want("entering", formatVerdicts(b.enter("a", "b")), "admitted, admitted")
	b.at(500)
	a := b.enter("c", "d", "e", "f")
	b.want("entering", formatVerdicts(a), "admitted, 1, 2, 3")
	if a.LimitedUntil != epoch+1_000 || a.Verdicts[1].Until != 0 {
		t.Errorf("limited until %d, waits until %d", a.LimitedUntil-epoch, a.Verdicts[1].Until)
	}
	b.leave("a", "b", "c") // grants count toward the rate, not holders
	b.at(999)
	s := b.sweep(nil)
	if len(s.Granted) != 0 || s.Next != epoch+1_000 || s.LimitedUntil != epoch+1_000 {
		t.Errorf("a millisecond too early: %+v", s)
	}
	b.at(1_000)
	s = b.sweep(nil)
	b.want("when the two oldest grants are outside the window", memberNames(s.Granted), "d e")
	if s.Next != epoch+1_500 {
		t.Errorf("next in %d", s.Next-epoch)
	}
	b.at(1_499)
	b.want("too early", memberNames(b.sweep(nil).Granted), "")
	b.at(1_500)
	b.want("when the third grant is outside the window", memberNames(b.sweep(nil).Granted), "f")
	if s := b.stats(); s.LimitedUntil != epoch+2_000 {
		t.Errorf("limited until %d", s.LimitedUntil-epoch)
	}
	b.at(2_500)
	if s := b.stats(); s.LimitedUntil != 0 {
		t.Errorf("limited until %d", s.LimitedUntil-epoch)
	}
	b.policy(history.Policy{Rate: 3, RateWindow: 1_000, Reject: true})
	a = b.enter("g", "h", "i", "j")
	b.want("with a policy that rejects", formatVerdicts(a), "admitted, admitted, admitted, limited")
	if until := a.Verdicts[3].Until; until != epoch+3_500 {
		t.Errorf("rejected until %d", until-epoch)
	}
}

func TestLoweredRateCountsEarlierGrants(t *testing.T) {
	b := clock(t)
	b.policy(history.Policy{Rate: 10, RateWindow: 1_000, QueueTimeout: -1})
	for i := range 5 {
		b.at(int64(i) * 100)
		b.enter(fmt.Sprint(i))
	}
	b.policy(history.Policy{Rate: 2, RateWindow: 1_000, QueueTimeout: -1})
	if a := b.enter("x"); formatVerdicts(a) != "1" || a.LimitedUntil != epoch+1_300 {
		t.Errorf("%s, limited until %d, want the end of the fourth grant's window", formatVerdicts(a), a.LimitedUntil-epoch)
	}
	b.at(1_299)
	b.want("too early", memberNames(b.sweep(nil).Granted), "")
	b.at(1_300)
	b.want("at its time", memberNames(b.sweep(nil).Granted), "x")
	b.policy(concurrency(100))
	b.enter("y")
	if n := b.rdb.LLen(t.Context(), b.space.Limit(b.limit).Grants()).Val(); n != 0 {
		t.Errorf("%d grants are kept without a rate", n)
	}
}

func TestGrantTimesAreBoundedByRate(t *testing.T) {
	b := clock(t)
	b.policy(history.Policy{Rate: 150, RateWindow: 1_000})
	for i := range 20 {
		b.at(int64(i) * 331)
		var es []limit.Entry
		for j := range 100 {
			es = append(es, limit.Entry{Member: testMember(fmt.Sprint(i, ".", j))})
		}
		b.admit(nil, es...)
		if n := b.rdb.LLen(t.Context(), b.space.Limit(b.limit).Grants()).Val(); n > 150 {
			t.Fatalf("%d grants are kept", n)
		}
	}
}

func TestQuotaWindowOpensWithFirstGrant(t *testing.T) {
	b := clock(t)
	b.policy(history.Policy{Quota: 2, QuotaWindow: 10_000, QueueTimeout: -1})
	b.at(100)
	b.enter("a")
	b.at(9_000)
	a := b.enter("b", "c", "d", "e")
	b.want("entering", formatVerdicts(a), "admitted, 1, 2, 3")
	if a.LimitedUntil != epoch+10_100 {
		t.Errorf("limited until %d", a.LimitedUntil-epoch)
	}
	b.leave("a", "b")
	b.at(10_099)
	if s := b.sweep(nil); len(s.Granted) != 0 || s.Next != epoch+10_100 {
		t.Errorf("%+v", s)
	}
	b.at(10_300)
	b.want("the next window", memberNames(b.sweep(nil).Granted), "c d")
	if s := b.stats(); s.LimitedUntil != epoch+20_300 {
		t.Errorf("limited until %d, want the end of a window that starts with its first grant", s.LimitedUntil-epoch)
	}
	b.at(50_000)
	b.want("a later window", memberNames(b.sweep(nil).Granted), "e")
	if s := b.stats(); s.LimitedUntil != 0 {
		t.Errorf("limited until %d", s.LimitedUntil-epoch)
	}
}

func TestClockStepBackVoidsFutureGrants(t *testing.T) {
	t.Run("the order of the waiters is unchanged", func(t *testing.T) {
		b := clock(t)
		b.policy(concurrency(1))
		b.enter("a", "b")
		b.at(-3_600_000)
		b.want("after the clock stepped back", formatVerdicts(b.enter("c", "d")), "2, 3")
		b.at(10)
		b.want("after it advanced again", formatVerdicts(b.enter("e")), "4")
		b.want("waiters", b.waiters(), "b c d e")
	})
	t.Run("grants in the future are not counted", func(t *testing.T) {
		b := clock(t)
		b.policy(history.Policy{Rate: 250, RateWindow: 10_000, QueueTimeout: -1})
		var es []limit.Entry
		for i := range 249 {
			es = append(es, limit.Entry{Member: testMember(fmt.Sprint(i))})
		}
		b.at(-60_000)
		b.enter("early")
		b.at(-50_500)
		b.admit(nil, es...)
		b.at(-55_000)
		a := b.enter("y")
		if formatVerdicts(a) != "admitted" || a.LimitedUntil != 0 {
			t.Errorf("%s, %+v", formatVerdicts(a), a)
		}
		if n := b.rdb.LLen(t.Context(), b.space.Limit(b.limit).Grants()).Val(); n != 2 {
			t.Errorf("%d grants are kept: the early one and the last", n)
		}
	})
	t.Run("a quota window in the future is void", func(t *testing.T) {
		b := clock(t)
		b.policy(history.Policy{Quota: 1, QuotaWindow: 3_600_000, QueueTimeout: -1})
		b.want("first", formatVerdicts(b.enter("a", "b")), "admitted, 1")
		b.at(-1)
		b.want("admitted", memberNames(b.sweep(nil).Granted), "b")
		if s := b.stats(); s.LimitedUntil != epoch-1+3_600_000 {
			t.Errorf("limited until %d", s.LimitedUntil-epoch)
		}
	})
	t.Run("the limit becomes idle", func(t *testing.T) {
		b := clock(t)
		b.policy(concurrency(1))
		b.enter("a")
		b.leave("a")
		b.at(-60_000)
		if s := b.sweep(nil); s.IdleFor != 0 {
			t.Errorf("%+v", s)
		}
		b.at(-20_000)
		if s := b.sweep(nil); s.IdleFor.Milliseconds() != 40_000 {
			t.Errorf("idle for %v", s.IdleFor)
		}
	})
}

// A model-based test of all limits, with a clock that advances at random: the model decides which members must be admitted, and when.
func TestRandomRequestsKeepOrderAndLimits(t *testing.T) {
	mini, rdb := redistest.MiniClient(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	rapid.Check(t, func(rt *rapid.T) {
		b := newHarness(t, rdb, run)
		b.mini = mini
		p := history.Policy{
			Concurrency: uint32(rapid.IntRange(0, 4).Draw(rt, "concurrency")), Rate: uint32(rapid.IntRange(0, 3).Draw(rt, "rate")), RateWindow: 1_000,
			Quota: uint64(rapid.IntRange(0, 6).Draw(rt, "quota")), QuotaWindow: 5_000, QueueTimeout: -1,
		}
		b.policy(p)
		now, next := int64(0), 0
		var queue, in []string
		var times []int64
		begin := int64(-1) // of the window of the quota
		spent := uint64(0)
		room := func() bool {
			recent := 0
			for _, at := range times {
				if at+1_000 > now {
					recent++
				}
			}
			open := begin >= 0 && now < begin+5_000
			return (p.Concurrency == 0 || len(in) < int(p.Concurrency)) && (p.Rate == 0 || recent < int(p.Rate)) &&
				(p.Quota == 0 || !open || spent < p.Quota)
		}
		grant := func(name string) {
			in = append(in, name)
			times = append(times, now)
			if begin < 0 || now >= begin+5_000 {
				begin, spent = now, 0
			}
			spent++
		}
		promote := func() string {
			var out []limit.Member
			for len(queue) > 0 && room() {
				grant(queue[0])
				out = append(out, testMember(queue[0]))
				queue = queue[1:]
			}
			return memberNames(out)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			now += rapid.SampledFrom([]int64{0, 0, 1, 200, 999, 1_000, 4_000}).Draw(rt, "pause")
			b.at(now)
			var got limit.AdmitReply
			want := ""
			switch rapid.IntRange(0, 3).Draw(rt, "operation") {
			case 0, 1:
				want = promote()
				name := fmt.Sprint(next)
				next++
				verdict := "admitted"
				if len(queue) == 0 && room() {
					grant(name)
				} else {
					queue = append(queue, name)
					verdict = fmt.Sprint(len(queue))
				}
				got = b.enter(name)
				if formatVerdicts(got) != verdict {
					rt.Fatalf("%s: %s, want %s", name, formatVerdicts(got), verdict)
				}
			case 2:
				name := "absent"
				switch {
				case len(in) > 0 && rapid.Bool().Draw(rt, "a holder"):
					i := rapid.IntRange(0, len(in)-1).Draw(rt, "which")
					name, in = in[i], append(in[:i:i], in[i+1:]...)
				case len(queue) > 0:
					i := rapid.IntRange(0, len(queue)-1).Draw(rt, "which")
					name, queue = queue[i], append(queue[:i:i], queue[i+1:]...)
				}
				want = promote()
				got = b.leave(name)
			case 3:
				want = promote()
				s := b.sweep(nil)
				got = limit.AdmitReply{Granted: s.Granted, Waiting: s.Waiting, Holding: s.Holding}
			}
			if memberNames(got.Granted) != want || got.Waiting != len(queue) || got.Holding != len(in) {
				rt.Fatalf("admitted %q, want %q; %d wait, want %d; %d hold, want %d", memberNames(got.Granted), want, got.Waiting, len(queue), got.Holding, len(in))
			}
		}
		for _, err := range b.limits.Check(t.Context(), b.limit) {
			rt.Fatal(err)
		}
	})
}

// Trap: while all slots are occupied, the time of the next sweep does not depend on rate and quota. A slot that is released before they
// allow the next grant would stay free until that sweep.
func TestSweepIsRequestedWhenWaitersBeginToWaitForRate(t *testing.T) {
	for what, p := range map[string]history.Policy{
		"rate":  {Concurrency: 1, Rate: 1, RateWindow: 1_000, QueueTimeout: -1},
		"quota": {Concurrency: 1, Quota: 1, QuotaWindow: 1_000, QueueTimeout: -1},
	} {
		t.Run(what, func(t *testing.T) {
			b := clock(t)
			b.policy(p)
			if a := b.enter("a", "b", "c"); !a.SweepNow {
				t.Error("no sweep is requested for the first waiter")
			}
			if s := b.sweep(nil); s.Next != epoch+2_000 {
				t.Errorf("next in %d", s.Next-epoch)
			}
			b.at(100)
			if a := b.leave("a"); !a.SweepNow || len(a.Granted) != 0 {
				t.Errorf("b waits for the %s now, and no sweep is requested: %+v", what, a)
			}
			if s := b.sweep(nil); s.Next != epoch+1_000 {
				t.Errorf("next in %d", s.Next-epoch)
			}
			if a := b.enter("d"); a.SweepNow {
				t.Error("swept twice")
			}
			b.at(1_000)
			b.want("at its time", memberNames(b.sweep(nil).Granted), "b")
			b.at(2_500)
			if a := b.leave("b"); a.SweepNow || memberNames(a.Granted) != "c" {
				t.Errorf("d waits for a slot: %+v", a)
			}
			b.at(2_600)
			if a := b.leave("d", "c"); a.SweepNow {
				t.Errorf("there is no waiter: %+v", a)
			}
		})
	}
}
