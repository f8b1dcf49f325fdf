package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/pkg/history/store"
)

// Pages of any size, with and without a filter, give every instance once and in order, also if many have changed in the
// same millisecond.
func TestListPagesWithinOneMillisecond(t *testing.T) {
	each(t, map[string]func(b *bench){"ties": func(b *bench) {
		type place struct {
			id string
			at int64
		}
		var want []place
		for i := range 40 {
			p := place{fmt.Sprintf("i-%02d", i), 1_790_000_000_000 + int64(i/13)}
			b.started(p.id, "head")
			b.must(b.rdb.ZAdd(b.ctx(), b.p.Index("running"), redis.Z{Score: float64(p.at), Member: p.id}).Err())
			want = append(want, p)
		}
		b.must(b.rdb.ZAdd(b.ctx(), b.p.Index("running"), redis.Z{Score: 1_790_000_000_001, Member: "purged"}).Err())
		slices.SortFunc(want, func(x, y place) int { return cmp.Or(cmp.Compare(y.at, x.at), strings.Compare(y.id, x.id)) })
		for _, limit := range []int{1, 3, 13, 40, 500} {
			for name, keep := range map[string]func(string) bool{
				"all": nil, "even": func(id string) bool { return (id[len(id)-1]-'0')%2 == 0 }, "none": func(string) bool { return false },
			} {
				q := store.ListQuery{Statuses: store.Statuses(), Limit: limit}
				if keep != nil {
					q.Keep = func(id string, _ *store.Record) bool { return keep(id) }
				}
				var got, kept []string
				for _, p := range want {
					if keep == nil || keep(p.id) {
						kept = append(kept, p.id)
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
				if !slices.Equal(got, kept) {
					b.Errorf("limit %d, %s: %v\nwant %v", limit, name, got, kept)
				}
			}
		}
	}})
}
