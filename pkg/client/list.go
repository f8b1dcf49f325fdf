package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/request"
)

// Rows of a page.
const (
	minPage    = 3 // of one partition
	pageSize   = 100
	sharedPage = 200 // of several partitions
)

// ListOptions select instances. The zero value selects all.
type ListOptions struct {
	Where  string // a filter such as `orchestration = "fulfil" and started > -24h`; "": all. docs/http-api.md describes it
	Status Status // "": all
	After  string // only instances after that of this Cursor; "": from the beginning
	Limit  int    // maximum number of rows; 0: no limit
	Oldest bool   // the oldest change of status first

	// MaxEmptyPages bounds the search for rows that pass Where: after so many pages of a partition without one, each of at most
	// 4,000 instances, the list ends with a *PartialListError. 0: no bound.
	MaxEmptyPages int
}

// PartialListError ends a list that has reached ListOptions.MaxEmptyPages.
type PartialListError struct {
	Cursor string // the list continues after it
	Err    error  // wraps ErrNoOwner: partitions that did not answer; nil: all have
}

func (e *PartialListError) Error() string {
	s := "client: few instances pass the filter; the list continues after the cursor " + e.Cursor
	if e.Err != nil {
		s += "; " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *PartialListError) Unwrap() error { return e.Err }

// Cursor is the place of an instance in a listing, for ListOptions.After.
func Cursor(s Summary) string { return request.ListCursor(unixMilli(s.StatusSince), s.Instance) }

// List iterates over the instances of the namespace, the latest change of status first, and reads them page by page. With a Limit of at
// most 200 each orchestrator reads one page of all its partitions; otherwise each partition is requested by itself, all at the same time. If some do not answer (ErrNoOwner), the instances of the others are listed, and the last pair has
// the error: the list is incomplete. A Where that is not valid is the only pair, with an error that names the column.
//
// The orchestrators filter. Equalities of status, orchestration, version, parent, code and attributes, ranges of an attribute, the
// beginning of an id, ended and, in a list of ended instances, updated choose what is read; of a row that another term skips, its orchestrator reads the record.
//
// A listing is not a snapshot: an instance whose status changes meanwhile may be listed twice or not at all.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[Summary, error] {
	where, err := filter.Parse(o.Where, time.Now())
	if err != nil {
		return func(yield func(Summary, error) bool) { yield(Summary{}, fmt.Errorf("client: list: where: %w", err)) }
	}
	if o.Status != "" {
		where = where.Is(filter.Status, string(o.Status))
	}
	text := where.Fixed().String() // times are the same for all partitions and pages
	by := newestFirst
	if o.Oldest {
		by = oldestFirst
	}
	page := func(ctx context.Context, partitions []int, cursor string) (rows []request.Summary, next string, left []int, err error) {
		q := &request.List{Where: text, Limit: o.page(len(partitions), c.partitions()), Cursor: cmp.Or(cursor, o.After), Partitions: several(partitions), Oldest: o.Oldest}
		var r request.InstancePage
		err = c.requestOf(ctx, partitions, q, &r)
		return r.Instances, r.Cursor, r.Left, cmp.Or(err, answered(partitions, r.Several))
	}
	if o.Limit == 0 || o.Limit > sharedPage { // several pages of each: a page of all would read every partition for a part of its rows
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

// Stalled iterates over the stalled instances, as List does, and why they are stalled. Among them are those with an activity that no
// worker has registered, or in a queue without workers: such an instance is found within two reconcile intervals of its
// orchestrator (20 s by default).
func (c *Client) Stalled(ctx context.Context) iter.Seq2[Summary, error] {
	return merged(ctx, newestFirst, func() []*source[request.Summary] {
		return openAll(ctx, c.partitions(), func(ctx context.Context, partition int, cursor string) ([]request.Summary, string, error) {
			var r request.InstancePage
			err := c.requestWithin(ctx, c.opts.OwnerTimeout, partition, &request.Stalled{Cursor: cursor, Limit: pageSize}, &r)
			return r.Instances, r.Cursor, err
		})
	}, c.partitions(), 0)
}

// page is the number of rows of a page of one or several partitions. One has its share of all rows, and may have twice as many.
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

// requestOf makes a request about partitions: if they are several, to the owner of the first, once; about one it is repeated while that has
// no owner.
func (c *Client) requestOf(ctx context.Context, partitions []int, q request.Request, r request.Reply) error {
	if len(partitions) == 1 {
		return c.requestWithin(ctx, c.opts.OwnerTimeout, partitions[0], q, r)
	}
	return c.attempt(ctx, firstAttempt, partitions[0], q, r)
}

// errOlder has the partitions of a request asked one by one: its owner is of a build that does not read which they are.
var errOlder = errors.New("the orchestrator is of an older build")

// answered returns errOlder if a request about several partitions was answered for one.
func answered(partitions []int, several bool) error {
	if len(partitions) > 1 && !several {
		return errOlder
	}
	return nil
}

// several are the partitions that a request names: none if it is about the one that it is sent to.
func several(partitions []int) []int {
	if len(partitions) == 1 {
		return nil
	}
	return partitions
}

// unixMilli is the time in Unix milliseconds; zero is zero.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// merged iterates over the rows of all partitions, in order, at most limit (0: all), and ends with the error of an incomplete list,
// or with that of one that was cut: the rows that a partition has not read yet may belong in front of those at hand.
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

// refilled reads on where a row was taken, if it was the last of its page.
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

// partitions is the number of partitions of a list. It is one without the permission to read it: then the request returns the
// error.
func (c *requester) partitions() int { return max(1, c.conn.Partitions()) }

// first is the source with the next row; nil if none has one.
func (by listOrder) first(sources []*source[request.Summary]) *source[request.Summary] {
	var best *source[request.Summary]
	for _, s := range sources {
		if len(s.rows) > 0 && (best == nil || by.precedes(&s.rows[0], &best.rows[0])) {
			best = s
		}
	}
	return best
}

// firstCut is the first place at which a source was cut, as a row; nil if none was.
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

// listOrder is that of a list and of each partition.
type listOrder int

const (
	newestFirst listOrder = 1 // the latest change first, and of several the highest id
	oldestFirst listOrder = -1
)

func (by listOrder) precedes(x, y *request.Summary) bool {
	return int(by)*cmp.Or(cmp.Compare(x.StatusSince, y.StatusSince), cmp.Compare(x.Instance, y.Instance)) > 0
}
