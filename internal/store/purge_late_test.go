package store_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/lease"
)

// workers returns the scripts of workers on the store of the harness.
func (b *harness) workers() *leases.Scripts {
	b.Helper()
	run := redisx.NewRunner(b.rdb)
	b.Cleanup(run.Close)
	return leases.New(run, b.space)
}

// unchanged checks that calls write nothing.
func (b *harness) unchanged(what string, calls func()) {
	b.Helper()
	before := b.dump()
	calls()
	if after := b.dump(); !maps.Equal(before, after) {
		b.Errorf("%s: something was written:\n%v\n%v", what, before, after)
	}
}

func TestPurgedInstanceStaysPurged(t *testing.T) {
	each(t, map[string]func(b *harness){
		"a repeated ingest and a duplicate message are dropped": func(b *harness) {
			b.endedInstance(events(1, 1)...)
			b.must(b.purge(purgeOfA()))
			batch := append([]record.Message{message("a", "p", record.CancelMessage)}, events(1, 1)...)
			b.unchanged("the batch", func() {
				if got, err := b.ingest(0, 2, batch...); got != nil || err != nil {
					b.Errorf("%v, %v", got, err)
				}
			})
			got, err := b.ingest(2, 4, batch...)
			b.must(err)
			if !got[0].Repeat || !got[1].Repeat {
				b.Errorf("%+v", got)
			}
			b.wantInbox("a", "e1")
		},
		"a purge or a cancel of an unknown instance is dropped": func(b *harness) {
			b.endedInstance()
			b.must(b.purge(purgeOfA()))
			got, err := b.ingest(1, 2, message("a", "p2", record.CancelMessage))
			b.must(err)
			if !got[0].Unknown {
				b.Errorf("%+v", got)
			}
			b.wantGone(b.p.Seen("a"))
		},
		"a worker with an old lease writes nothing": func(b *harness) {
			b.afterPurge(func(ref leases.Ref, ws *leases.Scripts) {
				claimed := leases.Claim{Ref: ref, Token: "tok"}
				acked, err := redistest.Answer(func(done func(leases.Acked, error)) {
					ws.Ack(leases.Completion{Claim: claimed, Body: []byte("x")}, done)
				})
				b.must(err)
				out, err := redistest.Answer(func(done func(leases.Outcome, error)) {
					ws.Release(leases.ReleaseRequest{Claim: claimed, Delay: time.Hour}, done)
				})
				b.must(err)
				renewed, err := redistest.Answer(func(done func([]leases.Outcome, error)) { ws.Renew(part, []leases.Claim{claimed}, time.Minute, done) })
				b.must(err)
				request := leases.ClaimRequest{Claim: claimed, Worker: "w", TTL: time.Minute, MaxClaims: 3}
				claim, err := redistest.Answer(func(done func(leases.ClaimReply, error)) { ws.Claim(request, done) })
				b.must(err)
				if acked.Outcome != leases.Gone || out != leases.Gone || renewed[0] != leases.Gone || claim.Outcome != leases.Gone {
					b.Errorf("ack %v, release %v, renew %v, claim %v", acked.Outcome, out, renewed[0], claim.Outcome)
				}
			})
		},
		"a report about a cancelled activity is not written": func(b *harness) {
			b.afterPurge(func(ref leases.Ref, ws *leases.Scripts) {
				for execution := uint64(1); execution <= 3; execution++ {
					ref.Execution = execution
					_, err := redistest.Answer(func(done func(any, error)) {
						ws.Report(ref, []leases.Reported{{Activity: 2, Report: lease.Report{Ending: lease.Stopped}}}, func(err error) { done(nil, err) })
					})
					b.must(err)
				}
			})
		},
		"an outstanding reconciliation or commit is rejected": func(b *harness) {
			b.afterPurge(func(leases.Ref, *leases.Scripts) {
				for _, head := range []string{"h1", "h3"} {
					if _, err := b.reconcile(record.Reconciliation{Instance: "a", Head: head, MaxClaims: 3, Wakeup: b.now() + 1000, Stalled: "why", Leases: leasesOf(2)}); !errors.Is(err, record.ErrConflict) {
						b.Errorf("reconciliation: %v", err)
					}
					c := record.Commit{Instance: "a", Execution: 2, Head: head, NewHead: "h9", From: record.Running, Create: leasesOf(7), Record: &record.Record{}}
					if _, err := b.commit(c); !errors.Is(err, record.ErrConflict) {
						b.Errorf("commit: %v", err)
					}
				}
			})
		},
		"its first turn is rejected, and a reconciliation of early inputs writes nothing": func(b *harness) {
			b.afterPurge(func(leases.Ref, *leases.Scripts) {
				first := record.Commit{
					Instance: "a", NewHead: "h1", Pop: []string{"!s1"}, Events: encoded(b, started(1)),
					Record: &record.Record{Name: "n", Origin: at(1), Execution: 1, Status: record.Running},
				}
				if _, err := b.commit(first); !errors.Is(err, record.ErrConflict) {
					b.Errorf("commit: %v", err)
				}
				early := record.Reconciliation{Instance: "a", MaxClaims: 3, Wakeup: b.now() + 86_400_000, Deferral: record.DeferEarly, Stalled: "it waits for its start"}
				if _, err := b.reconcile(early); err != nil {
					b.Errorf("reconciliation: %v", err)
				}
			})
		},
	})
}

// afterPurge purges an instance and checks that late calls write nothing.
func (b *harness) afterPurge(calls func(ref leases.Ref, ws *leases.Scripts)) {
	b.Helper()
	b.endedInstance()
	b.must(b.purge(purgeOfA()))
	b.unchanged("late calls", func() {
		calls(leases.Ref{Part: part, Instance: "a", Execution: 2, Activity: 2, Effect: "e2"}, b.workers())
	})
}

func TestPruneRemovesReports(t *testing.T) {
	each(t, map[string]func(b *harness){
		"only those of the last execution but one": func(b *harness) {
			b.afterFirstTurn()
			for execution := uint64(1); execution <= 2; execution++ {
				b.must(b.rdb.HSet(b.ctx(), b.p.Reports("a", execution), "2", "{}").Err())
			}
			_, err := b.commit(record.Commit{
				Instance: "a", Execution: 2, Head: "h2", NewHead: "h3", From: record.Running,
				Events:  encoded(b, &history.ChildCancelRequested{Scheduled: 2, Reason: cancel.ContinuedAsNew}, &history.ContinuedAsNew{}),
				Record:  &record.Record{Name: "n", Origin: at(1), Execution: 3, Status: record.Running, Published: record.Watermark{Execution: 2, Event: 4}, Produced: record.Watermark{Execution: 2, Event: 4}},
				Prepend: [][]byte{element("!c3.0")},
			})
			b.must(err)
			b.wantSound() // the new execution has not pruned yet
			_, err = b.commit(record.Commit{
				Instance: "a", Execution: 3, Head: "h3", NewHead: "h4", From: record.Running, Pop: []string{"!c3.0"}, Events: encoded(b, started(3)), Prune: 1,
			})
			b.must(err)
			keys := b.dump()
			if keys[b.p.Reports("a", 1)] != "" || keys[b.p.History("a", 1)] != "" || keys[b.p.Reports("a", 2)] == "" || keys[b.p.History("a", 2)] == "" {
				b.Errorf("%v", keys)
			}
			b.wantSound()
		},
	})
}
