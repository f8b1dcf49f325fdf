package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

func parent(id string) *history.Parent {
	return &history.Parent{Instance: id, Origin: at(3), Execution: 4, Event: 17, Effect: "effect-of-" + id}
}

func custom(text string) history.Payload {
	return history.Payload{Type: history.TypeJSON, Data: []byte(`"` + text + `"`)}
}

func TestWatermarksAreOrdered(t *testing.T) {
	ordered := []record.Watermark{{}, {Execution: 1, Event: 1}, {Execution: 1, Event: 20}, {Execution: 2, Event: 3}, {Execution: 10, Event: 1}}
	for i, m := range ordered {
		for j, n := range ordered {
			if m.Before(n) != (i < j) {
				t.Errorf("%v before %v: %v", m, n, m.Before(n))
			}
		}
	}
	if got := fmt.Sprint(ordered[3], ordered[0]); got != "2.3 " {
		t.Errorf("text %q", got)
	}
	for _, r := range []record.Record{{}, {Published: ordered[1], Produced: ordered[1]}, {Published: ordered[2], Produced: ordered[1]}} {
		if r.HasPendingMessages() {
			t.Errorf("%v up to %v has pending messages", r.Published, r.Produced)
		}
	}
	if r := (&record.Record{Published: ordered[2], Produced: ordered[3]}); !r.HasPendingMessages() {
		t.Error("messages after the watermark of the previous execution are not pending")
	}
}

func TestCommitKeepsUnnamedRecordFields(t *testing.T) {
	each(t, map[string]func(b *harness){
		"parent, custom status and watermarks are read back as written, and kept": func(b *harness) {
			first := record.Record{
				Name: "n", Origin: at(1), Execution: 1, Status: record.Running, Parent: parent("p:1=2"), Custom: custom("one"), CustomVersion: 1,
				Produced: record.Watermark{Execution: 1, Event: 12}, Published: record.Watermark{Execution: 1, Event: 7},
			}
			_, err := b.commit(record.Commit{Instance: "a", NewHead: "h1", Events: [][]byte{[]byte("x")}, Record: &first})
			b.must(err)
			check := func(version uint64, text string, out, sent record.Watermark) {
				b.Helper()
				rec := b.record("a")
				if rec.Parent == nil || *rec.Parent != *parent("p:1=2") || rec.CustomVersion != version || fmt.Sprint(rec.Custom) != fmt.Sprint(custom(text)) || rec.Produced != out || rec.Published != sent {
					b.Errorf("%+v", rec)
				}
			}
			check(1, "one", first.Produced, first.Published)
			_, err = b.commit(record.Commit{Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("x")}, Record: &record.Record{}})
			b.must(err)
			check(1, "one", first.Produced, first.Published)
			c := record.Commit{Instance: "a", Head: "h2", NewHead: "h3", From: record.Running, Pop: nil, Events: [][]byte{[]byte("x")}, Prepend: [][]byte{element("!c2.0")}}
			c.Record = &record.Record{
				Name: "n", Origin: at(1), Execution: 2, Status: record.Running, Parent: first.Parent, Custom: custom("two"), CustomVersion: 2, Published: first.Produced,
			}
			_, err = b.commit(c)
			b.must(err)
			check(2, "two", first.Produced, first.Produced)
		},
		"a custom status may be empty": func(b *harness) {
			_, err := b.commit(record.Commit{
				Instance: "a", NewHead: "h1", Events: [][]byte{[]byte("x")}, Record: &record.Record{Name: "n", Origin: at(1), Execution: 1, Status: record.Running, CustomVersion: 2},
			})
			b.must(err)
			if rec := b.record("a"); rec.CustomVersion != 2 || len(rec.Custom.Data) > 0 || rec.Parent != nil || rec.HasPendingMessages() {
				b.Errorf("%+v", rec)
			}
		},
		"the error names a field with an invalid value": func(b *harness) {
			for field, text := range map[string]string{"prod": "3", "pub": "x.1", "parent": "p 1.2 3", "orig": "1", "custom.version": "two"} {
				b.started("a"+field, "h1")
				b.must(b.rdb.HSet(b.ctx(), b.p.Instance("a"+field), field, text).Err())
				if _, err := b.st.Record(b.ctx(), part, "a"+field); !errors.Is(err, eventcodec.ErrCorrupt) {
					b.Errorf("%s %q: %v", field, text, err)
				} else {
					b.Log(err)
				}
			}
		},
	})
}

func TestReconcileRecordsPublishedWatermark(t *testing.T) {
	each(t, map[string]func(b *harness){
		"a watermark is recorded only at the current head": func(b *harness) {
			b.started("a", "h1")
			mark := record.Watermark{Execution: 1, Event: 9}
			if _, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h0", MaxClaims: 3, Published: mark}); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
			if got := b.record("a").Published; got != (record.Watermark{}) {
				b.Errorf("published %v", got)
			}
			_, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h1", MaxClaims: 3, Published: mark})
			b.must(err)
			_, err = b.reconcile(record.Reconciliation{Instance: "a", Head: "h1", MaxClaims: 3}) // without a watermark
			b.must(err)
			if got := b.record("a").Published; got != mark {
				b.Errorf("published %v", got)
			}
		},
		"a watermark creates no record": func(b *harness) {
			_, err := b.reconcile(record.Reconciliation{Instance: "a", MaxClaims: 3, Published: record.Watermark{Execution: 1, Event: 9}})
			b.must(err)
			if rec, err := b.st.Record(b.ctx(), part, "a"); rec != nil || err != nil {
				b.Errorf("%+v, %v", rec, err)
			}
		},
	})
}

func TestLoadReturnsHistoryWithPendingMessages(t *testing.T) {
	each(t, map[string]func(b *harness){
		"the previous execution and an ended one are returned, but not a running one": func(b *harness) {
			load := func(events, past int) {
				b.Helper()
				l, err := b.st.Load(b.ctx(), part, "a")
				b.must(err)
				if len(l.Events) != events || len(l.Previous) != past {
					b.Errorf("%d events, %d previous ones; want %d and %d", len(l.Events), len(l.Previous), events, past)
				}
			}
			out := record.Watermark{Execution: 1, Event: 2}
			_, err := b.commit(record.Commit{
				Instance: "a", NewHead: "h1", Events: encoded(b, started(1), &history.EventSent{Instance: "b", Name: "e"}),
				Record: &record.Record{Name: "n", Origin: at(1), Execution: 1, Status: record.Running, Produced: out},
			})
			b.must(err)
			load(2, 0)
			_, err = b.commit(record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: encoded(b, &history.ContinuedAsNew{}),
				Record: &record.Record{Name: "n", Origin: at(1), Execution: 2, Status: record.Running}, Prepend: [][]byte{element("!c2.0")},
			})
			b.must(err)
			load(0, 3)
			_, err = b.reconcile(record.Reconciliation{Instance: "a", Head: "h2", MaxClaims: 3, Published: out})
			b.must(err)
			load(0, 0)
			_, err = b.commit(record.Commit{
				Instance: "a", Execution: 2, Head: "h2", NewHead: "h3", From: record.Running, Pop: []string{"!c2.0"},
				Events: encoded(b, started(2), &history.EventSent{Instance: "b", Name: "e"}, &history.Completed{}),
				Record: &record.Record{Status: record.Completed, Ended: 5, End: encoded(b, &history.Completed{})[0], Produced: record.Watermark{Execution: 2, Event: 2}},
			})
			b.must(err)
			load(0, 3)
			_, err = b.reconcile(record.Reconciliation{Instance: "a", Head: "h3", MaxClaims: 3, Published: record.Watermark{Execution: 2, Event: 2}})
			b.must(err)
			load(0, 0)
		},
	})
}

func started(execution uint64) *history.Started {
	return &history.Started{Name: "n", Origin: at(1), Execution: execution}
}

func encoded(b *harness, events ...history.Event) [][]byte {
	b.Helper()
	out := make([][]byte, len(events))
	for i, e := range events {
		var err error
		out[i], err = eventcodec.Encode(e)
		b.must(err)
	}
	return out
}
