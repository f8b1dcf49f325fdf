package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// A duplicate of an update is recognized from its ingest on, whatever its age. Its answer is kept within the bounds on number and bytes of
// answers, and removed with the instance.
func TestLedgerAnswersRepeatsOfUpdates(t *testing.T) {
	answer := func(b *harness, text string) []byte {
		bytes, err := eventcodec.UpdateAnswer{At: 1, Result: history.Payload{Type: history.TypeJSON, Data: []byte(text)}}.Encode()
		b.must(err)
		return bytes
	}
	// commit answers updates in a commit that only consumes the inbox.
	commit := func(b *harness, answers ...record.Answer) {
		b.Helper()
		_, err := b.commit(record.Commit{Instance: "a", Execution: 1, Head: "h1", Answers: answers})
		b.must(err)
	}
	kept := func(b *harness, update string) string {
		a, _, err := b.st.UpdateAnswer(b.ctx(), b.own.Part, "a", update)
		b.must(err)
		if a == nil {
			return ""
		}
		return string(a.Result.Data)
	}
	each(t, map[string]func(b *harness){
		"a duplicate is dropped while the update is open, and once it is answered": func(b *harness) {
			b.started("a", "h1")
			_, err := b.ingest(0, 1, message("a", "p k", record.UpdateMessage))
			b.must(err)
			got, err := b.ingest(1, 3, message("a", "p k", record.UpdateMessage), message("a", "p l", record.UpdateMessage))
			b.must(err)
			if !got[0].Repeat || got[1].Repeat {
				b.Errorf("%+v", got)
			}
			commit(b, record.Answer{Update: "p k", Answer: answer(b, "1")})
			if got, err = b.ingest(3, 4, message("a", "p k", record.UpdateMessage)); err != nil || !got[0].Repeat {
				b.Errorf("%+v, %v", got, err)
			}
			if kept(b, "p k") != "1" || kept(b, "p l") != "" {
				b.Errorf("answers %q and %q", kept(b, "p k"), kept(b, "p l"))
			}
			commit(b, record.Answer{Update: "p l"}) // its input was dropped
			if got, err = b.ingest(4, 5, message("a", "p l", record.UpdateMessage)); err != nil || got[0].Repeat {
				b.Errorf("%+v, %v", got, err)
			}
		},
		"an open update has its position in the stream": func(b *harness) {
			b.started("a", "h1")
			m := message("a", "p k", record.UpdateMessage)
			m.Element = eventcodec.Element{ID: "s7", At: 1_790_000_000_123}.Encode()
			_, err := b.ingest(0, 1, m, message("a", "p l", record.UpdateMessage))
			b.must(err)
			for update, want := range map[string]history.Position{"p k": {Seq: 7, Time: 1_790_000_000_123_000_000}, "p l": {}} {
				if a, open, err := b.st.UpdateAnswer(b.ctx(), b.own.Part, "a", update); a != nil || open != want || err != nil {
					b.Errorf("%s: %v, open at %+v, %v", update, a, open, err)
				}
			}
		},
		"a duplicate within a batch is dropped": func(b *harness) {
			got, err := b.ingest(0, 2, message("a", "p k", record.UpdateMessage), message("a", "p k", record.UpdateMessage))
			b.must(err)
			if got[0].Repeat || !got[1].Repeat {
				b.Errorf("%+v", got)
			}
		},
		"the latest answers are kept, by number": func(b *harness) {
			b.started("a", "h1")
			var all []record.Answer
			for i := range 1005 {
				all = append(all, record.Answer{Update: fmt.Sprint("p ", i), Answer: answer(b, fmt.Sprint(i))})
			}
			for some := range slices.Chunk(all, 100) {
				commit(b, some...)
			}
			if kept(b, "p 4") != "" || kept(b, "p 5") != "5" || kept(b, "p 1004") != "1004" {
				b.Errorf("%q, %q, %q", kept(b, "p 4"), kept(b, "p 5"), kept(b, "p 1004"))
			}
			if n := b.rdb.HLen(b.ctx(), b.p.Updates("a")).Val(); n != 3+2*1000 {
				b.Errorf("%d fields", n)
			}
		},
		"the latest answers are kept, by bytes": func(b *harness) {
			b.started("a", "h1")
			large := `"` + strings.Repeat("x", 500_000) + `"`
			for i := range 20 {
				commit(b, record.Answer{Update: fmt.Sprint("p ", i), Answer: answer(b, large)})
			}
			if kept(b, "p 3") != "" || kept(b, "p 4") != large || kept(b, "p 19") != large {
				b.Error("want the last 16 answers")
			}
		},
		"a ledger of another type is replaced": func(b *harness) {
			b.started("a", "h1")
			b.must(b.rdb.Set(b.ctx(), b.p.Updates("a"), "text", 0).Err())
			if kept(b, "p k") != "" {
				b.Error("read an answer")
			}
			_, err := b.ingest(0, 1, message("a", "p k", record.UpdateMessage))
			b.must(err)
			b.must(b.rdb.Set(b.ctx(), b.p.Updates("a"), "text", 0).Err())
			commit(b, record.Answer{Update: "p k", Answer: answer(b, "1")})
			if kept(b, "p k") != "1" {
				b.Error("the answer is lost")
			}
		},
		"the check finds a lost update": func(b *harness) {
			b.consistentInstance()
			b.must(b.rdb.HSet(b.ctx(), b.p.Updates("a"), "p k", "o").Err())
			b.wantRules("1 updates are open in the ledger, but only 0 are unread")
		},
		"the check finds a ledger without an instance": func(b *harness) {
			b.must(b.rdb.HSet(b.ctx(), b.p.Updates("a"), "p k", "o").Err())
			b.wantRules("neither a record nor unread inputs")
		},
		"the ledger is removed with the instance": func(b *harness) {
			b.endedInstance()
			b.must(b.rdb.HSet(b.ctx(), b.p.Updates("a"), "p k", "o").Err())
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Values("unanswered", "true"), redis.Z{Member: "a"}).Err())
			b.must(b.purge(purgeOfA()))
			if n := b.rdb.Exists(b.ctx(), b.p.Updates("a"), b.p.Values("unanswered", "true")).Val(); n != 0 {
				b.Errorf("%d keys are left", n)
			}
		},
	})
}
