package store_test

import (
	"errors"
	"testing"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
)

func (b *harness) wipe(w record.Wipe) error {
	_, err := redistest.Answer(func(done func(int64, error)) { b.st.Wipe(b.own, &w, done) })
	return err
}

func TestWipeRemovesEverythingOnce(t *testing.T) {
	each(t, map[string]func(b *harness){
		"keys of any type; later inputs are kept, with the start in front": func(b *harness) {
			b.endedInstance(message("a", "e1", ""), message("a", "!n", record.StartMessage))
			for _, key := range []string{b.p.Instance("a"), b.p.History("a", 1), b.p.Reports("a", 2), b.p.Lease("a", 7, 9), b.p.Seen("a")} {
				b.must(b.rdb.Del(b.ctx(), key).Err())
				b.must(b.rdb.Set(b.ctx(), key, "a text", 0).Err())
			}
			b.must(b.rdb.RPush(b.ctx(), b.p.History("a:1", 1), "e").Err())
			keys, err := b.st.OwnedKeys(b.ctx(), part, "a")
			b.must(err)
			w := record.Wipe{Instance: "a", Purge: "p", Keys: keys}
			if err := b.wipe(record.Wipe{Instance: "a", InboxIndex: 1, Purge: "p"}); !errors.Is(err, record.ErrConflict) {
				b.Errorf("at another index: %v", err)
			}
			b.must(b.wipe(w))
			if err := b.wipe(w); !errors.Is(err, record.ErrConflict) {
				b.Errorf("again: %v", err)
			}
			b.wantGone(b.p.Inbox("a"), b.p.Wakeups())
			if got := b.rdb.LRange(b.ctx(), b.p.Inbox("a"), 0, -1).Val(); len(got) != 2 || got[0][0] != '!' {
				b.Errorf("after the purge: %q", got)
			}
			if b.rdb.Exists(b.ctx(), b.p.History("a:1", 1)).Val() != 1 {
				b.Error("the history of another instance is gone")
			}
		},
		"only an inbox of another type is unblocked": func(b *harness) {
			b.endedInstance()
			if was, err := b.st.Unblock(b.ctx(), b.own, "a"); was || err != nil {
				b.Errorf("unblocked a valid inbox: %v, %v", was, err)
			}
			b.must(b.rdb.Del(b.ctx(), b.p.Inbox("a")).Err())
			b.must(b.rdb.Set(b.ctx(), b.p.Inbox("a"), "a text", 0).Err())
			if was, err := b.st.Unblock(b.ctx(), b.own, "a"); !was || err != nil {
				b.Errorf("%v, %v", was, err)
			}
			if b.rdb.Exists(b.ctx(), b.p.Inbox("a")).Val() != 0 || b.rdb.Exists(b.ctx(), b.p.Instance("a")).Val() != 1 {
				b.Error("the inbox exists, or the record does not")
			}
			b.own.Token = "another"
			if err := b.wipe(record.Wipe{Instance: "a", Purge: "p"}); !errors.Is(err, record.ErrFenced) {
				b.Errorf("fenced: %v", err)
			}
		},
	})
}
