package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/internal/transport"
)

func (qs *queries) list(ctx context.Context, q *request.List) (request.Reply, error) {
	updated, instance, err := request.ParseListCursor(q.Cursor)
	where, bad := filter.Parse(q.Where, time.Now())
	if err = errors.Join(err, bad); err != nil {
		return nil, &request.Problem{Code: request.ProblemBadRequest, Message: err.Error()}
	}
	query := listQuery(where)
	query.Updated, query.Instance, query.Limit, query.Oldest = updated, instance, q.Limit, q.Oldest
	own, left, err := among(qs, q.Partitions)
	if err != nil {
		return nil, err
	}
	parts := make([]int, len(own))
	for i, s := range own {
		parts[i] = s.shell.st.Part
	}
	page, err := qs.process.store.ListAll(ctx, parts, query)
	if err != nil {
		return nil, err
	}
	r := &request.InstancePage{Cursor: nextCursor(page), NotOwned: left}
	for _, row := range page.Rows {
		sum := summary(row.Instance, row.Record, row.Stalled)
		sum.Stalled = text.Shorten(sum.Stalled, maxError)
		if row.Record == nil {
			sum.Status, sum.Updated, sum.Stalled = string(row.Status), row.Updated, "unreadable: "+row.Problem
		}
		sum.StatusSince = row.Updated
		r.Instances = append(r.Instances, sum)
	}
	return r, nil
}

// among returns the partitions of a request that this process owns, and those that it does not own. A request without partitions is about
// the one that receives it. A list over all partitions is one request per process, because a request costs more than reading a partition.
func among(qs *queries, partitions []int) (own []*queries, left []int, _ error) {
	if len(partitions) == 0 {
		return []*queries{qs}, nil, nil
	}
	if len(partitions) > transport.MaxPartitions {
		return nil, nil, &request.Problem{Code: request.ProblemBadRequest, Message: fmt.Sprintf("%d partitions", len(partitions))}
	}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(partitions))) {
		if s := qs.process.shards.at(p); s != nil && s.shell.ctx.Err() == nil {
			own = append(own, &s.queries)
		} else {
			left = append(left, p)
		}
	}
	if len(own) == 0 {
		return nil, nil, &request.Problem{Code: request.ProblemNotOwner, Message: fmt.Sprintf("partition %d is being handed over", qs.shell.st.Part)}
	}
	return own, left, nil
}

func nextCursor(page store.Page) string {
	if !page.More {
		return ""
	}
	return request.ListCursor(page.Updated, page.Instance)
}

// List reads instances of any partition, owned by this process or not: see builtin.Instances. It takes at most half of the turn limit.
func (s *Process) List(partition int, where filter.Where, cursor string, limit int) (rows []builtin.Listed, next string, err error) {
	query := listQuery(where)
	query.Limit = limit
	if query.Updated, query.Instance, err = request.ParseListCursor(cursor); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.TurnLimit/2)
	defer cancel()
	page, err := s.store.List(ctx, partition, query)
	if err != nil {
		return nil, "", err
	}
	for _, row := range page.Rows {
		rows = append(rows, builtin.Listed{Instance: row.Instance, Since: row.Updated, Problem: row.Record == nil})
	}
	return rows, nextCursor(page), nil
}

// listQuery converts a filter to a query of the store. Terms that the sets of the store cannot decide exactly are compared with the records.
func listQuery(where filter.Where) store.ListQuery {
	q := store.ListQuery{Span: func(s record.Status) (from, until int64) {
		span := where.StatusSince(s.Ended())
		return span.From, span.Until
	}}
	for _, s := range record.Statuses() {
		if where.Has(string(s), s.Ended()) && (s == record.Failed || !ofFailures(where)) {
			q.Statuses = append(q.Statuses, s)
		}
	}
	q.IDs, _ = where.Exactly(filter.ID)
	compared := false
	for _, t := range where {
		switch {
		case t.Field == filter.Status, t.Field == filter.ID && t.Op == filter.Equal, t.Field == filter.ID && t.Op == filter.In:
		case t.Field == filter.ID && t.Op == filter.Starts && len(t.Texts[0]) > len(q.Prefix):
			q.Prefix = t.Texts[0]
		case t.Field.Attribute() && ranged(&t, &q, &compared):
		case hasSets(&t) && len(t.Texts) <= store.MaxSets:
			q.Values = append(q.Values, valuesOf(&t))
		default:
			compared = compared || t.Field != filter.ID
		}
	}
	if ids := where.On(filter.ID); ids != nil {
		q.Pick = func(id string) bool { return ids.Match(&filter.Row{ID: id}) }
	}
	if compared {
		q.Keep = func(id string, rec *record.Record) bool { return where.Match(rec.Row(id)) }
	}
	return q
}

// ranged adds a comparison of an attribute to the query, and reports whether t is one. If the bound is too large for the scores of a sorted set
// to be exact, the records are compared as well.
func ranged(t *filter.Term, q *store.ListQuery, compared *bool) bool {
	from, until, ok := t.Range()
	if ok {
		q.Ranges = append(q.Ranges, store.Range{Field: string(t.Field), From: from, Until: until})
		*compared = *compared || !exact(t.At)
	}
	return ok
}

func exact(n int64) bool { return -store.MaxExact < n && n < store.MaxExact }

// ofFailures reports whether only failed instances can pass: other instances have no failure code.
func ofFailures(where filter.Where) bool {
	return slices.ContainsFunc(where, func(t filter.Term) bool {
		return t.Field == filter.Code && (t.Op == filter.Equal || t.Op == filter.In) && !slices.Contains(t.Texts, "")
	})
}

// hasSets reports whether the store has sets for all values of a term.
func hasSets(t *filter.Term) bool {
	switch t.Field {
	case filter.Orchestration, filter.Version, filter.Parent, filter.Code, filter.Unanswered, filter.Stalled:
	default:
		if !t.Field.Attribute() {
			return false
		}
	}
	return (t.Op == filter.Equal || t.Op == filter.In) && !slices.ContainsFunc(t.Texts, func(v string) bool {
		n, isNumber := filter.Number(v)
		return !record.Indexed(v) || t.Field.Attribute() && isNumber && !exact(n)
	})
}

// valuesOf returns the values of a term with sets. A value of an attribute that has the form of a number or a time also stands for that number.
func valuesOf(t *filter.Term) store.Values {
	v := store.Values{Field: string(t.Field), Of: slices.Compact(slices.Sorted(slices.Values(t.Texts)))}
	if t.Field.Attribute() {
		for _, text := range v.Of {
			if n, ok := filter.Number(text); ok && !slices.Contains(v.Numbers, n) {
				v.Numbers = append(v.Numbers, n)
			}
		}
	}
	return v
}
