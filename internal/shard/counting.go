package shard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// count answers how many instances of the partition pass a filter, by the values of a field.
func (qs *queries) count(ctx context.Context, q *request.Count) (request.Reply, error) {
	where, err := filter.Parse(q.Where, time.Now())
	by, bad := filter.Grouping(q.By)
	if err = errors.Join(err, bad); err == nil && len(q.Since) > request.MaxSince {
		err = fmt.Errorf("%d times to count from; at most %d", len(q.Since), request.MaxSince)
	}
	if err != nil {
		return nil, &request.Problem{Code: request.ProblemBadRequest, Message: err.Error()}
	}
	if len(where) == 0 && by == filter.Status {
		return qs.countAll(ctx, q.Since)
	}
	tally := store.TallyQuery{ListQuery: listQuery(where)}
	if by != filter.Status {
		tally.Field, tally.Known = string(by), qs.likely(by)
		tally.Value = func(id string, rec *store.Record) string { return rec.Row(id).Value(by) }
	}
	t, err := qs.store.Tally(ctx, qs.st.Part, &tally)
	if err != nil {
		return nil, err
	}
	r := &request.Counts{Other: t.Other, More: t.More}
	for _, v := range slices.Sorted(maps.Keys(t.Groups)) {
		r.Groups = append(r.Groups, request.Group{Value: v, Count: t.Groups[v]})
	}
	return r, nil
}

// likely are values of a field that instances are likely to have.
func (qs *queries) likely(by filter.Field) (values []string) {
	names := qs.cfg.Programs.Orchestrations()
	switch {
	case by.Attribute():
		return []string{"true", "false"}
	case by == filter.Orchestration:
		return names
	case by == filter.Version:
		for _, name := range names {
			values = append(values, qs.cfg.Programs.Versions(name)...)
		}
	}
	return values
}

// countAll answers how many instances of each status the partition has, how many of them have ended since some times, and how many
// are stalled, without reading them.
func (qs *queries) countAll(ctx context.Context, since []int64) (request.Reply, error) {
	r := new(request.Counts)
	for _, s := range record.Statuses() {
		n, err := qs.store.Count(ctx, qs.st.Part, s)
		if err != nil {
			return nil, err
		}
		group := request.Group{Value: string(s), Count: n}
		for _, at := range since {
			if !s.Ended() {
				break
			}
			if n, err = qs.store.CountSince(ctx, qs.st.Part, s, at); err != nil {
				return nil, err
			}
			group.Since = append(group.Since, n)
		}
		r.Groups = append(r.Groups, group)
	}
	var err error
	if r.Stalled, err = qs.store.StalledCount(ctx, qs.st.Part); err != nil {
		return nil, err
	}
	lacking := slices.Collect(maps.Keys(qs.unserved.list()))
	both, err := qs.store.StalledReasons(ctx, qs.st.Part, lacking)
	r.Stalled += uint64(len(lacking) - len(both)) //nolint:gosec // those of lacking that the store lists, too
	return r, err
}
