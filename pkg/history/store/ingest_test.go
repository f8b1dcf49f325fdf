package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawlrun/pawl/pkg/history/store"
)

func TestIngest(t *testing.T) {
	each(t, map[string]func(b *bench){
		"moves the position and the inputs together, and the instances are looked at now": func(b *bench) {
			got, err := b.ingest(0, 2, message("a", "e1", ""), message("a", "e2", ""), message("c", "e3", ""))
			b.must(err)
			want := []store.Ingested{{Unread: 1}, {Unread: 2}, {Unread: 1}}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				b.Errorf("%v, want %v", got, want)
			}
			b.wantInbox("a", "e1 e2")
			b.wantApplied(2)
			b.wantLook("a", 0)
			b.wantLook("c", 0)
		},
		"writes nothing for somebody who does not own": func(b *bench) {
			for _, left := range []time.Duration{time.Minute, -time.Millisecond} {
				if left > 0 {
					b.owner("another", left)
				} else {
					b.owner(token, left)
				}
				if _, err := b.ingest(0, 1, message("a", "e1", "")); !errors.Is(err, store.ErrFenced) {
					b.Errorf("%v, want ErrFenced", err)
				}
			}
			b.wantInbox("a", "")
			b.wantApplied(0)
			b.wantNoLook("a")
		},
		"does not believe an ownership that lasts longer than one can": func(b *bench) {
			b.must(b.rdb.HSet(b.ctx(), b.p.Owner(), "until", b.now()+3_600_000, "span", 5000).Err()) // the clock has stepped back
			if _, err := b.ingest(0, 1, message("a", "e1", "")); !errors.Is(err, store.ErrFenced) {
				b.Errorf("%v, want ErrFenced", err)
			}
		},
		"sent again is told that it was done, and pushes nothing twice": func(b *bench) {
			for range 2 {
				if _, err := b.ingest(0, 1, message("a", "e1", "")); err != nil {
					b.Fatal(err)
				}
			}
			b.wantInbox("a", "e1")
		},
		"refuses any other position, behind or ahead": func(b *bench) {
			_, err := b.ingest(0, 7, message("a", "e1", ""))
			b.must(err)
			for _, from := range []uint64{0, 6, 8} {
				if _, err := b.ingest(from, 9, message("a", "e2", "")); !errors.Is(err, store.ErrConflict) {
					b.Errorf("from %d: %v, want ErrConflict", from, err)
				}
			}
			b.wantInbox("a", "e1")
			b.wantApplied(7)
		},
		"tells positions apart that differ by a nanosecond": func(b *bench) {
			b.must(b.rdb.HSet(b.ctx(), b.p.Owner(), "seq", "1", "time", fmt.Sprint(at(1).Time+1)).Err())
			if _, err := b.ingest(1, 2); !errors.Is(err, store.ErrConflict) {
				b.Errorf("%v, want ErrConflict", err)
			}
		},
		"moves the position of an idle partition without a message": func(b *bench) {
			_, err := b.ingest(0, 5)
			b.must(err)
			b.wantApplied(5)
		},
		"drops a repeat, also within one batch, but not of another instance": func(b *bench) {
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
		"forgets message ids after an hour": func(b *bench) {
			_, err := b.ingest(0, 1, message("a", "m", ""))
			b.must(err)
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Seen("a"), redisZ(b.now()-3_600_001, "m")).Err())
			got, err := b.ingest(1, 2, message("a", "m", ""))
			b.must(err)
			if got[0].Repeat {
				b.Error("still known")
			}
		},
		"puts a start in front of what came early, and a second start behind": func(b *bench) {
			_, err := b.ingest(0, 2, message("a", "e1", ""), message("a", "e2", ""))
			b.must(err)
			_, err = b.ingest(2, 5, message("a", "s3", store.StartMessage), message("a", "s4", store.StartMessage), message("a", "e5", ""))
			b.must(err)
			b.wantInbox("a", "!s3 e1 e2 !s4 e5")
			_, err = b.ingest(5, 6, message("a", "s6", store.StartMessage))
			b.must(err)
			b.wantInbox("a", "!s3 e1 e2 !s4 e5 !s6")
		},
		"puts the start of an instance that exists behind": func(b *bench) {
			b.started("a", "h1")
			got, err := b.ingest(0, 2, message("a", "e1", ""), message("a", "s2", store.StartMessage))
			b.must(err)
			if !got[1].Exists || got[1].Unread != 2 {
				b.Errorf("%+v", got)
			}
			b.wantInbox("a", "e1 !s2")
		},
		"drops a cancel that nobody has started, and takes one behind a start": func(b *bench) {
			got, err := b.ingest(0, 2, message("a", "c1", store.CancelMessage), message("a", "e2", ""))
			b.must(err)
			if !got[0].Unknown {
				b.Errorf("%+v", got)
			}
			got, err = b.ingest(2, 4, message("a", "s3", store.StartMessage), message("a", "c4", store.CancelMessage))
			b.must(err)
			if got[1].Unknown {
				b.Errorf("%+v", got)
			}
			got, err = b.ingest(4, 5, message("a", "c5", store.CancelMessage)) // the start is not turned yet
			b.must(err)
			if got[0].Unknown {
				b.Errorf("%+v", got)
			}
			b.wantInbox("a", "!s3 e2 c4 c5")
		},
		"never puts a look off": func(b *bench) {
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Agenda(), redisZ(b.now()-60_000, "a")).Err())
			_, err := b.ingest(0, 1, message("a", "e1", ""))
			b.must(err)
			if in, _ := b.onAgenda("a"); in > -60_000 {
				b.Errorf("put off to %d ms", in)
			}
		},
	})
}

// A full inbox may cost the instance, but not silently, and never the start that would empty it.
func TestAFullInboxTakesTheMarkThatItIsAndStillTheStartOfItsInstance(t *testing.T) {
	each(t, map[string]func(b *bench){
		"it is so": func(b *bench) {
			fill := b.rdb.Pipeline()
			const chunk = 10_000
			some := make([]any, chunk)
			for i := range some {
				some[i] = "e\n1\n"
			}
			for range store.InboxBound / chunk {
				fill.RPush(b.ctx(), b.p.Inbox("a"), some...)
			}
			_, err := fill.Exec(b.ctx())
			b.must(err)
			got, err := b.ingest(0, 3, message("a", "e1", ""), message("a", "e2", ""), message("c", "e3", ""))
			b.must(err)
			if !got[0].Full || !got[1].Full || got[2].Full {
				b.Errorf("%+v", got)
			}
			got, err = b.ingest(3, 4, message("a", "e1", "")) // it was dropped, so it is no repeat
			b.must(err)
			if !got[0].Full {
				b.Errorf("%+v", got)
			}
			ends, err := b.rdb.LRange(b.ctx(), b.p.Inbox("a"), -2, -1).Result()
			b.must(err)
			if len(ends) != 2 || ends[0] != "e\n1\n" || ends[1][:5] != "full." {
				b.Errorf("one mark is wanted at the end, and there is %q", ends)
			}
			got, err = b.ingest(4, 6, message("a", "s1", store.StartMessage), message("a", "s2", store.StartMessage))
			b.must(err)
			if got[0].Full || !got[1].Full {
				b.Errorf("%+v", got)
			}
			first, err := b.rdb.LIndex(b.ctx(), b.p.Inbox("a"), 0).Result()
			b.must(err)
			if first != string(element("!s1")) {
				b.Errorf("the inbox begins with %q", first)
			}
			b.wantLook("a", 0)
		},
	})
}
