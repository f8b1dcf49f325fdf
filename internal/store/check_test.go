package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/pkg/history"
)

// consistentInstance creates a consistent instance in its second execution, with an event to another instance in the history of the first.
func (b *harness) consistentInstance() {
	b.Helper()
	_, err := b.commit(record.Commit{
		Instance: "a", NewHead: "h1", Events: encoded(b, started(1), &history.EventSent{Instance: "b", Name: "e"}, &history.ContinuedAsNew{}),
		Record:  &record.Record{Name: "n", Origin: at(1), Execution: 2, Status: record.Running, Produced: record.Watermark{Execution: 1, Event: 2}},
		Prepend: [][]byte{element("!c2.0")},
	})
	b.must(err)
}

// afterFirstTurn creates the instance of consistentInstance, after the first turn of its second execution, which starts a child and sends an event.
func (b *harness) afterFirstTurn() {
	b.Helper()
	b.consistentInstance()
	_, err := b.commit(record.Commit{
		Instance: "a", Execution: 2, Head: "h1", NewHead: "h2", From: record.Running, Pop: []string{"!c2.0"},
		Events: encoded(b, started(2), &history.ChildScheduled{Name: "c", Instance: "child", Effect: "x"}, &history.EventSent{Instance: "b", Name: "e"}),
		Record: &record.Record{Produced: record.Watermark{Execution: 2, Event: 3}, Published: record.Watermark{Execution: 1, Event: 2}}, Wakeup: b.now() + 10_000,
	})
	b.must(err)
}

// wantRules checks the namespace and expects exactly one violation of each of the rules.
func (b *harness) wantRules(parts ...string) {
	b.Helper()
	found, err := b.st.Check(b.ctx(), nil, nil)
	b.must(err)
	for _, part := range parts {
		i := slices.IndexFunc(found.Findings, func(f store.Finding) bool { return strings.Contains(f.Rule, part) })
		if i < 0 {
			b.Errorf("not found: %s", part)
			continue
		}
		b.Log(found.Findings[i])
		found.Findings = slices.Delete(found.Findings, i, i+1)
	}
	for _, f := range found.Findings {
		b.Errorf("found: %s", f)
	}
}

func (b *harness) set(field string, value any) {
	b.Helper()
	b.must(b.rdb.HSet(b.ctx(), b.p.Instance("a"), field, value).Err())
}

func TestCheckFindsNothingInSoundExecution(t *testing.T) {
	each(t, map[string]func(b *harness){
		"an execution that has just begun": func(b *harness) {
			b.consistentInstance()
			b.wantRules()
		},
		"an execution after its first turn": func(b *harness) {
			b.afterFirstTurn()
			b.wantRules()
		},
		"attributes that were set, changed and removed": func(b *harness) {
			b.afterFirstTurn()
			head := "h2"
			for i, attributes := range []string{`{"items":5,"paid":false,"tenant":"acme"}`, `{"items":7,"tenant":"globex"}`, `{"due":{"time":"2026-11-22T08:00:00.000Z"},"tenant":"globex"}`} {
				next := fmt.Sprint("a", i)
				_, err := b.commit(record.Commit{Instance: "a", Execution: 2, Head: head, NewHead: next, From: record.Running, Record: &record.Record{Attributes: attributes}, Wakeup: b.now() + 10_000})
				b.must(err)
				b.wantRules()
				head = next
			}
			b.must(b.rdb.ZScore(b.ctx(), b.p.Values("tenant", "globex"), "a").Err())
			if n := b.rdb.Exists(b.ctx(), b.p.Values("tenant", "acme"), b.p.Numbers("items"), b.p.Values("paid", "false")).Val(); n != 0 {
				b.Errorf("%d sets of former values", n)
			}
		},
		"an instance without a record has findings": func(b *harness) {
			b.afterFirstTurn()
			b.must(b.rdb.Del(b.ctx(), b.p.Instance("a")).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redis.Z{Score: 1, Member: "a"}).Err()) // long overdue
			b.wantRules("has a history of 3 events but no record", "has a history of 3 events but no record",
				"is in the index of running but has no record", "is scheduled, but has neither a record nor unread inputs",
				"is in the set "+b.p.Values("orchestration", "n"))
		},
	})
}

// Each violation is read several times, with pauses, before it is a finding. So the cases run in parallel, on one store.
func TestCheckFindsBrokenInvariants(t *testing.T) {
	_, rdb := redistest.MiniClient(t)
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	for name, f := range map[string]func(b *harness){
		"an execution that has just begun without its start": func(b *harness) {
			b.consistentInstance()
			b.must(b.rdb.LPush(b.ctx(), b.p.Inbox("a"), element("e1")).Err())
			b.wantRules("its start is not the first unread input")
		},
		"a history that is missing although the record counts events": func(b *harness) {
			b.consistentInstance()
			b.set("events", 2)
			b.wantRules("has a record but no history")
		},
		"a history without its last events": func(b *harness) {
			b.afterFirstTurn()
			b.set("events", 4)
			b.wantRules("has 4 events, but the history has 3")
		},
		"the history of an execution that has not begun, and one without a record": func(b *harness) {
			b.consistentInstance()
			b.must(b.rdb.RPush(b.ctx(), b.p.History("a", 3), "x").Err())
			b.must(b.rdb.RPush(b.ctx(), b.p.History("b", 1), "x").Err())
			b.wantRules("execution 3 has a history of 1 events, but the current one is 2", "has a history of 1 events but no record")
		},
		"a child and a message without a wakeup": func(b *harness) {
			b.afterFirstTurn()
			b.must(b.rdb.ZRem(b.ctx(), b.p.Wakeups(), "a").Err())
			b.wantRules("1 children outstanding", "has pending messages after \"1.2\" up to 2.3")
		},
		"a pending message beyond the watermark": func(b *harness) {
			b.afterFirstTurn()
			b.set("prod", "2.2")
			b.wantRules("event 3 has a pending message, but the last one in the record is \"2.2\"")
		},
		"a slot that is retained without a holder": func(b *harness) {
			b.afterFirstTurn()
			b.set("r:ticket", 1)
			b.wantRules("the record retains the slots of [\"ticket\"], but the history those of []")
		},
		"watermarks beyond the history": func(b *harness) {
			b.afterFirstTurn()
			b.set("prod", "2.4")
			b.wantRules("up to 2.4 are pending, but the history ends at 2.3")
			b.set("prod", "3.1")
			b.wantRules("up to 3.1 are pending, but the history ends at 2.3")
			b.set("prod", "2.3")
			b.set("pub", "2.4")
			b.wantRules("up to 2.4 are published, but the last one produced is 2.3")
		},
		"pending messages whose history was pruned": func(b *harness) {
			b.consistentInstance()
			b.must(b.rdb.Del(b.ctx(), b.p.History("a", 1)).Err())
			b.wantRules("up to 1.2 are pending, but the history of that execution has 0 events")
		},
		"a lost lease, also if a completion of the previous execution is unread": func(b *harness) {
			b.consistentInstance()
			_, err := b.commit(record.Commit{
				Instance: "a", Execution: 2, Head: "h1", NewHead: "h2", From: record.Running, Pop: []string{"!c2.0"},
				Events: encoded(b, started(2), &history.ActivityScheduled{Name: "act", Effect: "e2"}), Create: leasesOf(2),
				Record: &record.Record{Published: record.Watermark{Execution: 1, Event: 2}}, Wakeup: b.now() + 10_000,
			})
			b.must(err)
			b.wantRules()
			b.must(b.rdb.Del(b.ctx(), b.p.Lease("a", 2, 2)).Err())
			body := encoded(b, &history.ActivityCompleted{Scheduled: 2})[0]
			push := func(id string) {
				b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), eventcodec.Element{ID: id, At: 1, Body: body}.Encode()).Err())
			}
			push("ae1.token")
			b.wantRules("activity 2 (act) is outstanding, but has neither a lease nor an unread completion")
			push("ae2.token")
			b.wantRules()
		},
		"remains of an execution that was pruned, and reports of one that has not begun": func(b *harness) {
			b.consistentInstance()
			for execution := 0; execution <= 3; execution++ { // before its first turn, an execution also keeps the last but one
				b.must(b.rdb.HSet(b.ctx(), b.p.Reports("a", uint64(execution)), "2", "{}").Err())
			}
			b.wantRules("execution 3 has reports on 1 activities, but the current one is 2")
			b.must(b.rdb.Del(b.ctx(), b.p.Reports("a", 3)).Err())
			_, err := b.commit(record.Commit{
				Instance: "a", Execution: 2, Head: "h1", NewHead: "h2", From: record.Running, Pop: []string{"!c2.0"},
				Events: encoded(b, started(2)), Record: &record.Record{Published: record.Watermark{Execution: 1, Event: 2}},
			})
			b.must(err)
			b.must(b.rdb.RPush(b.ctx(), b.p.History("a", 0), "x").Err())
			b.must(b.rdb.HSet(b.ctx(), b.p.Reports("a", 0), "2", "{}").Err())
			b.wantRules("execution 0 has reports on 1 activities, but the current one is 2", "execution 0 has a history of 1 events, but the current one is 2")
		},
		"remains of a purged instance": func(b *harness) {
			b.endedInstance()
			pu := purgeOfA()
			b.must(b.purge(pu))
			b.wantRules()
			b.must(b.rdb.HSet(b.ctx(), b.p.Reports("a", 2), "2", "{}").Err())
			b.must(b.rdb.HSet(b.ctx(), b.p.Lease("a", 2, 2), "e", "e2").Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Index("completed"), redisZ(5, "a")).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redisZ(5, "a")).Err())
			b.must(b.rdb.HSet(b.ctx(), b.p.Stalled(), "a", "why").Err())
			b.wantRules("has reports on 1 activities but no record", "lease of activity 2 of execution 2, which is not outstanding",
				"is in the index of completed but has no record", "is scheduled, but has neither a record", "is listed as stalled, but has neither a record")
		},
		"sets of values that differ from the record": func(b *harness) {
			b.afterFirstTurn()
			b.set("attributes", `{"tenant":"acme"}`)
			b.must(b.rdb.Del(b.ctx(), b.p.Orchestrations()).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Values("orchestration", "n"), redisZ(5, "a")).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Values("code", "x:y"), redisZ(5, "gone"), redisZ(5, "a")).Err())
			b.wantRules("is in the set "+b.p.Values("code", "x:y")+", but has no record with the value",
				"is in the set "+b.p.Values("code", "x:y")+", but has no record with the value",
				"is in the set "+b.p.Values("orchestration", "n")+" with score 5 instead of 0", "is not in the set "+b.p.Values("tenant", "acme"), "the orchestration n has instances but is not among the orchestrations")
		},
		"a lease of the previous execution": func(b *harness) {
			b.afterFirstTurn()
			b.must(b.rdb.HSet(b.ctx(), b.p.Lease("a", 1, 2), "e", "e2").Err())
			b.wantRules("lease of activity 2 of execution 1, which is not outstanding")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(newHarness(t, rdb, run))
		})
	}
}

func TestCheckInSweepsEqualsCheckInOne(t *testing.T) {
	t.Parallel()
	_, rdb := redistest.MiniClient(t)
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	b := newHarness(t, rdb, run)
	b.afterFirstTurn()
	b.must(rdb.RPush(b.ctx(), b.space.Part(part+1).History("orphan", 1), "x").Err())
	whole, err := b.st.Check(b.ctx(), nil, nil)
	b.must(err)
	parts, err := b.st.CheckInSweeps(b.ctx(), 1)
	b.must(err)
	if whole.Instances != 2 || len(whole.Findings) != 1 || !reflect.DeepEqual(parts, whole) {
		t.Errorf("in sweeps: %+v, at once: %+v", parts, whole)
	}
}
