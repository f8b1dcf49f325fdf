package leases_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/lease"
)

func (b *harness) report(r leases.Ref, reports ...leases.Reported) {
	b.Helper()
	answer(b, func(done func(struct{}, error)) {
		b.leases.Report(r, reports, func(err error) { done(struct{}{}, err) })
	})
}

func (b *harness) reports(r leases.Ref) map[string]lease.Report {
	b.Helper()
	texts, err := b.rdb.HGetAll(b.Context(), b.space.Part(r.Part).Reports(r.Instance, r.Execution)).Result()
	b.must(err)
	out := make(map[string]lease.Report)
	for field, text := range texts {
		r, ok := record.DecodeReport(text)
		if !ok {
			b.Fatalf("report %q", text)
		}
		out[field] = r
	}
	return out
}

func reportOf(activity uint64, how lease.Ending, after time.Duration) leases.Reported {
	return leases.Reported{Activity: activity, Report: lease.Report{Ending: how, After: after, Worker: "w-1", At: time.UnixMilli(1_790_000_000_123).UTC()}}
}

func TestReportsHaveTheEndsOfActivities(t *testing.T) {
	cases := map[string]func(*harness){
		"no report is written for a purged instance": func(b *harness) {
			b.report(ref(1), reportOf(1, lease.Stopped, 5*time.Millisecond))
			if n := b.rdb.Exists(b.Context(), b.space.Part(3).Reports("order:42", 1)).Val(); n > 0 {
				b.Fatal("a report was written for an instance that does not exist")
			}
		},
		"a report of a second delivery without a lease does not replace another": func(b *harness) {
			b.must(b.rdb.HSet(b.Context(), b.space.Part(3).Instance("order:42"), "execution", "1").Err())
			b.report(ref(1), reportOf(1, lease.Stopped, 5*time.Millisecond))
			b.report(ref(1), reportOf(1, lease.NeverStarted, 0), reportOf(2, lease.NeverStarted, 0))
			b.want("ending", b.reports(ref(1))["1"], lease.Report{Ending: lease.Stopped, After: 5 * time.Millisecond, Worker: "w-1", At: time.UnixMilli(1_790_000_000_123).UTC()})
			b.want("ending", b.reports(ref(1))["2"].Ending, lease.NeverStarted)
			b.report(ref(1), reportOf(2, lease.Abandoned, 10*time.Second)) // it replaces an earlier NeverStarted
			b.want("ending", b.reports(ref(1))["2"].Ending, lease.Abandoned)
		},
		"no report is written for an execution that is not retained": func(b *harness) {
			b.must(b.rdb.HSet(b.Context(), b.space.Part(3).Instance("order:42"), "execution", "3").Err())
			for execution, written := range map[uint64]int{1: 0, 2: 1, 3: 1, 4: 0} {
				r := ref(1)
				r.Execution = execution
				b.report(r, reportOf(1, lease.Stopped, 5*time.Millisecond))
				b.want("reports", len(b.reports(r)), written)
			}
		},
		"five hundred reports are written by one script": func(b *harness) {
			b.must(b.rdb.HSet(b.Context(), b.space.Part(3).Instance("order:42"), "execution", "1").Err())
			var all []leases.Reported
			for i := range leases.MaxReports {
				all = append(all, reportOf(uint64(i+1), lease.NeverStarted, 0))
			}
			b.report(ref(1), all...)
			b.want("reports", len(b.reports(ref(1))), leases.MaxReports)
		},
		"Required reports the leases that exist and claims none": func(b *harness) {
			b.create(ref(1))
			b.create(ref(2))
			b.wantClaim(claimOf(2, "t"), leases.Acquired, 1)
			other := ref(1)
			other.Effect = "of another turn"
			got := answer(b, func(done func([]leases.Outcome, error)) {
				b.leases.Required([]leases.Ref{ref(1), ref(2), ref(3), other}, done)
			})
			if !slices.Equal(got, []leases.Outcome{leases.OK, leases.OK, leases.Gone, leases.Gone}) {
				b.Fatal(got)
			}
			b.wantClaim(claimOf(1, "t"), leases.Acquired, 1)
		},
	}
	redistest.All(t, func(t *testing.T, rdb redis.UniversalClient) {
		for name, f := range cases {
			t.Run(name, func(t *testing.T) {
				b := newHarness(t, rdb)
				f(b)
			})
		}
	})
}

func TestKeyOfReportsNamesTheExecution(t *testing.T) {
	p := redisx.NewSpace("ns").Part(7)
	if n, ok := p.Parse(p.Reports("a:1", 2)); !ok || fmt.Sprint(n) != fmt.Sprint(redisx.ParsedKey{Kind: "r", Instance: "a:1", Execution: 2}) {
		t.Fatalf("the key is parsed as %+v, %v", n, ok)
	}
}
