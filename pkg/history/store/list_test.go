package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// Pages of any size, with and without a filter, give every instance of two statuses once and in order, also if many have changed in
// the same millisecond, whatever sets they are read from.
func TestListPagesWithinOneMillisecond(t *testing.T) {
	each(t, map[string]func(b *bench){"ties": func(b *bench) {
		type place struct {
			id string
			at int64
		}
		var all []place
		for i := range 40 {
			p := place{fmt.Sprintf("i-%02d", i), 1_790_000_000_000 + int64(i/13)}
			status, name := store.Running, "even"
			if i%3 == 0 {
				status = store.Completed
			}
			if i%2 == 1 {
				name = "odd"
			}
			_, err := b.commit(store.Commit{
				Instance: p.id, NewHead: "head", Events: [][]byte{[]byte("first")},
				Record: &store.Record{Name: name, Version: "1", Origin: at(1), Execution: 1, Status: status, Created: 5},
			})
			b.must(err)
			if n := b.rdb.ZAdd(b.ctx(), b.p.Index(string(status)), redis.Z{Score: float64(p.at), Member: p.id}).Val(); n != 0 {
				b.Fatalf("%s was not in the index of %s", p.id, status)
			}
			all = append(all, p)
		}
		b.must(b.rdb.ZAdd(b.ctx(), b.p.Index("running"), redis.Z{Score: 1_790_000_000_001, Member: "purged"}).Err())
		slices.SortFunc(all, func(x, y place) int { return cmp.Or(cmp.Compare(y.at, x.at), strings.Compare(y.id, x.id)) })
		even := func(id string) bool { return (id[len(id)-1]-'0')%2 == 0 }
		for _, limit := range []int{1, 3, 13, 40, 500} {
			for name, c := range map[string]struct {
				q    store.ListQuery
				pass func(string) bool
			}{
				"all":           {store.ListQuery{}, func(string) bool { return true }},
				"even":          {store.ListQuery{Keep: func(id string, _ *store.Record) bool { return even(id) }}, even},
				"none":          {store.ListQuery{Keep: func(string, *store.Record) bool { return false }}, func(string) bool { return false }},
				"one value":     {store.ListQuery{Values: []store.Values{{Field: "orchestration", Of: []string{"even"}}}}, even},
				"two values":    {store.ListQuery{Values: []store.Values{{Field: "orchestration", Of: []string{"even", "odd", "no"}}}}, func(string) bool { return true }},
				"two terms":     {store.ListQuery{Values: []store.Values{{Field: "version", Of: []string{"1"}}, {Field: "orchestration", Of: []string{"even"}}}}, even},
				"no such value": {store.ListQuery{Values: []store.Values{{Field: "version", Of: []string{"2"}}}}, func(string) bool { return false }},
				"only a prefix": {store.ListQuery{Prefix: "i-1"}, func(id string) bool { return strings.HasPrefix(id, "i-1") }},
				"prefix":        {store.ListQuery{Prefix: "i-1", Values: []store.Values{{Field: "orchestration", Of: []string{"even"}}}}, func(id string) bool { return even(id) && strings.HasPrefix(id, "i-1") }},
				"ids":           {store.ListQuery{IDs: []string{"i-02", "i-03", "i-99"}, Values: []store.Values{{Field: "orchestration", Of: []string{"odd"}}}}, func(id string) bool { return id == "i-03" }},
			} {
				q := c.q
				q.Statuses, q.Limit = record.Statuses(), limit
				var got, want []string
				for _, p := range all {
					if c.pass(p.id) {
						want = append(want, p.id)
					}
				}
				for more := true; more; {
					page, err := b.st.List(b.ctx(), part, q)
					b.must(err)
					if len(page.Rows) > limit {
						b.Fatalf("a page of %d rows, limit %d", len(page.Rows), limit)
					}
					for _, r := range page.Rows {
						if r.Record == nil {
							b.Fatalf("%s: %s", r.Instance, r.Problem)
						}
						got = append(got, r.Instance)
					}
					q.Updated, q.Instance, more = page.Updated, page.Instance, page.More
				}
				if !slices.Equal(got, want) {
					b.Errorf("limit %d, %s: %v\nwant %v", limit, name, got, want)
				}
			}
		}
	}})
}

// Clients can name any number of orchestrations, and a list by the beginning of an id reads the sets of few. That one of them is of
// another type shows whether it does.
func TestListByPrefixReadsFewOrchestrations(t *testing.T) {
	each(t, map[string]func(b *bench){"": func(b *bench) {
		for _, id := range []string{"i-1", "i-2", "j-1"} {
			_, err := b.commit(store.Commit{
				Instance: id, NewHead: "head", Events: [][]byte{[]byte("first")},
				Record: &store.Record{Name: "known", Origin: at(1), Execution: 1, Status: store.Running, Created: 5},
			})
			b.must(err)
		}
		names := make([]redis.Z, 1000)
		for i := range names {
			names[i].Member = fmt.Sprintf("unknown-%d", i)
		}
		b.must(b.rdb.ZAdd(b.ctx(), b.p.Orchestrations(), names...).Err())
		b.must(b.rdb.Set(b.ctx(), b.p.Values("orchestration", "unknown-7"), "x", 0).Err())
		q := store.ListQuery{Statuses: record.Statuses(), Prefix: "i-"}
		page, err := b.st.List(b.ctx(), part, q)
		b.must(err)
		got, err := b.st.Tally(b.ctx(), part, &store.TallyQuery{ListQuery: q})
		b.must(err)
		if len(page.Rows) != 2 || page.More || got.Count != 2 || got.More {
			b.Errorf("%d rows, %+v", len(page.Rows), got)
		}
	}})
}
