package lease_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/lease"
)

func TestOutOfMemoryLeasesAreRenewedAndEndedNotClaimed(t *testing.T) {
	s := redistest.Start(t)
	b := newBench(t, s.Client(t))
	for a := range uint64(4) {
		b.create(ref(a))
		if a > 0 {
			b.wantClaim(grip(a, "t"), lease.Acquired, 1)
		}
	}
	b.must(b.rdb.HSet(b.Context(), b.space.Part(3).Instance("order:42"), "execution", 1).Err())
	s.OutOfMemory(t)
	b.must(b.rdb.ScriptFlush(context.Background()).Err()) // as after a restart of one that is full
	b.want("renewals", b.renew(grip(1, "t"), grip(2, "t"), grip(3, "t")), []lease.Outcome{lease.OK, lease.OK, lease.OK})
	b.want("ack", b.ack(grip(1, "t"), "result").Outcome, lease.OK)
	b.want("abandon", b.abandon(grip(2, "t"), true, time.Second), lease.OK)
	b.report(ref(3), reportOf(3, lease.FinishedLate, 0))
	b.want("reports", len(b.reports(ref(3))), 1)
	_, err := redistest.Answer(func(done func(lease.ClaimReply, error)) {
		b.leases.Claim(lease.ClaimRequest{Claim: grip(0, "t"), Worker: "w", TTL: time.Minute, MaxClaims: most}, done)
	})
	if err == nil || !strings.Contains(err.Error(), "OOM") || redisx.Refused(err) {
		t.Errorf("a claim: %v", err)
	}
	s.HasMemory(t)
	b.wantClaim(grip(0, "t"), lease.Acquired, 1)
}
