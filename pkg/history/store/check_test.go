package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// sound is an instance in its second execution, with a child and an event to another instance in its history, and nothing wrong.
func (b *bench) sound() {
	b.Helper()
	_, err := b.commit(store.Commit{
		Instance: "a", NewHead: "h1", Events: encoded(b, started(1), &history.EventSent{Instance: "b", Name: "e"}, &history.ContinuedAsNew{}),
		Record:  &store.Record{Name: "n", Origin: at(1), Execution: 2, Status: store.Running, Produced: store.Watermark{Execution: 1, Event: 2}},
		Prepend: [][]byte{element("!c2.0")},
	})
	b.must(err)
}

// turned is sound, after the first turn of the second execution.
func (b *bench) turned() {
	b.Helper()
	b.sound()
	_, err := b.commit(store.Commit{
		Instance: "a", Execution: 2, Head: "h1", NewHead: "h2", From: store.Running, Pop: []string{"!c2.0"},
		Events: encoded(b, started(2), &history.ChildScheduled{Name: "c", Instance: "child", Effect: "x"}, &history.EventSent{Instance: "b", Name: "e"}),
		Record: &store.Record{Produced: store.Watermark{Execution: 2, Event: 3}, Published: store.Watermark{Execution: 1, Event: 2}}, Wakeup: b.now() + 10_000,
	})
	b.must(err)
}

// wantRules checks the namespace and wants each of the rules broken once, and no other.
func (b *bench) wantRules(parts ...string) {
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

func (b *bench) set(field string, value any) {
	b.Helper()
	b.must(b.rdb.HSet(b.ctx(), b.p.Instance("a"), field, value).Err())
}

func TestCheckFindsNothingInSoundExecution(t *testing.T) {
	each(t, map[string]func(b *bench){
		"that has just begun": func(b *bench) {
			b.sound()
			b.wantRules()
		},
		"that has made its first turn": func(b *bench) {
			b.turned()
			b.wantRules()
		},
		"whose attributes have changed, been set and removed": func(b *bench) {
			b.turned()
			head := "h2"
			for i, attributes := range []string{`{"items":5,"paid":false,"tenant":"acme"}`, `{"items":7,"tenant":"globex"}`, `{"due":{"time":"2026-11-22T08:00:00.000Z"},"tenant":"globex"}`} {
				next := fmt.Sprint("a", i)
				_, err := b.commit(store.Commit{Instance: "a", Execution: 2, Head: head, NewHead: next, From: store.Running, Record: &store.Record{Attributes: attributes}, Wakeup: b.now() + 10_000})
				b.must(err)
				b.wantRules()
				head = next
			}
			b.must(b.rdb.ZScore(b.ctx(), b.p.Values("tenant", "globex"), "a").Err())
			if n := b.rdb.Exists(b.ctx(), b.p.Values("tenant", "acme"), b.p.Numbers("items"), b.p.Values("paid", "false")).Val(); n != 0 {
				b.Errorf("%d sets of former values", n)
			}
		},
		"whose record is gone": func(b *bench) { // but something, on each kind of store
			b.turned()
			b.must(b.rdb.Del(b.ctx(), b.p.Instance("a")).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redis.Z{Score: 1, Member: "a"}).Err()) // not reconciled for long
			b.wantRules("has a history of 3 events and no record", "has a history of 3 events and no record",
				"stands in the index of running and has no record", "is scheduled, and has neither record nor anything unread",
				"is in the set "+b.p.Values("orchestration", "n"))
		},
	})
}

// What is wrong is read again and again before it is a finding; so the cases share their waiting, on one store.
func TestCheckFindsBrokenInvariants(t *testing.T) {
	_, rdb := redistest.MiniClient(t)
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	for name, f := range map[string]func(b *bench){
		"an execution that has just begun without its start": func(b *bench) {
			b.sound()
			b.must(b.rdb.LPush(b.ctx(), b.p.Inbox("a"), element("e1")).Err())
			b.wantRules("its start is not the first that is unread")
		},
		"a history that the record counts and that is missing": func(b *bench) {
			b.sound()
			b.set("events", 2)
			b.wantRules("has a record and no history")
		},
		"a history that has lost its end": func(b *bench) {
			b.turned()
			b.set("events", 4)
			b.wantRules("has 4 events, and the history 3")
		},
		"the history of an execution that has not begun, and one without a record": func(b *bench) {
			b.sound()
			b.must(b.rdb.RPush(b.ctx(), b.p.History("a", 3), "x").Err())
			b.must(b.rdb.RPush(b.ctx(), b.p.History("b", 1), "x").Err())
			b.wantRules("execution 3 has a history of 1 events, and the current one is 2", "has a history of 1 events and no record")
		},
		"a child and a message without a wakeup": func(b *bench) {
			b.turned()
			b.must(b.rdb.ZRem(b.ctx(), b.p.Wakeups(), "a").Err())
			b.wantRules("1 children outstanding", "has pending messages behind \"1.2\" up to 2.3")
		},
		"a pending message behind the watermark": func(b *bench) {
			b.turned()
			b.set("prod", "2.2")
			b.wantRules("event 3 has a pending message, and the last that the record has is \"2.2\"")
		},
		"a slot that is retained without a holder": func(b *bench) {
			b.turned()
			b.set("r:ticket", 1)
			b.wantRules("the record keeps the slots of [\"ticket\"], and the history those of []")
		},
		"marks beyond the history": func(b *bench) {
			b.turned()
			b.set("prod", "2.4")
			b.wantRules("up to 2.4 are pending, and the history ends at 2.3")
			b.set("prod", "3.1")
			b.wantRules("up to 3.1 are pending, and the history ends at 2.3")
			b.set("prod", "2.3")
			b.set("pub", "2.4")
			b.wantRules("up to 2.4 are sent, and the last that is pending is 2.3")
		},
		"a debt whose history has been pruned": func(b *bench) {
			b.sound()
			b.must(b.rdb.Del(b.ctx(), b.p.History("a", 1)).Err())
			b.wantRules("up to 1.2 are pending, and the history of that execution has 0 events")
		},
		"a lost lease, also when a completion of the execution before is unread": func(b *bench) {
			b.sound()
			_, err := b.commit(store.Commit{
				Instance: "a", Execution: 2, Head: "h1", NewHead: "h2", From: store.Running, Pop: []string{"!c2.0"},
				Events: encoded(b, started(2), &history.ActivityScheduled{Name: "act", Effect: "e2"}), Create: leases(2),
				Record: &store.Record{Published: store.Watermark{Execution: 1, Event: 2}}, Wakeup: b.now() + 10_000,
			})
			b.must(err)
			b.wantRules()
			b.must(b.rdb.Del(b.ctx(), b.p.Lease("a", 2, 2)).Err())
			body := encoded(b, &history.ActivityCompleted{Scheduled: 2})[0]
			push := func(id string) {
				b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), history.Element{ID: id, At: 1, Body: body}.Encode()).Err())
			}
			push("ae1.token")
			b.wantRules("activity 2 (act) is outstanding, and has neither lease nor unread completion")
			push("ae2.token")
			b.wantRules()
		},
		"what is left of an execution that was pruned, and the reports of one that has not begun": func(b *bench) {
			b.sound()
			for execution := 0; execution <= 3; execution++ { // of the next one no first turn has pruned what is before the last
				b.must(b.rdb.HSet(b.ctx(), b.p.Reports("a", uint64(execution)), "2", "{}").Err())
			}
			b.wantRules("execution 3 has reports on 1 activities, and the current one is 2")
			b.must(b.rdb.Del(b.ctx(), b.p.Reports("a", 3)).Err())
			_, err := b.commit(store.Commit{
				Instance: "a", Execution: 2, Head: "h1", NewHead: "h2", From: store.Running, Pop: []string{"!c2.0"},
				Events: encoded(b, started(2)), Record: &store.Record{Published: store.Watermark{Execution: 1, Event: 2}},
			})
			b.must(err)
			b.must(b.rdb.RPush(b.ctx(), b.p.History("a", 0), "x").Err())
			b.must(b.rdb.HSet(b.ctx(), b.p.Reports("a", 0), "2", "{}").Err())
			b.wantRules("execution 0 has reports on 1 activities, and the current one is 2", "execution 0 has a history of 1 events, and the current one is 2")
		},
		"what a purge should have taken": func(b *bench) {
			b.over()
			pu := purgeOfA()
			b.must(b.purge(pu))
			b.wantRules()
			b.must(b.rdb.HSet(b.ctx(), b.p.Reports("a", 2), "2", "{}").Err())
			b.must(b.rdb.HSet(b.ctx(), b.p.Lease("a", 2, 2), "e", "e2").Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Index("completed"), redisZ(5, "a")).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redisZ(5, "a")).Err())
			b.must(b.rdb.HSet(b.ctx(), b.p.Stalled(), "a", "why").Err())
			b.wantRules("has reports on 1 activities and no record", "lease of activity 2 of execution 2 belongs to nothing outstanding",
				"stands in the index of completed and has no record", "is scheduled, and has neither record", "is listed as stalled, and has neither record")
		},
		"sets of values that differ from the record": func(b *bench) {
			b.turned()
			b.set("attributes", `{"tenant":"acme"}`)
			b.must(b.rdb.Del(b.ctx(), b.p.Orchestrations()).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Values("orchestration", "n"), redisZ(5, "a")).Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Values("code", "x:y"), redisZ(5, "gone"), redisZ(5, "a")).Err())
			b.wantRules("is in the set "+b.p.Values("code", "x:y")+", and has no record with the value",
				"is in the set "+b.p.Values("code", "x:y")+", and has no record with the value",
				"is in the set "+b.p.Values("orchestration", "n")+" with 5 instead of 0", "is not in the set "+b.p.Values("tenant", "acme"), "the orchestration n has instances and is not among the orchestrations")
		},
		"a lease of the execution before": func(b *bench) {
			b.turned()
			b.must(b.rdb.HSet(b.ctx(), b.p.Lease("a", 1, 2), "e", "e2").Err())
			b.wantRules("lease of activity 2 of execution 1 belongs to nothing outstanding")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(newBench(t, rdb, run))
		})
	}
}

func TestCheckInSweepsFindsWhatOneFinds(t *testing.T) {
	t.Parallel()
	_, rdb := redistest.MiniClient(t)
	run := redisx.NewRunner(rdb)
	t.Cleanup(run.Close)
	b := newBench(t, rdb, run)
	b.turned()
	b.must(rdb.RPush(b.ctx(), b.space.Part(part+1).History("orphan", 1), "x").Err())
	whole, err := b.st.Check(b.ctx(), nil, nil)
	b.must(err)
	parts, err := b.st.CheckInSweeps(b.ctx(), 1)
	b.must(err)
	if whole.Instances != 2 || len(whole.Findings) != 1 || !reflect.DeepEqual(parts, whole) {
		t.Errorf("in sweeps: %+v, at once: %+v", parts, whole)
	}
}
