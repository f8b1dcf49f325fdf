package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/store"
)

func TestIngestPushesEachInputOnce(t *testing.T) {
	each(t, map[string]func(b *harness){
		"the position and the inputs are written together, with wakeups now": func(b *harness) {
			got, err := b.ingest(0, 2, message("a", "e1", ""), message("a", "e2", ""), message("c", "e3", ""))
			b.must(err)
			want := []record.Ingested{{Unread: 1}, {Unread: 2}, {Unread: 1}}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				b.Errorf("%v, want %v", got, want)
			}
			b.wantInbox("a", "e1 e2")
			b.wantApplied(2)
			b.wantWakeup("a", 0)
			b.wantWakeup("c", 0)
		},
		"a process that is not the owner writes nothing": func(b *harness) {
			for _, left := range []time.Duration{time.Minute, -time.Millisecond} {
				if left > 0 {
					b.owner("another", left)
				} else {
					b.owner(token, left)
				}
				if _, err := b.ingest(0, 1, message("a", "e1", "")); !errors.Is(err, record.ErrFenced) {
					b.Errorf("%v, want ErrFenced", err)
				}
			}
			b.wantInbox("a", "")
			b.wantApplied(0)
			b.wantNoWakeup("a")
		},
		"an ownership that expires too late, after a step back of the clock, is rejected": func(b *harness) {
			b.must(b.rdb.HSet(b.ctx(), b.p.Owner(), "until", b.now()+3_600_000, "span", 5000).Err()) // the clock has stepped back
			if _, err := b.ingest(0, 1, message("a", "e1", "")); !errors.Is(err, record.ErrFenced) {
				b.Errorf("%v, want ErrFenced", err)
			}
		},
		"a repeat reports success, and pushes nothing twice": func(b *harness) {
			for range 2 {
				if _, err := b.ingest(0, 1, message("a", "e1", "")); err != nil {
					b.Fatal(err)
				}
			}
			b.wantInbox("a", "e1")
		},
		"any other position conflicts, earlier or later": func(b *harness) {
			_, err := b.ingest(0, 7, message("a", "e1", ""))
			b.must(err)
			for _, from := range []uint64{0, 6, 8} {
				if _, err := b.ingest(from, 9, message("a", "e2", "")); !errors.Is(err, record.ErrConflict) {
					b.Errorf("from %d: %v, want ErrConflict", from, err)
				}
			}
			b.wantInbox("a", "e1")
			b.wantApplied(7)
		},
		"positions that differ by a nanosecond are distinct": func(b *harness) {
			b.must(b.rdb.HSet(b.ctx(), b.p.Owner(), "seq", "1", "time", fmt.Sprint(at(1).Time+1)).Err())
			if _, err := b.ingest(1, 2); !errors.Is(err, record.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
		},
		"the position of an idle partition advances without a message": func(b *harness) {
			_, err := b.ingest(0, 5)
			b.must(err)
			b.wantApplied(5)
		},
		"a duplicate is dropped, also within a batch, but not for another instance": func(b *harness) {
			got, err := b.ingest(0, 3, message("a", "m", ""), message("a", "m", ""), message("c", "m", ""))
			b.must(err)
			if got[0].Repeat || !got[1].Repeat || got[2].Repeat {
				b.Errorf("%+v", got)
			}
			got, err = b.ingest(3, 4, message("a", "m", ""))
			b.must(err)
			if !got[0].Repeat {
				b.Errorf("%+v", got)
			}
			b.wantInbox("a", "m")
		},
		"message ids expire after an hour": func(b *harness) {
			_, err := b.ingest(0, 1, message("a", "m", ""))
			b.must(err)
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Seen("a"), redisZ(b.now()-3_600_001, "m")).Err())
			got, err := b.ingest(1, 2, message("a", "m", ""))
			b.must(err)
			if got[0].Repeat {
				b.Error("the id has not expired")
			}
		},
		"a start is pushed in front of early inputs, and a second start after them": func(b *harness) {
			_, err := b.ingest(0, 2, message("a", "e1", ""), message("a", "e2", ""))
			b.must(err)
			_, err = b.ingest(2, 5, message("a", "s3", record.StartMessage), message("a", "s4", record.StartMessage), message("a", "e5", ""))
			b.must(err)
			b.wantInbox("a", "!s3 e1 e2 !s4 e5")
			_, err = b.ingest(5, 6, message("a", "s6", record.StartMessage))
			b.must(err)
			b.wantInbox("a", "!s3 e1 e2 !s4 e5 !s6")
		},
		"a start without effect is dropped directly after another start": func(b *harness) {
			got, err := b.ingest(0, 4, message("a", "s1", record.PlainStart), message("a", "s2", record.PlainStart), message("a", "e3", ""), message("a", "s4", record.PlainStart))
			b.must(err)
			if got[0].Repeat || !got[1].Repeat || got[3].Repeat {
				b.Errorf("%+v", got)
			}
			got, err = b.ingest(4, 6, message("a", "s5", record.PlainStart), message("a", "s6", record.StartMessage))
			b.must(err)
			if !got[0].Repeat || got[1].Repeat {
				b.Errorf("%+v", got)
			}
			b.wantInbox("a", "!s1 e3 !s4 !s6")
		},
		"the start of an existing instance is appended": func(b *harness) {
			b.started("a", "h1")
			got, err := b.ingest(0, 2, message("a", "e1", ""), message("a", "s2", record.StartMessage))
			b.must(err)
			if !got[1].Exists || got[1].Unread != 2 {
				b.Errorf("%+v", got)
			}
			b.wantInbox("a", "e1 !s2")
		},
		"a cancel is dropped without a start, and accepted after one": func(b *harness) {
			got, err := b.ingest(0, 2, message("a", "c1", record.CancelMessage), message("a", "e2", ""))
			b.must(err)
			if !got[0].Unknown {
				b.Errorf("%+v", got)
			}
			got, err = b.ingest(2, 4, message("a", "s3", record.StartMessage), message("a", "c4", record.CancelMessage))
			b.must(err)
			if got[1].Unknown {
				b.Errorf("%+v", got)
			}
			got, err = b.ingest(4, 5, message("a", "c5", record.CancelMessage)) // the start was not processed yet
			b.must(err)
			if got[0].Unknown {
				b.Errorf("%+v", got)
			}
			b.wantInbox("a", "!s3 e2 c4 c5")
		},
		"a wakeup is never postponed": func(b *harness) {
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Wakeups(), redisZ(b.now()-60_000, "a")).Err())
			_, err := b.ingest(0, 1, message("a", "e1", ""))
			b.must(err)
			if in, _ := b.wakeupIn("a"); in > -60_000 {
				b.Errorf("postponed to %d ms", in)
			}
		},
	})
}

// A full inbox may fail the instance, but never silently, and it never rejects the start that leads to its consumption.
func TestFullInboxTakesMarkAndStart(t *testing.T) {
	each(t, map[string]func(b *harness){
		"on every store": func(b *harness) {
			fill := b.rdb.Pipeline()
			const chunk = 10_000
			some := make([]any, chunk)
			for i := range some {
				some[i] = "e\n1\n"
			}
			for range record.InboxBound / chunk {
				fill.RPush(b.ctx(), b.p.Inbox("a"), some...)
			}
			_, err := fill.Exec(b.ctx())
			b.must(err)
			got, err := b.ingest(0, 3, message("a", "e1", ""), message("a", "e2", ""), message("c", "e3", ""))
			b.must(err)
			if !got[0].Full || !got[1].Full || got[2].Full {
				b.Errorf("%+v", got)
			}
			got, err = b.ingest(3, 4, message("a", "e1", "")) // it was dropped before, so it is not a duplicate
			b.must(err)
			if !got[0].Full {
				b.Errorf("%+v", got)
			}
			ends, err := b.rdb.LRange(b.ctx(), b.p.Inbox("a"), -2, -1).Result()
			b.must(err)
			if len(ends) != 2 || ends[0] != "e\n1\n" || ends[1][:5] != "full." {
				b.Errorf("the inbox ends with %q, want one mark", ends)
			}
			got, err = b.ingest(4, 6, message("a", "s1", record.StartMessage), message("a", "s2", record.StartMessage))
			b.must(err)
			if got[0].Full || !got[1].Full {
				b.Errorf("%+v", got)
			}
			first, err := b.rdb.LIndex(b.ctx(), b.p.Inbox("a"), 0).Result()
			b.must(err)
			if first != string(element("!s1")) {
				b.Errorf("the inbox begins with %q", first)
			}
			b.wantWakeup("a", 0)
		},
	})
}

// Trap: an inbox that is bounded by number, but not by bytes. 1,600 events of 520 KB to one instance filled Redis.
func TestInboxIsBoundedByBytes(t *testing.T) {
	onReal(t, map[string]func(b *harness){
		"the inbox of a running instance": func(b *harness) {
			b.started("a", "h1")
			seq, full := uint64(0), 0
			for range 50 { // 100 MiB
				got, err := b.ingest(seq, seq+4, large("a", seq, 4)...)
				b.must(err)
				seq += 4
				for _, g := range got {
					if g.Full {
						full++
					}
				}
			}
			n, err := b.rdb.LLen(b.ctx(), b.p.Inbox("a")).Result()
			b.must(err)
			if held := (n - 1) * largeBytes; full == 0 || held < record.InboxBytes*3/4 || held > record.InboxBytes+8*largeBytes {
				b.Errorf("%d of 200 were dropped, and %d bytes are unread", full, held)
			}
			got, err := b.ingest(seq, seq+1, message("c", "e1", "")) // another instance
			b.must(err)
			if got[0].Full {
				b.Error("the inbox of another instance is full")
			}
		},
		"inboxes of instances that were not started, each and in total": func(b *harness) {
			seq := uint64(0)
			take := func(instance string) (early int) {
				got, err := b.ingest(seq, seq+8, large(instance, seq, 8)...)
				b.must(err)
				seq += 8
				for _, g := range got {
					if g.Early {
						early++
					}
				}
				return early
			}
			for i := range 4 { // 3.5 MiB each
				if early := take(fmt.Sprint("a", i)); early != 1 {
					b.Errorf("%d of eight were dropped", early)
				}
			}
			if early := take("a0"); early != 8 {
				b.Errorf("%d of eight more were dropped", early)
			}
			if early := take("b"); early < 4 { // the bound for all instances is 16 MiB
				b.Errorf("%d of eight were dropped", early)
			}
			if mark := b.inbox("a0"); !strings.HasSuffix(mark, " full.8") || strings.Count(mark, "full.") != 1 {
				b.Errorf("a0 has %q", mark)
			}
			got, err := b.ingest(seq, seq+3, message("c", "s1", record.StartMessage), message("c", "e1", ""), large("c", 9, 1)[0]) // other instances are not affected
			b.must(err)
			if got[0].Early || got[1].Early || got[2].Early {
				b.Errorf("%+v", got)
			}
			seq += 3
			_, err = b.ingest(seq, seq+1, message("a0", "s2", record.StartMessage)) // frees room
			b.must(err)
			seq++
			if early := take("d"); early != 1 {
				b.Errorf("%d of eight were dropped", early)
			}
			b.wantEarly("a1", "a2", "a3", "b", "d")
			for _, id := range []string{"a1", "a2", "a3", "b", "d"} {
				for _, pop := range [][]string{{strings.Fields(b.inbox(id))[0]}, nil} { // the first, then the rest
					if pop == nil {
						pop = strings.Fields(b.inbox(id))
					}
					_, err := b.commit(record.Commit{Instance: id, Pop: pop})
					b.must(err)
				}
			}
			b.wantEarly()
		},
	})
}

const largeBytes = 512 << 10

// large returns n events of half a MiB each.
func large(instance string, seq uint64, n int) []record.Message {
	out := make([]record.Message, n)
	for i := range out {
		el := eventcodec.Element{ID: fmt.Sprint("e", seq+uint64(i)), At: 1_790_000_000_000, Body: make([]byte, largeBytes)}
		out[i] = record.Message{Instance: instance, Element: el.Encode()}
	}
	return out
}

// wantEarly checks which instances have early inputs, and that the total is their sum.
func (b *harness) wantEarly(ids ...string) {
	b.Helper()
	m, err := b.rdb.HGetAll(b.ctx(), b.p.Early()).Result()
	b.must(err)
	if bad := store.CheckEarly(m); bad != "" {
		b.Error(bad)
	}
	delete(m, "")
	if got := slices.Sorted(maps.Keys(m)); !slices.Equal(got, ids) {
		b.Errorf("early inputs of %q, want those of %q", got, ids)
	}
}
