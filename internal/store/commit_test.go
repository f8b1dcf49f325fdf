package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

func redisZ(score int64, member string) redis.Z {
	return redis.Z{Score: float64(score), Member: member}
}

func TestCommitWritesAllOrNothing(t *testing.T) {
	each(t, map[string]func(b *harness){
		"the first turn is written completely": func(b *harness) {
			_, err := b.ingest(0, 2, message("a", "s1", record.StartMessage), message("a", "e2", ""))
			b.must(err)
			got, err := b.commit(record.Commit{
				Instance: "a", NewHead: "h1", Pop: []string{"!s1"}, Events: [][]byte{[]byte("one"), []byte("two\n")}, Create: leasesOf(2),
				Record: &record.Record{Name: "n", Version: "v", Origin: at(1), Execution: 1, Status: record.Running, Created: 5}, Wakeup: b.now() + 10_000, MaxUnread: 10,
			})
			b.must(err)
			if len(got.Unread) != 1 || string(got.Unread[0]) != string(element("e2")) || len(got.Workers) != 0 || got.Now < 1_700_000_000_000 {
				b.Errorf("%+v", got)
			}
			rec, err := b.st.Record(b.ctx(), part, "a")
			b.must(err)
			if rec.Head != "h1" || rec.Name != "n" || rec.Origin != at(1) || rec.Status != record.Running || rec.Updated != got.Now {
				b.Errorf("%+v", rec)
			}
			raw, err := b.st.RawHistory(b.ctx(), part, "a", 1, 0, 10)
			b.must(err)
			if fmt.Sprintf("%s", raw) != "[one two\n]" {
				b.Errorf("%s", raw)
			}
			if l := b.lease("a", 2); l["e"] != "e2" || l["n"] != "0" || l["t"] != "" {
				b.Errorf("%v", l)
			}
			b.wantInbox("a", "e2")
			b.wantWakeup("a", 2000) // something is unread
			b.wantIndex("a", record.Running)
		},
		"a commit that the fence, another head or another inbox rejects writes nothing": func(b *harness) {
			b.started("a", "h1", 1)
			_, err := b.ingest(0, 2, message("a", "e1", ""), message("a", "e2", ""))
			b.must(err)
			before := b.dump()
			turn := record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Pop: []string{"e1"}, Events: [][]byte{[]byte("x")},
				Create: leasesOf(7), Delete: leasesOf(1), Record: &record.Record{},
			}
			try := func(why string, want error, change func(c *record.Commit)) {
				c := turn
				change(&c)
				if _, err := b.commit(c); !errors.Is(err, want) {
					b.Errorf("%s: %v, want %v", why, err, want)
				}
			}
			try("another head", record.ErrConflict, func(c *record.Commit) { c.Head = "h0" })
			try("no head", record.ErrConflict, func(c *record.Commit) { c.Head = "" })
			try("another first element", record.ErrConflict, func(c *record.Commit) { c.Pop = []string{"e2"} })
			try("a prefix of the id", record.ErrConflict, func(c *record.Commit) { c.Pop = []string{"e"} })
			try("more than the inbox has", record.ErrConflict, func(c *record.Commit) { c.Pop = []string{"e1", "e2", "e3"} })
			b.owner("another", time.Minute)
			try("another owner", record.ErrFenced, func(*record.Commit) {})
			b.owner(token, -time.Millisecond)
			try("an owner whose ownership has expired", record.ErrFenced, func(*record.Commit) {})
			if after := b.dump(); !maps.Equal(before, after) {
				b.Errorf("something was written:\n%v\n%v", before, after)
			}
		},
		"a repeated commit is recognized by its head after its reply was lost": func(b *harness) {
			b.started("a", "h1", 1)
			_, err := b.ingest(0, 1, message("a", "e1", ""))
			b.must(err)
			turn := record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Pop: []string{"e1"}, Events: [][]byte{[]byte("x")},
				Create: leasesOf(7), Delete: leasesOf(1), Record: &record.Record{}, MaxUnread: 10,
			}
			_, err = b.commit(turn)
			b.must(err)
			b.must(b.rdb.Del(b.ctx(), b.p.Lease("a", 1, 7)).Err()) // a worker has acked in the meantime
			b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), element("ack7")).Err())
			before := b.dump()
			got, err := b.commit(turn)
			b.must(err)
			if len(got.Unread) != 1 || string(got.Unread[0]) != string(element("ack7")) {
				b.Errorf("%+v", got)
			}
			if after := b.dump(); !maps.Equal(before, after) {
				b.Errorf("something was written again:\n%v\n%v", before, after)
			}
		},
		"leases are created before others are deleted, and the holders of deleted ones are returned": func(b *harness) {
			b.started("a", "h1", 1, 2, 3)
			b.claim("a", 2, 1, time.Minute)
			got, err := b.commit(record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("x")},
				Create: leasesOf(8, 9), Delete: leasesOf(1, 2, 9), Record: &record.Record{},
			})
			b.must(err)
			if !maps.Equal(got.Workers, map[uint64]string{2: "w2"}) {
				b.Errorf("holders %v", got.Workers)
			}
			for a, there := range map[uint64]bool{1: false, 2: false, 3: true, 8: true, 9: false} {
				if got := len(b.lease("a", a)) > 0; got != there {
					b.Errorf("lease %d exists: %v, want %v", a, got, there)
				}
			}
			b.wantNoWakeup("a") // the commit set no wakeup
		},
		"a recreated lease of a lost turn has no claim": func(b *harness) {
			b.claim("a", 2, 4, time.Minute)
			b.must(b.rdb.HSet(b.ctx(), b.p.Lease("a", 1, 2), "e", "lost", "c", "1").Err())
			b.started("a", "h1", 2)
			if l := b.lease("a", 2); l["e"] != "e2" || l["n"] != "0" || l["t"] != "" || l["w"] != "" || l["u"] != "" {
				b.Errorf("%v", l)
			}
		},
		"an end moves the instance to its index, without wakeup and stall": func(b *harness) {
			b.started("a", "h1")
			_, err := b.reconcile(record.Reconciliation{Instance: "a", Head: "h1", Wakeup: b.now(), Stalled: "why"})
			b.must(err)
			if rec, err := b.st.Record(b.ctx(), part, "a"); err != nil || !rec.Stalled {
				b.Errorf("%+v, %v", rec, err)
			}
			_, err = b.commit(record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("end")},
				Record: &record.Record{Status: record.Failed, Ended: 9, Events: 2, End: []byte("end")},
			})
			b.must(err)
			rec, err := b.st.Record(b.ctx(), part, "a")
			b.must(err)
			if rec.Status != record.Failed || rec.Ended != 9 || rec.Events != 2 || rec.Stalled || string(rec.End) != "end" || rec.Name != "n" {
				b.Errorf("%+v", rec)
			}
			b.wantIndex("a", record.Failed)
			b.wantNoWakeup("a")
			if why, err := b.st.StalledReason(b.ctx(), part, "a"); err != nil || why != "" {
				b.Errorf("still stalled: %q, %v", why, err)
			}
		},
		"a commit that only consumes the inbox changes neither record nor head": func(b *harness) {
			b.started("a", "h1")
			_, err := b.ingest(0, 3, message("a", "e1", ""), message("a", "e2", ""), message("a", "e3", ""))
			b.must(err)
			rec, err := b.st.Record(b.ctx(), part, "a")
			b.must(err)
			_, err = b.commit(record.Commit{Instance: "a", Head: "h1", From: record.Running, Pop: []string{"e1", "e2"}})
			b.must(err)
			b.wantInbox("a", "e3")
			b.wantWakeup("a", 2000)
			after, err := b.st.Record(b.ctx(), part, "a")
			b.must(err)
			if fmt.Sprint(rec) != fmt.Sprint(after) {
				b.Errorf("%+v, was %+v", after, rec)
			}
			// If its reply was lost, the repeat conflicts, because the ids are gone; the owner then reads the inbox.
			if _, err = b.commit(record.Commit{Instance: "a", Head: "h1", From: record.Running, Pop: []string{"e1", "e2"}}); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
		},
		"slots that are no longer retained are removed before retained ones are written": func(b *harness) {
			b.started("a", "h1")
			many := make([]string, 1200)
			for i := range many {
				many[i] = fmt.Sprintf("t%04d", i)
			}
			turn := func(head, next string, keep, release []string, want ...string) {
				b.Helper()
				c := record.Commit{Instance: "a", Head: head, NewHead: next, From: record.Running, Events: [][]byte{[]byte("x")}, Record: &record.Record{}, Retain: keep, Release: release}
				for range 2 { // the reply was lost
					_, err := b.commit(c)
					b.must(err)
				}
				rec, err := b.st.Record(b.ctx(), part, "a")
				b.must(err)
				if rec.Name != "n" || !slices.Equal(rec.Retained, want) {
					b.Errorf("%+v, want to keep %q", rec, want)
				}
			}
			turn("h1", "h2", many, nil, many...)
			turn("h2", "h3", nil, nil, many...)
			turn("h3", "h4", many[:1], many, many[0])
			turn("h4", "h5", nil, []string{many[0], "unknown"})
		},
	})
}

// The elements are too large for miniredis, which takes seconds for them.
func TestReplyOfACommitIsBoundedButHasAtLeastOneUnreadElement(t *testing.T) {
	onReal(t, map[string]func(b *harness){
		"with elements of megabytes": func(b *harness) {
			b.started("a", "h1")
			big := strings.Repeat("x", 3<<20)
			b.must(b.rdb.RPush(b.ctx(), b.p.Inbox("a"), "b1\n1\n"+big+big, "b2\n1\n"+big, "b3\n1\n"+big, "b4\n1\n").Err())
			head, sizes := 1, []int{}
			for _, pop := range []string{"", "b1", "b2", "b3"} {
				c := record.Commit{Instance: "a", Head: fmt.Sprint("h", head), NewHead: fmt.Sprint("h", head+1), From: record.Running, Events: [][]byte{[]byte("x")}, Record: &record.Record{}, MaxUnread: 3}
				if pop != "" {
					c.Pop = []string{pop}
				}
				got, err := b.commit(c)
				b.must(err)
				head++
				sizes = append(sizes, len(got.Unread))
			}
			if !slices.Equal(sizes, []int{1, 1, 2, 1}) {
				b.Errorf("replies of %v elements", sizes)
			}
		},
	})
}

// Trap: unpack fails for 8,000 values, and 10,000 activities may be cancelled by one script. Both commits have the maximum size.
func TestTenThousandActivitiesTakeOneScript(t *testing.T) {
	onReal(t, map[string]func(b *harness){
		"on every store": func(b *harness) {
			const n = 10_000
			ids, events := make([]uint64, n), make([][]byte, n)
			event := bytes.Repeat([]byte("x"), record.CommitBytes/n)
			for i := range ids {
				ids[i], events[i] = uint64(i)+2, event
			}
			begin := time.Now()
			b.written(record.Commit{
				Instance: "a", NewHead: "h1", Events: events, Create: leasesOf(ids...),
				Record: &record.Record{Name: "n", Origin: at(1), Execution: 1, Status: record.Running},
			})
			scheduled := time.Since(begin)
			for i := range ids {
				if i%1000 == 0 {
					b.claim("a", ids[i], 1, time.Minute)
				}
			}
			begin = time.Now()
			got, replied := b.written(record.Commit{
				Instance: "a", Head: "h1", NewHead: "h2", From: record.Running, Events: events, Delete: leasesOf(ids...), Record: &record.Record{},
			})
			b.Logf("scheduled in %v, cancelled in %v", scheduled, time.Since(begin))
			if replied && len(got.Workers) != n/1000 {
				b.Errorf("%d holders", len(got.Workers))
			}
			if left, err := b.rdb.Exists(b.ctx(), b.p.Lease("a", 1, 2), b.p.Lease("a", 1, n+1)).Result(); err != nil || left != 0 {
				b.Errorf("%d leases left, %v", left, err)
			}
			if raw, err := b.st.RawHistory(b.ctx(), part, "a", 1, 2*n-1, 10); err != nil || len(raw) != 1 {
				b.Errorf("history: %d, %v", len(raw), err)
			}
		},
	})
}

// written makes a large commit, which a slow machine may not answer within the time for which a call is repeated. Without a reply to its
// first attempt, replied is false, and the commit has been written nevertheless.
func (b *harness) written(c record.Commit) (got record.Committed, replied bool) {
	b.Helper()
	got, err := b.commit(c)
	for range 20 {
		if err == nil || !redisx.Unavailable(err) {
			break
		}
		head, herr := b.st.Head(b.ctx(), part, c.Instance)
		if herr == nil && head == c.NewHead {
			return record.Committed{}, false
		}
		if _, err = b.commit(c); err == nil {
			return record.Committed{}, false
		}
	}
	b.must(err)
	return got, true
}

func (b *harness) wantIndex(instance string, want record.Status) {
	b.Helper()
	for _, st := range record.Statuses() {
		err := b.rdb.ZScore(b.ctx(), b.p.Index(string(st)), instance).Err()
		if (err == nil) != (st == want) {
			b.Errorf("in the index of %s: %v; its status is %s", st, err == nil, want)
		}
	}
}

// dump returns a copy of all keys of the partition except the owner's.
func (b *harness) dump() map[string]string {
	b.Helper()
	keys, err := b.rdb.Eval(b.ctx(), `return redis.call('KEYS', ARGV[1])`, []string{b.p.Owner()}, b.p.Prefix()+"*").StringSlice()
	b.must(err)
	out := make(map[string]string)
	for _, k := range keys {
		if k == b.p.Owner() {
			continue
		}
		kind, err := b.rdb.Type(b.ctx(), k).Result()
		b.must(err)
		switch kind {
		case "hash":
			out[k] = fmt.Sprint(b.rdb.HGetAll(b.ctx(), k).Val())
		case "list":
			out[k] = fmt.Sprint(b.rdb.LRange(b.ctx(), k, 0, -1).Val())
		case "zset":
			out[k] = fmt.Sprint(b.rdb.ZRangeWithScores(b.ctx(), k, 0, -1).Val())
		default:
			b.Errorf("%s is a %s", k, kind)
		}
	}
	return out
}

// The record of a waiting instance exists for a long time, so empty fields are not written; a field that the record has is replaced nevertheless.
func TestRecordHasNoEmptyVersion(t *testing.T) {
	each(t, map[string]func(b *harness){"by the first turn and later ones": func(b *harness) {
		head := ""
		for i, version := range []string{"", "v", ""} {
			c := record.Commit{
				Instance: "a", Execution: 1, Head: head, NewHead: fmt.Sprint("h", i), Events: [][]byte{[]byte("one")},
				Record: &record.Record{Name: "n", Version: version, Origin: at(1), Execution: 1, Status: record.Running, Created: 5},
			}
			if head != "" {
				c.From = record.Running
			}
			_, err := b.commit(c)
			b.must(err)
			head = c.NewHead
			rec, err := b.st.Record(b.ctx(), part, "a")
			b.must(err)
			if rec.Version != version {
				b.Errorf("version %q is read as %q", version, rec.Version)
			}
			if written := b.rdb.HExists(b.ctx(), b.space.Part(part).Instance("a"), "version").Val(); i == 0 && written {
				b.Error("an empty version is written")
			}
		}
	}})
}
