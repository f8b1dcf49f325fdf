package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/pkg/history"
)

func (b *harness) purge(pu record.Purge) error {
	if rec, err := b.st.Record(b.ctx(), part, pu.Instance); err == nil {
		pu.Entries = rec.Entries()
	}
	_, err := redistest.Answer(func(done func(int64, error)) { b.st.Purge(b.own, &pu, done) })
	return err
}

// A list by prefix reads the sets of a few orchestrations, but clients can name any number of them: a name is removed with its last
// instance.
func TestOrchestrationSetHasTheNamesOfInstances(t *testing.T) {
	each(t, map[string]func(b *harness){"": func(b *harness) {
		want := func(names ...string) {
			b.Helper()
			if got := b.rdb.ZRange(b.ctx(), b.p.Orchestrations(), 0, -1).Val(); !slices.Equal(got, names) {
				b.Errorf("the orchestrations are %q instead of %q", got, names)
			}
		}
		fail := encoded(b, &history.Failed{Failure: history.Failure{Message: "broken"}})
		for id, name := range map[string]string{"a": "one", "b": "one", "c": "two", "d": "three"} {
			_, err := b.commit(record.Commit{Instance: id, NewHead: "h1", Events: fail, Record: &record.Record{
				Name: name, Origin: at(1), Execution: 1, Status: record.Failed, Created: 5, Ended: 5, Events: 1, End: fail[0],
			}})
			b.must(err)
		}
		purge := record.Purge{Instance: "a", Execution: 1, Head: "h1", Status: record.Failed}
		b.must(b.purge(purge))
		want("one", "three", "two")
		purge.Instance = "b"
		b.must(b.purge(purge))
		want("three", "two")
		_, err := b.commit(record.Commit{ // another start replaces the instance
			Instance: "c", Head: "h1", NewHead: "h2", From: record.Failed, Prepend: [][]byte{element("!h2.0")},
			Record: &record.Record{Name: "three", Origin: at(2), Execution: 2, Status: record.Running, Created: 6, NewIncarnation: true},
		})
		b.must(err)
		want("three")
		keys, err := b.st.OwnedKeys(b.ctx(), part, "d")
		b.must(err)
		_, err = b.ingest(0, 1, message("d", "p", record.CancelMessage))
		b.must(err)
		b.must(b.wipe(record.Wipe{Instance: "d", Purge: "p", Keys: keys}))
		want("three")
	}})
}

// endedInstance creates the instance "a", which has ended its second execution, with every kind of data, including the reports of both
// executions; the inbox contains the purge and then the messages. Its head is h3.
func (b *harness) endedInstance(later ...record.Message) {
	b.Helper()
	b.consistentInstance()
	_, err := b.commit(record.Commit{
		Instance: "a", Execution: 2, Head: "h1", NewHead: "h3", From: record.Running, Pop: []string{"!c2.0"}, Create: leasesOf(2), Delete: leasesOf(2),
		Events: encoded(b, started(2), &history.Completed{}),
		Record: &record.Record{
			Status: record.Completed, Ended: 5, End: encoded(b, &history.Completed{})[0],
			Produced: record.Watermark{Execution: 1, Event: 2}, Published: record.Watermark{Execution: 1, Event: 2},
		},
	})
	b.must(err)
	for execution := uint64(1); execution <= 2; execution++ {
		b.must(b.rdb.HSet(b.ctx(), b.p.Reports("a", execution), "2", `{"how":"stopped"}`).Err())
	}
	batch := append([]record.Message{message("a", "p", record.CancelMessage)}, later...)
	_, err = b.ingest(0, uint64(len(batch)), batch...)
	b.must(err)
	_, err = b.reconcile(record.Reconciliation{Instance: "a", Head: "h3", MaxClaims: 3, Stalled: "it cannot be read"})
	b.must(err)
}

func purgeOfA() record.Purge {
	return record.Purge{Instance: "a", Execution: 2, Head: "h3", Status: record.Completed, Pop: []string{"p"}}
}

// wantGone checks that only the named keys of "a" are left.
func (b *harness) wantGone(except ...string) {
	b.Helper()
	left := b.dump()
	for _, key := range except {
		delete(left, key)
	}
	for key, v := range left {
		if n, _ := parsed(b, key); n == "a" || strings.Contains(v, "{0 a}") || strings.Contains(v, " a}") || strings.HasPrefix(v, "map[a:") {
			b.Errorf("left: %s %s", key, v)
		}
	}
}

func parsed(b *harness, key string) (string, bool) {
	n, ok := b.p.Parse(key)
	return n.Instance, ok
}

func events(from, to int) (all []record.Message) {
	for n := from; n <= to; n++ {
		all = append(all, message("a", fmt.Sprint("e", n), ""))
	}
	return all
}

func TestPurgeRemovesAllKeys(t *testing.T) {
	each(t, map[string]func(b *harness){
		"executions, reports, index entry, wakeup and reason of the stall": func(b *harness) {
			b.started("c", "h1", 1) // another instance
			before := b.dump()
			b.endedInstance()
			b.wantIndex("a", record.Completed)
			b.must(b.purge(purgeOfA()))
			b.wantGone(b.p.Seen("a"))
			b.wantIndex("a", "")
			b.wantNoWakeup("a")
			after := b.dump()
			delete(after, b.p.Seen("a"))
			if !maps.Equal(before, after) {
				b.Errorf("the other instance has changed:\n%v\n%v", before, after)
			}
			b.wantSound()
		},
		"a purge without a request, at the end of the retention period": func(b *harness) {
			b.endedInstance()
			_, err := b.commit(record.Commit{Instance: "a", Execution: 2, Head: "h3", Pop: []string{"p"}, From: record.Completed})
			b.must(err)
			pu := purgeOfA()
			pu.Pop = nil
			b.must(b.purge(pu))
			b.wantGone(b.p.Seen("a"))
		},
		"a purge of an instance that has not begun": func(b *harness) {
			_, err := b.ingest(0, 3, message("a", "s1", record.StartMessage), message("a", "p", record.CancelMessage), message("a", "e3", ""))
			b.must(err)
			_, err = b.reconcile(record.Reconciliation{Instance: "a", MaxClaims: 3, Deferral: record.DeferAll, Wakeup: b.now() + 60_000, Stalled: "no orchestrator has its code"})
			b.must(err)
			b.must(b.purge(record.Purge{Instance: "a", Pop: []string{"!s1", "p"}}))
			b.wantInbox("a", "e3")
			b.wantGone(b.p.Seen("a"), b.p.Inbox("a"), b.p.Wakeups())
		},
	})
}

func TestInputsAfterPurgeAreKept(t *testing.T) {
	each(t, map[string]func(b *harness){
		"inputs keep their order, with a wakeup now": func(b *harness) {
			b.endedInstance(events(1, 3)...)
			b.must(b.purge(purgeOfA()))
			b.wantInbox("a", "e1 e2 e3")
			b.wantWakeup("a", 0)
			b.wantGone(b.p.Seen("a"), b.p.Inbox("a"), b.p.Wakeups())
		},
		"the first start is moved to the front, a second one is not": func(b *harness) {
			b.endedInstance(append(events(1, 2), message("a", "s3", record.StartMessage), message("a", "e4", ""), message("a", "s5", record.StartMessage))...)
			b.must(b.purge(purgeOfA()))
			b.wantInbox("a", "!s3 e1 e2 e4 !s5")
			b.wantWakeup("a", 0)
		},
		"a start at the front stays there": func(b *harness) {
			b.endedInstance(message("a", "s1", record.StartMessage), message("a", "e2", ""), message("a", "s3", record.StartMessage))
			b.must(b.purge(purgeOfA()))
			b.wantInbox("a", "!s1 e2 !s3")
		},
		"a start after three hundred elements is moved to the front": func(b *harness) {
			b.endedInstance(append(events(1, 300), message("a", "s301", record.StartMessage), message("a", "e302", ""))...)
			b.must(b.purge(purgeOfA()))
			want := []string{"!s301"}
			for n := 1; n <= 300; n++ {
				want = append(want, fmt.Sprint("e", n))
			}
			b.wantInbox("a", strings.Join(append(want, "e302"), " "))
			b.wantWakeup("a", 0)
		},
		"three hundred elements without a start wait for it, and it is pushed in front": func(b *harness) {
			b.endedInstance(events(1, 300)...)
			b.must(b.purge(purgeOfA()))
			_, err := b.ingest(301, 302, message("a", "s302", record.StartMessage))
			b.must(err)
			if got := b.inbox("a"); !strings.HasPrefix(got, "!s302 e1 e2 ") || !strings.HasSuffix(got, " e300") {
				b.Error(got)
			}
		},
		"the next incarnation has no data of the previous one": func(b *harness) {
			b.endedInstance(message("a", "s1", record.StartMessage))
			b.must(b.purge(purgeOfA()))
			b.must(second(b.commit(record.Commit{
				Instance: "a", NewHead: "n1", Pop: []string{"!s1"}, Events: encoded(b, &history.Started{Name: "n", Origin: at(9), Execution: 1}),
				Record: &record.Record{Name: "n", Origin: at(9), Execution: 1, Status: record.Running, Created: 9},
			})))
			rec := b.record("a")
			if rec.Origin != at(9) || rec.Execution != 1 || rec.Ended != 0 || len(rec.End) > 0 || rec.Produced != (record.Watermark{}) || rec.Published != (record.Watermark{}) {
				b.Errorf("%+v", rec)
			}
			b.wantIndex("a", record.Running)
			b.wantSound()
		},
	})
}

func second[T any](_ T, err error) error { return err }

// wantSound checks the whole namespace.
func (b *harness) wantSound() {
	b.Helper()
	found, err := b.st.Check(b.ctx(), nil, nil)
	b.must(err)
	for _, f := range found.Findings {
		if f.Instance != "c" { // the history of c is not valid
			b.Error(f)
		}
	}
}

func TestRejectedPurgeWritesNothing(t *testing.T) {
	each(t, map[string]func(b *harness){
		"the fence, another head or another inbox rejects it": func(b *harness) {
			b.endedInstance(append(events(1, 2), message("a", "s3", record.StartMessage))...)
			before := b.dump()
			try := func(why string, want error, change func(pu *record.Purge)) {
				pu := purgeOfA()
				change(&pu)
				if err := b.purge(pu); !errors.Is(err, want) {
					b.Errorf("%s: %v, want %v", why, err, want)
				}
			}
			try("another head", record.ErrConflict, func(pu *record.Purge) { pu.Head = "h1" })
			try("no head", record.ErrConflict, func(pu *record.Purge) { pu.Head = "" })
			try("another first element", record.ErrConflict, func(pu *record.Purge) { pu.Pop = []string{"e1"} })
			try("a prefix of the id", record.ErrConflict, func(pu *record.Purge) { pu.Pop = []string{"p", "e"} })
			try("more than the inbox has", record.ErrConflict, func(pu *record.Purge) { pu.Pop = []string{"p", "e1", "e2", "!s3", "e4"} })
			b.owner("another", time.Minute)
			try("another owner", record.ErrFenced, func(*record.Purge) {})
			b.owner(token, -time.Millisecond)
			try("an owner whose ownership has expired", record.ErrFenced, func(*record.Purge) {})
			if after := b.dump(); !maps.Equal(before, after) {
				b.Errorf("something was written:\n%v\n%v", before, after)
			}
		},
		"a purge repeated after a lost reply, also for the next incarnation": func(b *harness) {
			b.endedInstance(events(1, 1)...)
			b.must(b.purge(purgeOfA()))
			before := b.dump()
			if err := b.purge(purgeOfA()); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
			if after := b.dump(); !maps.Equal(before, after) {
				b.Errorf("something was written:\n%v\n%v", before, after)
			}
			b.started("a", "n1")
			before = b.dump()
			if err := b.purge(purgeOfA()); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
			if after := b.dump(); !maps.Equal(before, after) {
				b.Errorf("something was written:\n%v\n%v", before, after)
			}
		},
		"a repeated purge of an instance that had not begun": func(b *harness) {
			_, err := b.ingest(0, 3, message("a", "s1", record.StartMessage), message("a", "p", record.CancelMessage), message("a", "e3", ""))
			b.must(err)
			pu := record.Purge{Instance: "a", Pop: []string{"!s1", "p"}}
			b.must(b.purge(pu))
			if err := b.purge(pu); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
			b.wantInbox("a", "e3")
		},
	})
}
