package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/store"
)

// Pages of any size and in either order, with and without a filter, return every instance of two statuses once and in order, even if many changed in
// the same millisecond, whichever sets the list reads.
func TestListPagesWithinOneMillisecond(t *testing.T) {
	each(t, map[string]func(b *harness){"ties": func(b *harness) {
		var all []place
		for i := range 40 {
			p := place{fmt.Sprintf("i-%02d", i), part, 1_790_000_000_000 + int64(i/13)}
			status, name := record.Running, "even"
			if i%3 == 0 {
				status = record.Completed
			}
			if i%2 == 1 {
				name = "odd"
			}
			_, err := b.commit(record.Commit{
				Instance: p.id, NewHead: "head", Events: [][]byte{[]byte("first")},
				Record: &record.Record{Name: name, Version: "1", Origin: at(1), Execution: 1, Status: status, Created: 5},
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
				"even":          {store.ListQuery{Keep: func(id string, _ *record.Record) bool { return even(id) }}, even},
				"none":          {store.ListQuery{Keep: func(string, *record.Record) bool { return false }}, func(string) bool { return false }},
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
				var want []string
				for _, p := range all {
					if c.pass(p.id) {
						want = append(want, p.id)
					}
				}
				b.inBothOrders(fmt.Sprintf("limit %d, %s", limit, name), []int{part}, q, want)
			}
		}
	}})
}

// Clients can name any number of orchestrations, but a list by prefix reads only the sets of a few. A key of another type among them shows
// whether the list reads more.
func TestListByPrefixReadsFewOrchestrations(t *testing.T) {
	each(t, map[string]func(b *harness){"": func(b *harness) {
		for _, id := range []string{"i-1", "i-2", "j-1"} {
			_, err := b.commit(record.Commit{
				Instance: id, NewHead: "head", Events: [][]byte{[]byte("first")},
				Record: &record.Record{Name: "used", Origin: at(1), Execution: 1, Status: record.Running, Created: 5},
			})
			b.must(err)
		}
		names := make([]redis.Z, 1000)
		for i := range names {
			names[i].Member = fmt.Sprintf("unused-%d", i)
		}
		b.must(b.rdb.ZAdd(b.ctx(), b.p.Orchestrations(), names...).Err())
		b.must(b.rdb.Set(b.ctx(), b.p.Values("orchestration", "unused-7"), "x", 0).Err())
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

// place is a row of a list, with its partition.
type place struct {
	id   string
	part int
	at   int64
}

// begin commits an instance in a partition, with the time since which it has its status.
func (b *harness) begin(p place, rec record.Record) {
	b.Helper()
	own := store.Tenure{Part: p.part, Token: token}
	keys := b.space.Part(p.part)
	b.must(b.rdb.HSet(b.ctx(), keys.Owner(), "owner", token, "until", b.now()+60_000, "span", 60_000).Err())
	rec.Origin, rec.Execution, rec.Created = at(1), 1, 5
	c := record.Commit{Instance: p.id, Execution: 1, NewHead: "head", Events: [][]byte{[]byte("first")}, Record: &rec}
	c.Reindex(nil)
	_, err := redistest.Answer(func(done func(record.Committed, error)) { b.st.Commit(own, &c, done) })
	b.must(err)
	b.must(b.rdb.ZAdd(b.ctx(), keys.Index(string(rec.Status)), redis.Z{Score: float64(p.at), Member: p.id}).Err())
}

// pages reads a list over several partitions to its end.
func (b *harness) pages(parts []int, q store.ListQuery) (got []string) {
	b.Helper()
	for more := true; more; {
		page, err := b.st.ListAll(b.ctx(), parts, q)
		b.must(err)
		if len(page.Rows) > q.Limit {
			b.Fatalf("a page of %d rows, limit %d", len(page.Rows), q.Limit)
		}
		for _, r := range page.Rows {
			if r.Record == nil {
				b.Fatalf("%s: %q", r.Instance, r.Problem)
			}
			got = append(got, r.Instance)
		}
		q.Updated, q.Instance, more = page.Updated, page.Instance, page.More
	}
	return got
}

// inBothOrders checks the pages of a list: the latest first is want, the oldest first is its reverse.
func (b *harness) inBothOrders(name string, parts []int, q store.ListQuery, want []string) {
	b.Helper()
	for range 2 {
		if got := b.pages(parts, q); !slices.Equal(got, want) {
			b.Errorf("%s, oldest first: %t: %v\nwant %v", name, q.Oldest, got, want)
		}
		q.Oldest = true
		want = slices.Clone(want)
		slices.Reverse(want)
	}
}

// A page over several partitions contains their rows in order, however unevenly they are distributed: even if one partition has all of the latest
// rows, or must be searched for longer than a page allows.
func TestListOfSeveralPartitionsIsInOrder(t *testing.T) {
	onReal(t, map[string]func(b *harness){"": func(b *harness) {
		const base = 1_790_000_000_000
		var all []place
		for i := range 40 {
			p := place{fmt.Sprintf("i-%02d", i), []int{3, 4, 6}[i*i%3], base + int64(i/4)}
			if i >= 25 { // the latest
				p.part = 6
			}
			b.begin(p, record.Record{Name: []string{"even", "odd"}[i%2], Status: []record.Status{record.Running, record.Completed}[i/2%2]})
			all = append(all, p)
		}
		b.must(b.rdb.ZAdd(b.ctx(), b.space.Part(4).Index("running"), redis.Z{Score: base + 3, Member: "purged"}).Err())
		slices.SortFunc(all, func(x, y place) int { return cmp.Or(cmp.Compare(y.at, x.at), strings.Compare(y.id, x.id)) })
		for _, limit := range []int{1, 7, 40, 500} {
			for name, c := range map[string]struct {
				q    store.ListQuery
				pass func(i int) bool
			}{
				"all":      {store.ListQuery{}, func(int) bool { return true }},
				"records":  {store.ListQuery{Keep: func(_ string, rec *record.Record) bool { return rec.Name == "odd" }}, func(i int) bool { return i%2 == 1 }},
				"a value":  {store.ListQuery{Values: []store.Values{{Field: "orchestration", Of: []string{"even"}}}}, func(i int) bool { return i%2 == 0 }},
				"a prefix": {store.ListQuery{Prefix: "i-1"}, func(i int) bool { return i/10 == 1 }},
			} {
				q := c.q
				q.Statuses, q.Limit = record.Statuses(), limit
				var want []string
				for _, p := range all {
					if i, _ := strconv.Atoi(p.id[2:]); c.pass(i) {
						want = append(want, p.id)
					}
				}
				b.inBothOrders(fmt.Sprintf("limit %d, %s", limit, name), []int{3, 4, 6}, q, want)
			}
		}
		skipped := make([]redis.Z, 4_100) // more than one page searches
		for i := range skipped {
			skipped[i] = redis.Z{Score: base + 5, Member: fmt.Sprintf("skipped-%d", i)}
		}
		b.must(b.rdb.ZAdd(b.ctx(), b.space.Part(3).Index("running"), skipped...).Err())
		q := store.ListQuery{Statuses: record.Statuses(), Limit: 30, Pick: func(id string) bool { return !strings.HasPrefix(id, "skipped") }}
		want := make([]string, len(all))
		for i, p := range all {
			want[i] = p.id
		}
		b.inBothOrders("after many that are skipped", []int{3, 4, 6}, q, want)
	}})
}

// A number is found through its set, as a string is through the set of its value, without reading records.
func TestNumbersAreFoundThroughSets(t *testing.T) {
	each(t, map[string]func(b *harness){"": func(b *harness) {
		const n = 120
		items := func(i int) string { // some are strings
			if i%10 == 3 {
				return `"3"`
			}
			return strconv.Itoa(i%10 - 2)
		}
		for i := range n {
			b.begin(place{fmt.Sprintf("i-%03d", i), part, 1_790_000_000_000 + int64(i)},
				record.Record{Name: []string{"even", "odd"}[i%2], Status: record.Running, Attributes: `{"items":` + items(i) + `}`})
		}
		for name, c := range map[string]struct {
			q    store.ListQuery
			pass func(i int) bool
		}{
			"a number, or the same as a text": {
				store.ListQuery{Values: []store.Values{{Field: "items", Of: []string{"3"}, Numbers: []int64{3}}}},
				func(i int) bool { return items(i) == "3" || items(i) == `"3"` },
			},
			"several": {
				store.ListQuery{Values: []store.Values{{Field: "items", Of: []string{"-1", "7", "x"}, Numbers: []int64{-1, 7}}, {Field: "orchestration", Of: []string{"odd"}}}},
				func(i int) bool { return i%2 == 1 && (items(i) == "-1" || items(i) == "7") },
			},
			"a range":       {store.ListQuery{Ranges: []store.Range{{Field: "items", From: 4, Until: 6}}}, func(i int) bool { return i%10 >= 6 && i%10 <= 8 }},
			"two ranges":    {store.ListQuery{Ranges: []store.Range{{Field: "items", From: -5, Until: 5}, {Field: "items", From: 5, Until: 9}}}, func(i int) bool { return items(i) == "5" }},
			"range and ids": {store.ListQuery{IDs: []string{"i-006", "i-007", "i-001"}, Ranges: []store.Range{{Field: "items", From: 4, Until: 4}}}, func(i int) bool { return i == 6 }},
		} {
			for _, limit := range []int{2, 50} { // with few rows a walk through the status is cheaper
				q := c.q
				q.Statuses, q.Limit = record.Statuses(), limit
				var want []string
				for i := n - 1; i >= 0; i-- {
					if c.pass(i) {
						want = append(want, fmt.Sprintf("i-%03d", i))
					}
				}
				if got := b.pages([]int{part}, q); !slices.Equal(got, want) {
					b.Errorf("%s, limit %d: %v\nwant %v", name, limit, got, want)
				}
				tally, err := b.st.Tally(b.ctx(), part, &store.TallyQuery{ListQuery: q})
				b.must(err)
				if tally.Count != uint64(len(want)) || tally.More {
					b.Errorf("%s: %+v, want %d", name, tally, len(want))
				}
			}
		}
	}})
}

// A list finds the stalled instances through their set, with the reasons. Everything that ends a stall also updates the set.
func TestStalledInstancesAreInASet(t *testing.T) {
	each(t, map[string]func(b *harness){"": func(b *harness) {
		listed := func(want string) {
			b.Helper()
			page, err := b.st.List(b.ctx(), part, store.ListQuery{Statuses: record.Statuses(), Values: []store.Values{{Field: "stalled", Of: []string{"true"}}}})
			b.must(err)
			var all []string
			for _, row := range page.Rows {
				all = append(all, row.Instance+" "+row.Stalled)
			}
			slices.Sort(all)
			if got := strings.Join(all, ", "); got != want {
				b.Errorf("%q, want %q", got, want)
			}
		}
		reconcile := func(id, head, why string) {
			b.Helper()
			_, err := b.reconcile(record.Reconciliation{Instance: id, Head: head, MaxClaims: 3, Wakeup: b.now() + 60_000, Stalled: why})
			b.must(err)
		}
		b.started("a", "h1")
		b.started("b", "h1")
		listed("")
		reconcile("a", "h1", "no code")
		reconcile("b", "h1", "blocked")
		reconcile("b", "h1", "") // keeps the recorded reason
		listed("a no code, b blocked")
		reconcile("b", "h1", record.NotStalled)
		listed("a no code")
		reconcile("b", "h1", "blocked")
		_, err := b.commit(record.Commit{
			Instance: "b", Head: "h1", NewHead: "h2", From: record.Running, Events: [][]byte{[]byte("second")},
			Record: &record.Record{Name: "n", Execution: 1, Status: record.Running},
		})
		b.must(err)
		listed("a no code")
		w := record.Rewind{
			Instance: "a", Execution: 1, Keep: 1, Head: "h1", NewHead: "h2", From: record.Running, To: record.Running,
			Prepend: [][]byte{eventcodec.Element{ID: "!r2.0", At: 1, Body: []byte("again")}.Encode()},
		}
		_, err = redistest.Answer(func(done func(record.Committed, error)) { b.st.Rewind(b.own, &w, done) })
		b.must(err)
		listed("")
	}})
}
