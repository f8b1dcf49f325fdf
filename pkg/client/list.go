package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/filter"
	"github.com/pawlrun/pawl/internal/request"
)

// parallelRequests is the maximum of partitions that are requested at a time.
const parallelRequests = 256

// Rows of a page of one partition.
const (
	minPage  = 3
	pageSize = 100
)

// ListOptions select instances. The zero value selects all.
type ListOptions struct {
	Where  string // a filter such as `orchestration = "fulfil" and started > -24h`; "": all. docs/http-api.md describes it
	Status Status // "": all
	After  string // only instances after that of this Cursor; "": from the beginning
	Limit  int    // maximum number of rows; 0: no limit

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

// List iterates over the instances of the namespace, the latest change of status first, and reads them page by page. All partitions
// are requested at the same time. If some do not answer (ErrNoOwner), the instances of the others are listed, and the last pair has
// the error: the list is incomplete. A Where that is not valid is the only pair, with an error that names the column.
//
// The orchestrators filter. Equalities of status, orchestration, version, parent and code, the beginning of an id, ended and, in a
// list of ended instances, updated choose what is read; of a row that another term skips, its orchestrator reads the record.
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
	size := pageSize
	if o.Limit > 0 { // a partition has its share of the rows, and may have twice as many
		size = min(2*o.Limit/c.partitions()+minPage, o.Limit, pageSize)
	}
	text := where.Fixed().String() // times are the same for all partitions and pages
	return merged(ctx, c.partitions(), func(ctx context.Context, partition int, cursor string) ([]request.Summary, string, error) {
		if cursor == "" {
			cursor = o.After
		}
		return c.instances(ctx, partition, &request.List{Where: text, Limit: size, Cursor: cursor})
	}, o.Limit, o.MaxEmptyPages)
}

// Stalled iterates over the stalled instances, as List does, and why they are stalled. Among them are those with an activity that no
// worker has registered, or in a queue without workers: such an instance is found within two reconcile intervals of its
// orchestrator (20 s by default).
func (c *Client) Stalled(ctx context.Context) iter.Seq2[Summary, error] {
	return merged(ctx, c.partitions(), func(ctx context.Context, partition int, cursor string) ([]request.Summary, string, error) {
		return c.instances(ctx, partition, &request.Stalled{Cursor: cursor, Limit: pageSize})
	}, 0, 0)
}

func (c *Client) instances(ctx context.Context, partition int, q request.Request) ([]request.Summary, string, error) {
	var r request.InstancePage
	err := c.requestWithin(ctx, c.opts.OwnerTimeout, partition, q, &r)
	return r.Instances, r.Cursor, err
}

// unixMilli is the time in Unix milliseconds; zero is zero.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// pageFunc reads a page of a partition, and the cursor of the next; empty: it is the last.
type pageFunc[T any] func(ctx context.Context, partition int, cursor string) (rows []T, next string, err error)

// source is the rows of one partition and request, read page by page.
type source[T any] struct {
	partition int
	page      pageFunc[T]
	maxEmpty  int // pages without a row, one after the other; 0: no maximum
	rows      []T
	cursor    string
	end       bool
	cut       bool // maxEmpty is reached
	err       error
}

// fill reads the next page if no rows are left.
func (s *source[T]) fill(ctx context.Context) {
	for empty := 0; len(s.rows) == 0 && !s.end; empty++ {
		if s.cut = s.maxEmpty > 0 && empty == s.maxEmpty; s.cut {
			return
		}
		rows, next, err := s.page(ctx, s.partition, s.cursor)
		if err != nil {
			s.err, s.end = err, true
			return
		}
		s.rows, s.cursor, s.end = rows, next, next == ""
	}
}

// merged iterates over the rows of all partitions, in order, at most limit (0: all), and ends with the error of an incomplete list,
// or with that of one that was cut: the rows that a partition has not read yet may belong in front of those at hand.
func merged(ctx context.Context, partitions int, page pageFunc[request.Summary], limit, maxEmpty int) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		sources := openAll(ctx, partitions, page, maxEmpty)
		for n := 0; limit == 0 || n < limit; n++ {
			s, at := first(sources), firstCut(sources)
			if at != nil && (s == nil || precedes(at, &s.rows[0])) {
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
			s.fill(ctx)
		}
		if err := missing(sources, partitions); err != nil {
			yield(Summary{}, err)
		}
	}
}

// openAll reads the first page of every partition, in parallel.
func openAll[T any](ctx context.Context, partitions int, page pageFunc[T], maxEmpty int) []*source[T] {
	sources := make([]*source[T], partitions)
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, parallelRequests)
	for p := range partitions {
		sources[p] = &source[T]{partition: p, page: page, maxEmpty: maxEmpty}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			sources[p].fill(ctx)
		})
	}
	return sources
}

// partitions is the number of partitions of a list. It is one without the permission to read it: then the request returns the
// error.
func (c *requester) partitions() int { return max(1, c.conn.Partitions()) }

// missing is the error of a list without some of the partitions, with the cause of the first; nil if none is missing.
func missing[T any](sources []*source[T], of int) error {
	var first *source[T]
	lost := 0
	for _, s := range sources {
		if s.err == nil {
			continue
		}
		if lost++; first == nil {
			first = s
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("client: list incomplete, %d of %d partitions did not answer; partition %d: %w", lost, of, first.partition, first.err)
}

// first is the source with the next row; nil if none has one.
func first(sources []*source[request.Summary]) *source[request.Summary] {
	var best *source[request.Summary]
	for _, s := range sources {
		if len(s.rows) > 0 && (best == nil || precedes(&s.rows[0], &best.rows[0])) {
			best = s
		}
	}
	return best
}

// firstCut is the first place at which a source was cut, as a row; nil if none was.
func firstCut(sources []*source[request.Summary]) *request.Summary {
	var best *request.Summary
	for _, s := range sources {
		if !s.cut {
			continue
		}
		since, id, err := request.ParseListCursor(s.cursor)
		if at := (&request.Summary{StatusSince: since, Instance: id}); err == nil && (best == nil || precedes(at, best)) {
			best = at
		}
	}
	return best
}

// precedes is the order of a list and of each partition: the latest change first, and of several the highest id.
func precedes(x, y *request.Summary) bool {
	return cmp.Or(cmp.Compare(x.StatusSince, y.StatusSince), cmp.Compare(x.Instance, y.Instance)) > 0
}
