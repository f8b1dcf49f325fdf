package store_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/store"
)

// Counts match the instances that pass, whether from sets or from records, with known values and others; a count that reached its bound
// is a lower bound, and a count from sets covers all instances although it reads few.
func TestTalliesMatchTheInstances(t *testing.T) {
	each(t, map[string]func(b *harness){"": func(b *harness) {
		const n = 1200
		for i := range n {
			status, version := record.Running, ""
			if i%3 == 0 {
				status = record.Completed
			}
			if i%2 == 0 {
				version = "2"
			}
			_, err := b.commit(record.Commit{
				Instance: fmt.Sprintf("i-%04d", i), NewHead: "head", Events: [][]byte{[]byte("first")},
				Record: &record.Record{Name: fmt.Sprintf("o-%d", i%4), Version: version, Origin: at(1), Execution: 1, Status: status, Created: int64(i), Attributes: fmt.Sprintf(`{"items":%d}`, i%10)},
			})
			b.must(err)
		}
		over := time.Unix(1, 0)
		all := func(string, *record.Record) bool { return true }
		orchestration := func(_ string, rec *record.Record) string { return rec.Name }
		names := map[string]uint64{"o-0": 300, "o-1": 300, "o-2": 300, "o-3": 300}
		one := []store.Values{{Field: "orchestration", Of: []string{"o-1"}}}
		frequent := []store.Values{{Field: "orchestration", Of: []string{"o-0", "o-1", "o-2", "o-3"}}}
		for name, c := range map[string]struct {
			q    store.TallyQuery
			want store.Tally
		}{
			"by status":            {store.TallyQuery{}, store.Tally{Count: n, Groups: map[string]uint64{"running": 800, "completed": 400}}},
			"of a value":           {store.TallyQuery{ListQuery: store.ListQuery{Values: one}}, store.Tally{Count: 300, Groups: map[string]uint64{"running": 200, "completed": 100}}},
			"known values":         {store.TallyQuery{Field: "orchestration", Value: orchestration, Known: []string{"o-0", "o-1", "o-2", "o-3", "o-0", "no"}}, store.Tally{Count: n, Groups: names}},
			"unknown values":       {store.TallyQuery{Field: "orchestration", Value: orchestration, Known: []string{"o-2"}}, store.Tally{Count: n, Groups: names}},
			"of ids":               {store.TallyQuery{ListQuery: store.ListQuery{IDs: []string{"i-0000", "i-0001", "i-9999"}}}, store.Tally{Count: 2, Groups: map[string]uint64{"running": 1, "completed": 1}}},
			"of a prefix":          {store.TallyQuery{ListQuery: store.ListQuery{Prefix: "i-000"}, Field: "orchestration", Value: orchestration}, store.Tally{Count: 10, Groups: map[string]uint64{"o-0": 3, "o-1": 3, "o-2": 2, "o-3": 2}}},
			"of a frequent prefix": {store.TallyQuery{ListQuery: store.ListQuery{Prefix: "i-0"}}, store.Tally{Count: 1000, Groups: map[string]uint64{"running": 666, "completed": 334}}},
			"of two values and a prefix": {
				store.TallyQuery{ListQuery: store.ListQuery{Values: append(one[:1:1], store.Values{Field: "version", Of: []string{"2"}}), Prefix: "i-00"}},
				store.Tally{},
			},
			"of two values": {
				store.TallyQuery{ListQuery: store.ListQuery{Values: append(frequent[:1:1], store.Values{Field: "version", Of: []string{"2"}})}},
				store.Tally{Count: n / 2},
			},
			"of a range and a prefix": { // the set of numbers is not sorted by id
				store.TallyQuery{ListQuery: store.ListQuery{Ranges: []store.Range{{Field: "items", From: 0, Until: 8}}, Values: frequent, Prefix: "i-0"}},
				store.Tally{Count: 900},
			},
			"of numbers and a prefix": {
				store.TallyQuery{ListQuery: store.ListQuery{Values: []store.Values{{Field: "items", Numbers: []int64{0, 1, 2, 3, 4, 5, 6, 7, 8}}}, Prefix: "i-0"}},
				store.Tally{Count: 900},
			},
			"of frequent values by another": {
				store.TallyQuery{ListQuery: store.ListQuery{Values: frequent}, Field: "version", Value: func(_ string, rec *record.Record) string { return rec.Version }},
				store.Tally{Count: n, Other: 200},
			},
			"of a value by another": {
				store.TallyQuery{ListQuery: store.ListQuery{Values: one}, Field: "version", Value: func(_ string, rec *record.Record) string { return rec.Version }},
				store.Tally{Count: 300, Groups: map[string]uint64{"": 300}},
			},
			"deadline exceeded":           {store.TallyQuery{ListQuery: store.ListQuery{Keep: all}, Until: over}, store.Tally{Count: 32, More: true}},
			"deadline exceeded, in a set": {store.TallyQuery{ListQuery: store.ListQuery{Values: one}, Until: over}, store.Tally{Count: 300, Other: 292}},
			"deadline exceeded, of few":   {store.TallyQuery{ListQuery: store.ListQuery{IDs: []string{"i-0000", "i-0001"}}, Until: over}, store.Tally{Count: 2, Groups: map[string]uint64{"running": 1, "completed": 1}}},
			"time is over, in sets":       {store.TallyQuery{ListQuery: store.ListQuery{Values: frequent}, Until: over}, store.Tally{Count: n, Other: n - 32}},
			"time is over, by status":     {store.TallyQuery{Until: over}, store.Tally{Count: n, Groups: map[string]uint64{"running": 800, "completed": 400}}},
			"time is not over":            {store.TallyQuery{ListQuery: store.ListQuery{Keep: all}, Until: time.Now().Add(time.Hour)}, store.Tally{Count: 1000, More: true}},
			"bounded":                     {store.TallyQuery{ListQuery: store.ListQuery{Keep: all}}, store.Tally{Count: 1000, More: true}},
		} {
			c.q.Statuses = record.Statuses()
			got, err := b.st.Tally(b.ctx(), part, &c.q)
			b.must(err)
			if got.Count != c.want.Count || got.More != c.want.More || got.Other != c.want.Other || c.want.Groups != nil && !maps.Equal(got.Groups, c.want.Groups) {
				b.Errorf("%s: %+v\nwant %+v", name, got, c.want)
			}
			q := store.TallyQuery{ListQuery: c.q.ListQuery, Ungrouped: true}
			got, err = b.st.Tally(b.ctx(), part, &q)
			b.must(err)
			if got.Count < c.want.Count || !c.want.More && got.Count != c.want.Count || got.Other != got.Count || got.Groups != nil || got.More != c.want.More && q.Until.Equal(c.q.Until) {
				b.Errorf("%s, ungrouped: %+v\nwant %+v", name, got, c.want)
			}
		}
		q := store.TallyQuery{ListQuery: store.ListQuery{Statuses: record.Statuses()}, Field: "version", Value: func(_ string, rec *record.Record) string { return rec.Version }}
		got, err := b.st.Tally(b.ctx(), part, &q)
		b.must(err)
		if got.Count != n || got.More || got.Groups["2"] != n/2 || got.Groups[""]+got.Other != n/2 || got.Other == 0 {
			b.Errorf("values without a set: %+v", got)
		}
	}})
}
