package store_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/record"
)

// next returns the commit that ends execution 1 of "a" and begins execution 2, with two events carried over.
func next() record.Commit {
	return record.Commit{
		Instance: "a", Execution: 1, Head: "h1", NewHead: "h2", From: record.Running, Pop: []string{"e1"},
		Events: [][]byte{[]byte("e1 taken"), []byte("continued")}, Delete: leasesOf(1),
		Record:  &record.Record{Name: "n", Version: "v2", Origin: at(1), Execution: 2, Status: record.Running, Created: 5},
		Prepend: [][]byte{element("!c2.0"), element("c2.1"), element("c2.2")}, MaxUnread: 10,
	}
}

// withUnread creates an instance with an activity and three unread events.
func (b *harness) withUnread() {
	b.Helper()
	b.started("a", "h1", 1)
	_, err := b.ingest(0, 3, message("a", "e1", ""), message("a", "e2", ""), message("a", "e3", ""))
	b.must(err)
}

func ids(unread [][]byte) string {
	all := make([]string, len(unread))
	for i, e := range unread {
		all[i], _, _ = strings.Cut(string(e), "\n")
	}
	return strings.Join(all, " ")
}

func (b *harness) record(instance string) *record.Record {
	b.Helper()
	rec, err := b.st.Record(b.ctx(), part, instance)
	b.must(err)
	if rec == nil {
		b.Fatalf("%s has no record", instance)
	}
	return rec
}

func (b *harness) wantHistory(execution uint64, events string) {
	b.Helper()
	raw, err := b.st.RawHistory(b.ctx(), part, "a", execution, 0, 100)
	b.must(err)
	if got := fmt.Sprintf("%s", raw); got != events {
		b.Errorf("history of execution %d is %s, want %s", execution, got, events)
	}
}

func TestContinueAsNewBeginsNextExecutionInOneCommit(t *testing.T) {
	each(t, map[string]func(b *harness){
		"the inbox has the start, carried events, unread events, and a wakeup now": func(b *harness) {
			b.withUnread()
			c := next()
			c.Wakeup = b.now() + 60_000
			got, err := b.commit(c)
			b.must(err)
			b.wantInbox("a", "!c2.0 c2.1 c2.2 e2 e3")
			if ids(got.Unread) != "!c2.0 c2.1 c2.2 e2 e3" {
				b.Errorf("unread elements %s", ids(got.Unread))
			}
			b.wantWakeup("a", 0)
			b.wantHistory(1, "[first e1 taken continued]")
			b.wantHistory(2, "[]")
			rec := b.record("a")
			if rec.Execution != 2 || rec.Version != "v2" || rec.Events != 0 || rec.Head != "h2" || rec.Status != record.Running {
				b.Errorf("%+v", rec)
			}
			if len(b.lease("a", 1)) > 0 {
				b.Error("the lease of the old execution is still there")
			}
			b.wantIndex("a", record.Running)
		},
		"the next execution has its own leases and history": func(b *harness) {
			b.withUnread()
			_, err := b.commit(next())
			b.must(err)
			_, err = b.commit(record.Commit{
				Instance: "a", Execution: 2, Head: "h2", NewHead: "h3", From: record.Running, Pop: []string{"!c2.0", "c2.1"},
				Events: [][]byte{[]byte("started")}, Create: leasesOf(1), Record: &record.Record{}, Wakeup: b.now() + 10_000,
			})
			b.must(err)
			b.wantHistory(1, "[first e1 taken continued]")
			b.wantHistory(2, "[started]")
			b.wantInbox("a", "c2.2 e2 e3")
			b.wantWakeup("a", 2000)
			if rec := b.record("a"); rec.Events != 1 || rec.Execution != 2 {
				b.Errorf("%+v", rec)
			}
			if n, err := b.rdb.Exists(b.ctx(), b.p.Lease("a", 2, 1)).Result(); err != nil || n != 1 {
				b.Errorf("%d leases of the new execution, %v", n, err)
			}
		},
		"an unread completion of the old execution stays in the inbox, after the carried events": func(b *harness) {
			b.withUnread()
			b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), element("ae1.token")).Err())
			b.must(b.rdb.Del(b.ctx(), b.p.Lease("a", 1, 1)).Err()) // deleted by the ack
			_, err := b.commit(next())
			b.must(err)
			b.wantInbox("a", "!c2.0 c2.1 c2.2 e2 e3 ae1.token")
		},
		"the leases of the old execution are deleted, and their holders returned": func(b *harness) {
			b.withUnread()
			b.claim("a", 1, 1, time.Minute)
			got, err := b.commit(next())
			b.must(err)
			if !maps.Equal(got.Workers, map[uint64]string{1: "w1"}) {
				b.Errorf("holders %v", got.Workers)
			}
		},
		"the first turn removes the history of the last execution but one": func(b *harness) {
			b.withUnread()
			_, err := b.commit(next())
			b.must(err)
			_, err = b.commit(record.Commit{
				Instance: "a", Execution: 2, Head: "h2", NewHead: "h3", From: record.Running, Pop: []string{"!c2.0"}, Events: [][]byte{[]byte("2")},
				Record: &record.Record{Name: "n", Origin: at(1), Execution: 3, Status: record.Running}, Prepend: [][]byte{element("!c3.0")},
			})
			b.must(err)
			b.wantHistory(1, "[first e1 taken continued]")
			turn := record.Commit{
				Instance: "a", Execution: 3, Head: "h3", NewHead: "h4", From: record.Running, Pop: []string{"!c3.0"}, Events: [][]byte{[]byte("3")},
				Record: &record.Record{}, Prune: 1,
			}
			for range 2 { // again after a lost reply
				_, err = b.commit(turn)
				b.must(err)
				b.wantHistory(1, "[]")
				b.wantHistory(2, "[2]")
				b.wantHistory(3, "[3]")
			}
		},
		"without anything to prune no history is removed": func(b *harness) {
			b.withUnread()
			_, err := b.commit(record.Commit{Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("x")}, Record: &record.Record{}})
			b.must(err)
			b.wantHistory(1, "[first x]")
		},
		"a thousand carried events keep their order, and the reply is bounded": func(b *harness) {
			b.withUnread()
			c := next()
			c.Prepend, c.MaxUnread = [][]byte{element("!c2.0")}, 50
			want := "!c2.0"
			for i := range 1000 {
				c.Prepend = append(c.Prepend, element(fmt.Sprint("c2.", i+1)))
				want += fmt.Sprint(" c2.", i+1)
			}
			got, err := b.commit(c)
			b.must(err)
			b.wantInbox("a", want+" e2 e3")
			if len(got.Unread) != 50 || ids(got.Unread) != strings.Join(strings.Fields(want)[:50], " ") {
				b.Errorf("unread elements %s", ids(got.Unread))
			}
		},
		"a reply with room continues from carried events into an inbox of any length": func(b *harness) {
			b.withUnread()
			want := "!c2.0 c2.1 c2.2 e2 e3"
			for i := range 100 { // several times the size of a read
				id := fmt.Sprint("m", i)
				b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), element(id)).Err())
				want += " " + id
			}
			c := next()
			c.MaxUnread = record.UnreadBatch
			got, err := b.commit(c)
			b.must(err)
			if ids(got.Unread) != want {
				b.Errorf("unread elements %s, want %s", ids(got.Unread), want)
			}
		},
	})
}

func TestContinueAsNewWithLostReplyIsRecognized(t *testing.T) {
	each(t, map[string]func(b *harness){
		"a repeated commit pushes nothing, and its reply has the inbox of the next execution": func(b *harness) {
			b.withUnread()
			_, err := b.commit(next())
			b.must(err)
			_, err = b.ingest(3, 4, message("a", "e4", ""))
			b.must(err)
			before := b.dump()
			got, err := b.commit(next())
			b.must(err)
			if ids(got.Unread) != "!c2.0 c2.1 c2.2 e2 e3 e4" {
				b.Errorf("unread elements %s", ids(got.Unread))
			}
			if after := b.dump(); !maps.Equal(before, after) {
				b.Errorf("something was written again:\n%v\n%v", before, after)
			}
		},
		"a duplicate after the first turn of the next execution conflicts": func(b *harness) {
			b.withUnread()
			_, err := b.commit(next())
			b.must(err)
			_, err = b.commit(record.Commit{
				Instance: "a", Execution: 2, Head: "h2", NewHead: "h3", From: record.Running, Pop: []string{"!c2.0"}, Events: [][]byte{[]byte("started")}, Record: &record.Record{},
			})
			b.must(err)
			before := b.dump()
			if _, err := b.commit(next()); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
			if after := b.dump(); !maps.Equal(before, after) {
				b.Errorf("something was written:\n%v\n%v", before, after)
			}
		},
		"a repeated turn still compares the length of the history": func(b *harness) {
			b.withUnread()
			turn := record.Commit{Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("x")}, Record: &record.Record{}}
			_, err := b.commit(turn)
			b.must(err)
			b.must(b.rdb.RPop(b.ctx(), b.p.History("a", 1)).Err())
			if _, err := b.commit(turn); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
		},
	})
}

func TestConflictingContinueAsNewWritesNothing(t *testing.T) {
	each(t, map[string]func(b *harness){
		"the fence, the head, the inbox or the length of the history rejects it": func(b *harness) {
			b.withUnread()
			before := b.dump()
			try := func(why string, want error, change func(c *record.Commit)) {
				b.Helper()
				c := next()
				change(&c)
				if _, err := b.commit(c); !errors.Is(err, want) {
					b.Errorf("%s: %v, want %v", why, err, want)
				}
				if after := b.dump(); !maps.Equal(before, after) {
					b.Errorf("%s: something was written:\n%v\n%v", why, before, after)
				}
			}
			try("another head", record.ErrConflict, func(c *record.Commit) { c.Head = "h0" })
			try("another inbox", record.ErrConflict, func(c *record.Commit) { c.Pop = []string{"e1", "e3"} })
			try("another execution's history", record.ErrConflict, func(c *record.Commit) { c.Execution = 2 })
			b.owner("another", time.Minute)
			try("another owner", record.ErrFenced, func(*record.Commit) {})
		},
		"a store that was rolled back past the preceding turn rejects it": func(b *harness) {
			b.started("a", "h0", 1) // the state after the rollback
			if _, err := b.commit(next()); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
			b.wantInbox("a", "")
			b.wantHistory(1, "[first]")
		},
	})
}

// A rollback loses a continue-as-new completely: the turn is decided again, and the lost commit may still be repeated.
func TestLostContinueAsNewIsDecidedAgain(t *testing.T) {
	each(t, map[string]func(b *harness){
		"a different decision replaces the lost commit": func(b *harness) {
			b.withUnread()
			_, err := b.commit(next())
			b.must(err)
			for key := range b.dump() {
				b.must(b.rdb.Del(b.ctx(), key).Err())
			}
			b.must(b.rdb.Del(b.ctx(), b.p.Owner()).Err())
			b.owner(token, time.Minute)
			b.withUnread() // and the inputs were read again
			again := next()
			again.NewHead, again.Prepend = "other", [][]byte{element("!c2.0")}
			got, err := b.commit(again)
			b.must(err)
			if ids(got.Unread) != "!c2.0 e2 e3" {
				b.Errorf("unread elements %s", ids(got.Unread))
			}
			if _, err := b.commit(next()); !errors.Is(err, record.ErrConflict) { // a duplicate of the lost commit
				b.Errorf("%v, want ErrConflict", err)
			}
			b.wantInbox("a", "!c2.0 e2 e3")
		},
	})
}

func TestNewIncarnationKeepsNoFieldOfThePreviousOne(t *testing.T) {
	each(t, map[string]func(b *harness){
		"end, custom status, parent and outbox are removed": func(b *harness) {
			b.started("a", "h1")
			_, err := b.ingest(0, 1, message("a", "s2", record.StartMessage))
			b.must(err)
			_, err = b.commit(record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("end")},
				Record: &record.Record{
					Name: "n", Origin: at(1), Execution: 1, Parent: parent("p"), Status: record.Failed, Ended: 9, End: []byte("end"),
					Custom: custom("half way"), CustomVersion: 3, Produced: record.Watermark{Execution: 1, Event: 2}, Published: record.Watermark{Execution: 1, Event: 1},
				},
			})
			b.must(err)
			b.wantIndex("a", record.Failed)
			successor := record.Record{Name: "m", Version: "v", Origin: at(7), Execution: 2, Created: 8, Status: record.Running, Parent: parent("q"), NewIncarnation: true}
			_, err = b.commit(record.Commit{
				Instance: "a", Execution: 1, Head: "h2", NewHead: "h3", From: record.Failed, Pop: []string{"!s2"}, Record: &successor, Prepend: [][]byte{element("!c2.0")},
			})
			b.must(err)
			rec := b.record("a")
			successor.Head, successor.Updated, successor.NewIncarnation, successor.Replaced, successor.End = rec.Head, rec.Updated, false, true, []byte{}
			if *rec.Parent != *successor.Parent {
				b.Errorf("parent %+v", rec.Parent)
			}
			rec.Parent = successor.Parent
			if got, want := fmt.Sprintf("%+v", *rec), fmt.Sprintf("%+v", successor); got != want {
				b.Errorf("is   %s\nwant %s", got, want)
			}
			b.wantIndex("a", record.Running)
			b.wantInbox("a", "!c2.0")
			b.wantWakeup("a", 0)
		},
		"the fields of the new incarnation are kept": func(b *harness) {
			b.started("a", "h1")
			mark := record.Watermark{Execution: 2, Event: 4}
			_, err := b.commit(record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running,
				Record: &record.Record{Name: "n", Origin: at(2), Execution: 2, Status: record.Running, Produced: mark, Published: mark, Custom: custom("x"), CustomVersion: 1, NewIncarnation: true},
			})
			b.must(err)
			if rec := b.record("a"); rec.Produced != mark || rec.Published != mark || rec.CustomVersion != 1 || rec.HasPendingMessages() {
				b.Errorf("%+v", rec)
			}
		},
	})
}
