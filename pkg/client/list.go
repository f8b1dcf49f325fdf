package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/request"
)

// Numbers of rows of a page.
const (
	minPage    = 3   // minimum from one partition
	pageSize   = 100 // maximum from one partition
	sharedPage = 200 // maximum from several partitions
)

// ListOptions select and order instances. The zero value selects all.
type ListOptions struct {
	Where  string // filter such as `orchestration = "fulfil" and started > -24h`; "": all. docs/http-api.md describes the language
	Status Status // "": all
	After  string // list only the instances after the one with this Cursor; "": from the beginning
	Limit  int    // maximum number of rows; 0: no limit
	Oldest bool   // order by the change of status, oldest first; default: latest first

	// MaxEmptyPages bounds the search for rows that pass Where: when a partition has returned this number of consecutive pages without
	// such a row, each of at most 4,000 instances, the list ends with a *PartialListError. 0: no bound.
	MaxEmptyPages int
}

// PartialListError is the error of a list that ended because of ListOptions.MaxEmptyPages.
type PartialListError struct {
	Cursor string // value of ListOptions.After that continues the list
	Err    error  // matches ErrNoOwner: some partitions did not answer; nil: all have
}

// Error names the cursor.
func (e *PartialListError) Error() string {
	s := "client: few instances pass the filter; the list continues after the cursor " + e.Cursor
	if e.Err != nil {
		s += "; " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *PartialListError) Unwrap() error { return e.Err }

// Cursor returns the position of an instance in a listing, for ListOptions.After.
func Cursor(s Summary) string { return request.ListCursor(unixMilli(s.StatusSince), s.Instance) }

// List iterates over the instances of the namespace, ordered by their latest change of status, the latest first, and reads them page by
// page. With a Limit of at most 200, each orchestrator reads one page from all its partitions; otherwise all partitions are requested
// individually and concurrently. If some do not answer, List yields the instances of the others, and the last pair contains an error that
// matches ErrNoOwner: the list is incomplete. If Where is invalid, the only pair contains an error that names the column.
//
// The orchestrators apply the filter. Indexes serve equalities of status, orchestration, version, parent, code and attributes, ranges of
// an attribute, prefixes of an id, ended and, in a list of ended instances, updated. For the other terms an orchestrator reads the record
// of each candidate.
//
// Instances that are stalled before their start are not included; see Stalled.
//
// A listing is not a snapshot: an instance whose status changes during it may be listed twice or not at all.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[Summary, error] {
	where, err := filter.Parse(o.Where, time.Now())
	if err != nil {
		return func(yield func(Summary, error) bool) { yield(Summary{}, fmt.Errorf("client: list: where: %w", err)) }
	}
	if o.Status != "" {
		where = where.Is(filter.Status, string(o.Status))
	}
	text := where.Fixed().String() // the same absolute times for all partitions and pages
	by := newestFirst
	if o.Oldest {
		by = oldestFirst
	}
	page := func(ctx context.Context, partitions []int, cursor string) (rows []request.Summary, next string, left []int, err error) {
		q := &request.List{Where: text, Limit: o.page(len(partitions), c.partitions()), Cursor: cmp.Or(cursor, o.After), Partitions: several(partitions), Oldest: o.Oldest}
		var r request.InstancePage
		err = c.requestOf(ctx, partitions, q, &r)
		return r.Instances, r.Cursor, r.NotOwned, err
	}
	if o.Limit == 0 || o.Limit > sharedPage { // with several pages, a shared page would read each partition for only a part of its rows
		return merged(ctx, by, func() []*source[request.Summary] {
			return opened(ctx, sourcesOf(alone(c.partitions()), page, o.MaxEmptyPages))
		}, c.partitions(), o.Limit)
	}
	return merged(ctx, by, func() []*source[request.Summary] {
		all := opened(ctx, sourcesOf(c.groups.of(c.partitions()), page, o.MaxEmptyPages))
		keepGroups(&c.groups, all)
		return all
	}, c.partitions(), o.Limit)
}

// Stalled iterates over the stalled instances, in the order and with the errors of List; Summary.Stalled is the reason. It includes
// instances with an activity that no worker has registered or whose queue has no workers. Such an instance is found within two reconcile
// intervals of its orchestrator (20 s by default).
func (c *Client) Stalled(ctx context.Context) iter.Seq2[Summary, error] {
	return merged(ctx, newestFirst, func() []*source[request.Summary] {
		return openAll(ctx, c.partitions(), func(ctx context.Context, partition int, cursor string) ([]request.Summary, string, error) {
			var r request.InstancePage
			err := c.requestWithin(ctx, c.opts.OwnerTimeout, partition, &request.Stalled{Cursor: cursor, Limit: pageSize}, &r)
			return r.Instances, r.Cursor, err
		})
	}, c.partitions(), 0)
}

// page returns the number of rows to request from `partitions` of `of` partitions. From a single partition it is twice its share of
// all rows.
func (o *ListOptions) page(partitions, of int) int {
	switch {
	case o.Limit == 0:
		return pageSize
	case partitions == 1:
		return min(2*o.Limit/of+minPage, o.Limit, pageSize)
	default:
		return o.Limit
	}
}

// requestOf sends a request about partitions that one process owned. A request about several is sent to the owner of the first, once; a
// request about one is repeated while it has no owner.
func (c *Client) requestOf(ctx context.Context, partitions []int, q request.Request, r request.Reply) error {
	if len(partitions) == 1 {
		return c.requestWithin(ctx, c.opts.OwnerTimeout, partitions[0], q, r)
	}
	return c.attempt(ctx, firstAttempt, partitions[0], q, r)
}

// several returns the partitions to list in a request: none if it is about the one that it is sent to.
func several(partitions []int) []int {
	if len(partitions) == 1 {
		return nil
	}
	return partitions
}

// unixMilli converts a time to Unix milliseconds; the zero time is 0.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// merged iterates over the rows of all sources, in order, at most limit (0: all). If partitions did not answer, it ends with the error of
// an incomplete list. It ends with a *PartialListError at the first row that must not be returned before the unread rows of a source that
// was cut.
func merged(ctx context.Context, by listOrder, open func() []*source[request.Summary], partitions, limit int) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		sources := open()
		for n := 0; limit == 0 || n < limit; n++ {
			s, at := by.first(sources), by.firstCut(sources)
			if at != nil && (s == nil || by.precedes(at, &s.rows[0])) {
				yield(Summary{}, &PartialListError{Cursor: request.ListCursor(at.StatusSince, at.Instance), Err: missing(sources, partitions)})
				return
			}
			if s == nil {
				break
			}
			row := s.rows[0]
			s.rows = s.rows[1:]
			if !yield(summaryOf(&row), nil) {
				return
			}
			if n+1 != limit {
				sources = refilled(ctx, sources, s)
			}
		}
		if err := missing(sources, partitions); err != nil {
			yield(Summary{}, err)
		}
	}
}

// refilled reads the next page of a source if its last row has been taken.
func refilled(ctx context.Context, sources []*source[request.Summary], s *source[request.Summary]) []*source[request.Summary] {
	if len(s.partitions) == 1 {
		s.fill(ctx)
		return sources
	}
	each := s.divide()
	if len(s.partitions) == 0 {
		sources = append(slices.DeleteFunc(sources, func(x *source[request.Summary]) bool { return x == s }), opened(ctx, each)...)
	}
	return sources
}

// partitions returns the number of partitions of a listing. Without the permission to read it, it is one, and the request returns the
// error.
func (c *requester) partitions() int { return max(1, c.conn.Partitions()) }

// first returns the source with the next row, or nil if there are no more rows.
func (by listOrder) first(sources []*source[request.Summary]) *source[request.Summary] {
	var best *source[request.Summary]
	for _, s := range sources {
		if len(s.rows) > 0 && (best == nil || by.precedes(&s.rows[0], &best.rows[0])) {
			best = s
		}
	}
	return best
}

// firstCut returns the first position at which a source was cut, as a row, or nil if none was.
func (by listOrder) firstCut(sources []*source[request.Summary]) *request.Summary {
	var best *request.Summary
	for _, s := range sources {
		if !s.cut {
			continue
		}
		since, id, err := request.ParseListCursor(s.cursor)
		if at := (&request.Summary{StatusSince: since, Instance: id}); err == nil && (best == nil || by.precedes(at, best)) {
			best = at
		}
	}
	return best
}

// listOrder is the order of a listing.
type listOrder int

const (
	newestFirst listOrder = 1 // the latest change first, then the greatest id
	oldestFirst listOrder = -1
)

func (by listOrder) precedes(x, y *request.Summary) bool {
	return int(by)*cmp.Or(cmp.Compare(x.StatusSince, y.StatusSince), cmp.Compare(x.Instance, y.Instance)) > 0
}
