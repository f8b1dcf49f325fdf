package leases_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/lease"
)

func TestOutOfMemoryLeasesAreRenewedAndEndedNotClaimed(t *testing.T) {
	s := redistest.Start(t)
	b := newHarness(t, s.Client(t))
	for a := range uint64(4) {
		b.create(ref(a))
		if a > 0 {
			b.wantClaim(claimOf(a, "t"), leases.Acquired, 1)
		}
	}
	b.must(b.rdb.HSet(b.Context(), b.space.Part(3).Instance("order:42"), "execution", 1).Err())
	s.OutOfMemory(t)
	b.must(b.rdb.ScriptFlush(context.Background()).Err()) // as after a restart of a full Redis
	b.want("renewals", b.renew(claimOf(1, "t"), claimOf(2, "t"), claimOf(3, "t")), []leases.Outcome{leases.OK, leases.OK, leases.OK})
	b.want("ack", b.ack(claimOf(1, "t"), "result").Outcome, leases.OK)
	b.want("release", b.release(claimOf(2, "t"), true, time.Second), leases.OK)
	b.report(ref(3), reportOf(3, lease.FinishedLate, 0))
	b.want("reports", len(b.reports(ref(3))), 1)
	_, err := redistest.Answer(func(done func(leases.ClaimReply, error)) {
		b.leases.Claim(leases.ClaimRequest{Claim: claimOf(0, "t"), Worker: "w", TTL: time.Minute, MaxClaims: maxClaims}, done)
	})
	if err == nil || !strings.Contains(err.Error(), "OOM") || redisx.Refused(err) {
		t.Errorf("a claim: %v", err)
	}
	s.HasMemory(t)
	b.wantClaim(claimOf(0, "t"), leases.Acquired, 1)
}
