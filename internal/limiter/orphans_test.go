package limiter_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redistest"
)

func (b *harness) releaseOrphans(at int64, names ...string) limit.AdmitReply {
	b.Helper()
	ds := make([]limit.Orphan, len(names))
	for i, n := range names {
		ds[i] = limit.Orphan{Member: testMember(n), At: epoch + at}
	}
	got, err := redistest.Answer(func(done func(limit.AdmitReply, error)) { b.limits.ReleaseOrphans(b.limit, ds, done) })
	b.must(err)
	return got
}

func TestReleasedOrphanLeavesUnlessActiveSince(t *testing.T) {
	b := clock(t)
	b.policy(concurrency(1))
	b.enter("a")
	b.at(10)
	b.enter("b")
	b.at(20)
	b.enter("a") // a repeated request shows that it is active
	b.at(25)
	if got := b.releaseOrphans(15, "a"); got.Holding != 1 || len(got.Granted) != 0 {
		t.Fatalf("removed although it was active since: %+v", got)
	}
	b.at(30)
	if got := b.releaseOrphans(20, "a", "absent"); memberNames(got.Granted) != "b" || got.Holding != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestOrphanThatEnteredAgainStays(t *testing.T) {
	b := clock(t)
	b.policy(concurrency(1))
	b.enter("a")
	b.at(10)
	b.enter("b")
	if got := b.releaseOrphans(10, "b"); got.Waiting != 1 {
		t.Fatalf("%+v", got)
	}
	b.at(20)
	b.leave("a") // b is admitted
	b.at(30)
	b.leave("b")
	b.enter("c")
	b.enter("b") // waits
	if got := b.releaseOrphans(20, "b"); got.Waiting != 1 || got.Holding != 1 {
		t.Fatalf("%+v", got)
	}
}

func TestRejectedOrphanIsRemoved(t *testing.T) {
	b := clock(t)
	p := concurrency(1)
	p.QueueTimeout = 100
	b.policy(p)
	b.enter("a")
	b.enter("b")
	b.at(200)
	if s := b.sweep(nil); len(s.Rejected) != 1 {
		t.Fatalf("%+v", s)
	}
	if got := b.releaseOrphans(100, "b"); got.Waiting+got.Holding != 1 {
		t.Fatalf("%+v", got)
	}
	b.want("before its notice", formatVerdicts(b.enter("b")), limit.TimedOut.String())
	b.at(300)
	b.releaseOrphans(300, "b")
	b.want("after", formatVerdicts(b.enter("b")), "1")
}
