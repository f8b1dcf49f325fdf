package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
)

const maxWithin = 60_000 // of Count.Within, in milliseconds; the number of records read is bounded as well

// count counts the instances of partitions that pass a filter, grouped by the values of a field.
func (qs *queries) count(ctx context.Context, q *request.Count) (request.Reply, error) {
	where, err := filter.Parse(q.Where, time.Now())
	by, bad := filter.Grouping(q.By)
	if err = errors.Join(err, bad); err == nil && len(q.Since) > request.MaxSince {
		err = fmt.Errorf("%d times to count from; at most %d", len(q.Since), request.MaxSince)
	}
	if err != nil {
		return nil, &request.Problem{Code: request.ProblemBadRequest, Message: err.Error()}
	}
	own, left, err := among(qs, q.Partitions)
	if err != nil {
		return nil, err
	}
	var until time.Time
	if ms := min(q.Within, maxWithin); ms > 0 {
		until = time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	counts := make([]request.Counts, len(own))
	g, counting := errgroup.WithContext(ctx)
	for i, s := range own {
		g.Go(func() (err error) {
			if len(where) == 0 && by == filter.Status {
				counts[i], err = s.countAll(counting, q.Since)
			} else {
				counts[i], err = s.countSome(counting, where, by, until)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return summed(counts, left), nil
}

// summed adds the counts of partitions.
func summed(all []request.Counts, left []int) *request.Counts {
	sum := &request.Counts{NotOwned: left}
	groups := make(map[string]*request.Group)
	for i := range all {
		for _, g := range all[i].Groups {
			to := groups[g.Value]
			if to == nil {
				to = &request.Group{Value: g.Value, Since: make([]uint64, len(g.Since))}
				groups[g.Value] = to
			}
			to.Count += g.Count
			for k, n := range g.Since {
				to.Since[k] += n
			}
		}
		sum.Other += all[i].Other
		sum.Stalled += all[i].Stalled
		sum.More = sum.More || all[i].More
	}
	for _, v := range slices.Sorted(maps.Keys(groups)) {
		sum.Groups = append(sum.Groups, *groups[v])
	}
	return sum
}

// countSome counts the instances of the partition that pass a filter, until the given time.
func (qs *queries) countSome(ctx context.Context, where filter.Where, by filter.Field, until time.Time) (r request.Counts, _ error) {
	tally := store.TallyQuery{ListQuery: listQuery(where), Until: until}
	switch by {
	case filter.Status:
	case "":
		tally.Ungrouped = true
	default:
		tally.Field, tally.Known = string(by), likely(qs.process.cfg.Programs, by)
		tally.Value = func(id string, rec *record.Record) string { return rec.Row(id).Value(by) }
	}
	t, err := qs.process.store.Tally(ctx, qs.shell.st.Part, &tally)
	if err != nil {
		return r, err
	}
	r.Other, r.More = t.Other, t.More
	for v, n := range t.Groups {
		r.Groups = append(r.Groups, request.Group{Value: v, Count: n})
	}
	return r, nil
}

// likely returns values of a field that instances are likely to have.
func likely(programs *author.Registry, by filter.Field) (values []string) {
	names := programs.Orchestrations()
	switch {
	case by.Attribute():
		return []string{"true", "false"}
	case by == filter.Orchestration:
		return names
	case by == filter.Version:
		for _, name := range names {
			values = append(values, programs.Versions(name)...)
		}
	}
	return values
}

// countAll counts, without reading records, the instances of the partition by status, those that ended since each of the given times,
// and those that are stalled.
func (qs *queries) countAll(ctx context.Context, since []int64) (r request.Counts, _ error) {
	n, err := qs.process.store.Sizes(ctx, qs.shell.st.Part, since)
	if err != nil {
		return r, err
	}
	for _, status := range record.Statuses() {
		r.Groups = append(r.Groups, request.Group{Value: string(status), Count: n.Status[status], Since: n.Since[status]})
	}
	lacking := slices.Collect(maps.Keys(qs.shell.unserved.list()))
	both, err := qs.process.store.StalledReasons(ctx, qs.shell.st.Part, lacking)
	r.Stalled = n.Stalled + uint64(len(lacking)-len(both)) //nolint:gosec // both is a subset of lacking
	return r, err
}
