package orchestrator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/attribute"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
)

// Each orchestrator reads a page of all partitions for those that it owns. The page contains the same rows as pages of single partitions, and
// the rows pass the filter. Counts agree as well.
func TestPageOfTwoOrchestratorsHasTheRowsOfAllPartitions(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	o := pawl.NewOrchestration[int, int]("listed")
	tenant, items, due := pawl.NewAttribute[string]("tenant"), pawl.NewAttribute[int]("items"), pawl.NewAttribute[time.Time]("due")
	fails := pawl.NewError("listed.fails")
	does := o.Do(func(_ *pawl.Context, n int) (int, error) {
		if n%4 == 0 {
			return 0, fails
		}
		return n, nil
	})
	s.orchestrate(orchestrator.Config{Member: "first"}, does)
	s.orchestrate(orchestrator.Config{Member: "second"}, does)
	c := s.client()
	s.until("each has partitions", func() bool {
		all, err := c.Partitions(s.ctx())
		owners := map[string]bool{}
		for _, p := range all {
			owners[p.Owner] = true
		}
		return err == nil && owners["first"] && owners["second"] && !owners[""]
	})
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	const n = 60
	for i := range n {
		opts := []client.StartOption{client.With(tenant.Is(fmt.Sprint(i % 3))), client.With(items.Is(i % 7)), client.With(due.Is(at.Add(time.Duration(i%5) * time.Hour)))}
		run, err := client.Start(s.ctx(), c, o, fmt.Sprintf("l-%02d", i), i, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(s.ctx()); (err != nil) != (i%4 == 0) {
			t.Fatal(i, err)
		}
	}
	for _, text := range []string{
		"", "status = failed", "tenant = 2", "items = 3", "items in (1, 2, x)", "items > 4", "items >= 4 and items < 6 and tenant = 1", "items = 9007199254740993",
		"due = 2026-11-22T10:00:00Z", "due > 2026-11-22T10:00:00Z and status = completed", "id starts l-1 and items <= 3", "code = listed.fails and items != 3", "tenant starts 2",
	} {
		where, err := filter.Parse(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		rows := func(o client.ListOptions) (ids []string) {
			o.Where = text
			for row, err := range c.List(s.ctx(), o) {
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				if !where.Match(rowOf(t, row)) {
					t.Errorf("%s: %+v", text, row)
				}
				ids = append(ids, row.Instance)
			}
			return ids
		}
		all := rows(client.ListOptions{})
		for _, limit := range []int{1, 10, 150} {
			if got := rows(client.ListOptions{Limit: limit}); !slices.Equal(got, all[:min(limit, len(all))]) {
				t.Errorf("%s: the first %d are %v, of %v", text, limit, got, all)
			}
		}
		for _, by := range []string{"", "status", "orchestration"} {
			got, err := c.Count(s.ctx(), client.CountOptions{Where: text, By: by})
			if err != nil || got.Count != uint64(len(all)) || got.AtLeast || by == "" && (got.Groups != nil || got.Other != 0) {
				t.Errorf("%s, by %q: %+v, %v, of %d", text, by, got, err, len(all))
			}
		}
		if want := map[string]int{"": n, "tenant = 2": 20, "items = 3": 9, "items > 4": 16, "due = 2026-11-22T10:00:00Z": 12}[text]; want > 0 && len(all) != want {
			t.Errorf("%s: %d, want %d", text, len(all), want)
		}
	}
}

// rowOf returns the row that a filter compares.
func rowOf(t *testing.T, s client.Summary) *filter.Row {
	t.Helper()
	r := &filter.Row{ID: s.Instance, Status: string(s.Status), Orchestration: s.Orchestration, Code: s.Code, Attributes: map[string]filter.Value{}}
	attributes, err := attribute.Parse(s.Attributes)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attributes {
		number, ok := a.Number()
		r.Attributes[a.Name] = filter.Value{Text: a.Value, Number: number, Numeric: ok}
	}
	return r
}
