package store_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
)

func TestOutOfMemoryRunningWorkContinues(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	run := redisx.NewRunner(rdb)
	defer run.Close()
	rejected := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "OOM") || redisx.Refused(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, f := range map[string]func(b *harness){
		"due reads and reconciliations are executed": func(b *harness) {
			b.started("a", "h1", 1, 2)
			b.claim("a", 1, 1, -1)
			b.must(rdb.ZAdd(b.ctx(), b.p.Wakeups(), redis.Z{Member: "a"}).Err())
			s.OutOfMemory(t)
			if got, err := b.due(10); err != nil || len(got.Instances) != 1 {
				b.Errorf("due: %+v, %v", got, err)
			}
			got, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h1", Leases: leasesOf(1, 2), MaxClaims: 3, Wakeup: b.now() + 10_000, Stalled: "why"})
			if err != nil || got.Leases[0].Status != record.ClaimExpired {
				b.Errorf("reconciliation: %+v, %v", got, err)
			}
		},
		"a turn that starts nothing is written": func(b *harness) {
			b.started("a", "h1", 1)
			s.OutOfMemory(t)
			_, err := b.commit(record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("second")}, Delete: leasesOf(1),
				Record: &record.Record{Name: "n", Execution: 1, Status: record.Running},
			})
			b.must(err)
			_, err = b.commit(record.Commit{
				Instance: "a", Head: "h2", NewHead: "h3", From: record.Running, Events: [][]byte{[]byte("the end")},
				Record: &record.Record{Name: "n", Execution: 1, Status: record.Completed, Ended: 5},
			})
			b.must(err)
		},
		"a turn that starts something is rejected, and written later": func(b *harness) {
			b.started("a", "h1")
			s.OutOfMemory(t)
			c := record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("second")}, Create: leasesOf(2),
				Record: &record.Record{Name: "n", Execution: 1, Status: record.Running},
			}
			_, err := b.commit(c)
			rejected("commit", err)
			if head, err := b.st.Head(b.ctx(), part, "a"); err != nil || head != "h1" || len(b.lease("a", 2)) > 0 {
				b.Errorf("head %q, %v", head, err)
			}
			s.HasMemory(t)
			_, err = b.commit(c)
			b.must(err)
		},
		"a rewind is rejected completely, and written later": func(b *harness) {
			b.started("a", "h1", 1)
			b.must(rdb.RPush(b.ctx(), b.p.History("a", 2), "of a rewind that Redis has lost").Err())
			s.OutOfMemory(t)
			w := record.Rewind{
				Instance: "a", Execution: 1, Keep: 1, Head: "h1", NewHead: "h2", From: record.Running, To: record.Running, Delete: leasesOf(1),
				Prepend: [][]byte{eventcodec.Element{ID: "!r2.0", At: 1, Body: []byte("again")}.Encode()},
			}
			rewind := func() error {
				_, err := redistest.Answer(func(done func(record.Committed, error)) { b.st.Rewind(b.own, &w, done) })
				return err
			}
			err := rewind()
			if head, bad := b.st.Head(b.ctx(), part, "a"); bad != nil || (head == "h1") != (err != nil) || (head == "h1") != (len(b.lease("a", 1)) > 0) {
				b.Errorf("%v: head %q, %v, lease %v", err, head, bad, b.lease("a", 1))
			}
			s.HasMemory(t)
			b.must(rewind())
		},
		"a purge is executed": func(b *harness) {
			b.endedInstance()
			s.OutOfMemory(t)
			b.must(b.purge(purgeOfA()))
			b.wantGone(b.p.Seen("a")) // kept for an hour
		},
		"an input is rejected, and ingested later": func(b *harness) {
			s.OutOfMemory(t)
			_, err := b.ingest(0, 1, message("a", "1", record.StartMessage))
			rejected("ingest", err)
			s.HasMemory(t)
			_, err = b.ingest(0, 1, message("a", "1", record.StartMessage))
			b.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer s.HasMemory(t)
			f(newHarness(t, rdb, run))
		})
	}
}
