package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/pawlrun/pawl/pkg/queue"
)

// asksAtOnce is how many partitions are asked at a time.
const asksAtOnce = 256

// A partition is asked for so many rows at a time.
const (
	minPage  = 5
	pageSize = 100
)

// ListOptions select instances. The zero value selects all. The orchestrators filter; every row that they skip costs them
// a read.
type ListOptions struct {
	Status        Status    // "": all
	Orchestration string    // "": all
	Prefix        string    // of the id
	StartedSince  time.Time // zero: any time
	StartedBefore time.Time // zero: any time
	After         string    // only what comes behind the instance of this Cursor; "": from the beginning
	Limit         int       // maximum number of rows; 0: no limit
}

// Cursor is the place of an instance in a listing, for ListOptions.After.
func Cursor(s Summary) string { return queue.ListCursor(unixMilli(s.Updated), s.Instance) }

// List gives the instances of the namespace, the latest change of status first, reading
// on as they are taken. All partitions are asked, at the same time. If some can not
// tell (ErrNoOwner), the others' instances are listed all the same, and the last pair
// has the error: the list is not complete.
//
// A listing is no snapshot: an instance whose status changes meanwhile may be listed
// twice or not at all.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[Summary, error] {
	statuses := []Status{o.Status}
	if o.Status == "" {
		statuses = []Status{Pending, Running, Completed, Failed, Cancelled}
	}
	size := pageSize
	if o.Limit > 0 { // a partition has its share of the rows, and may have twice as many
		size = min(2*o.Limit/c.conn.Partitions()+minPage, o.Limit, pageSize)
	}
	var asks []queue.Ask
	for _, s := range statuses { // within a status an owner answers in order, across them not
		asks = append(asks, queue.Ask{
			Op: queue.OpList, Status: string(s), Limit: size, Cursor: o.After,
			Filter: o.filter(),
		})
	}
	return merged(ctx, c, asks, o.Limit)
}

// Stalled gives the instances that can not go on, and why, as List does. Among them are those with an activity that no worker
// has, or in a queue that no worker reads: such an instance is found within two looks of its orchestrator (20 s by default).
func (c *Client) Stalled(ctx context.Context) iter.Seq2[Summary, error] {
	return merged(ctx, c, []queue.Ask{{Op: queue.OpStuck, Limit: pageSize}}, 0)
}

// Counts are the instances of a namespace by status, and how many of them cannot go on.
type Counts struct {
	Status  map[Status]uint64 // every status
	Stalled uint64
}

// Count counts the instances of the namespace; nothing is scanned. All partitions are asked, at the same time. If some do
// not answer (ErrNoOwner), the error reports it beside the counts of the others. It is no snapshot.
func (c *Client) Count(ctx context.Context) (Counts, error) {
	sum := Counts{Status: map[Status]uint64{Pending: 0, Running: 0, Completed: 0, Failed: 0, Cancelled: 0}}
	sources := openAll(ctx, c, []queue.Ask{{Op: queue.OpCount}}, func(r queue.Reply) []queue.Reply { return []queue.Reply{r} })
	for _, s := range sources {
		for _, r := range s.rows {
			for _, n := range r.Counts {
				sum.Status[Status(n.Status)] += n.Count
			}
			sum.Stalled += r.Stalled
		}
	}
	return sum, missing(sources, c.conn.Partitions())
}

// filter is nil if all instances pass it.
func (o ListOptions) filter() *queue.ListFilter {
	f := queue.ListFilter{Orchestration: o.Orchestration, Prefix: o.Prefix, Since: unixMilli(o.StartedSince), Before: unixMilli(o.StartedBefore)}
	if f == (queue.ListFilter{}) {
		return nil
	}
	return &f
}

// unixMilli is the time in Unix milliseconds; zero is zero.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// source is the rows of one partition and request, read page by page.
type source[T any] struct {
	c         *Client
	partition int
	ask       queue.Ask
	of        func(queue.Reply) []T
	rows      []T
	end       bool
	err       error
}

// fill reads the next page, if there is nothing at hand.
func (s *source[T]) fill(ctx context.Context) {
	for len(s.rows) == 0 && !s.end {
		r, err := s.c.askWithin(ctx, s.c.opts.Patience, s.partition, s.ask)
		if err != nil {
			s.err, s.end = err, true
			return
		}
		s.rows, s.end = s.of(r), r.Cursor == ""
		s.ask.Cursor = r.Cursor
	}
}

// merged gives the rows of all partitions for all the requests, in order, at most
// limit (0: all), and then what is missing.
func merged(ctx context.Context, c *Client, asks []queue.Ask, limit int) iter.Seq2[Summary, error] {
	return func(yield func(Summary, error) bool) {
		sources := openAll(ctx, c, asks, func(r queue.Reply) []queue.Described { return r.Rows })
		for n := 0; limit == 0 || n < limit; n++ {
			s := first(sources)
			if s == nil {
				break
			}
			d := s.rows[0]
			s.rows = s.rows[1:]
			if !yield(summaryOf(&d), nil) {
				return
			}
			s.fill(ctx)
		}
		if err := missing(sources, c.partitions()); err != nil {
			yield(Summary{}, err)
		}
	}
}

// each gives the rows of all partitions for one request, in no order, and then what is missing.
func each[T any](ctx context.Context, c *Client, ask queue.Ask, of func(queue.Reply) []T, yield func(T, error) bool) {
	sources := openAll(ctx, c, []queue.Ask{ask}, of)
	for _, s := range sources {
		for ; len(s.rows) > 0; s.fill(ctx) {
			for _, row := range s.rows {
				if !yield(row, nil) {
					return
				}
			}
			s.rows = nil
		}
	}
	if err := missing(sources, c.partitions()); err != nil {
		var none T
		yield(none, err)
	}
}

// openAll reads the first page of every source, partitions beside one another.
func openAll[T any](ctx context.Context, c *Client, asks []queue.Ask, of func(queue.Reply) []T) []*source[T] {
	sources := make([]*source[T], c.partitions()*len(asks))
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, asksAtOnce)
	for p := range c.partitions() {
		mine := sources[p*len(asks) : (p+1)*len(asks)]
		for i, a := range asks {
			mine[i] = &source[T]{c: c, partition: p, ask: a, of: of}
		}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			for _, s := range mine {
				if s.fill(ctx); s.err != nil { // its neighbours would wait in vain as well
					return
				}
			}
		})
	}
	return sources
}

// partitions is how many partitions a list is of; at least one, for without the permission to know how many there are, its
// request has the error that tells so.
func (c *Client) partitions() int { return max(1, c.conn.Partitions()) }

// missing is the error of a list that lacks partitions; nil if it lacks none. It tells
// on one line why the first of them is missing: with the others it is mostly the same.
func missing[T any](sources []*source[T], of int) error {
	var first *source[T]
	lost := make(map[int]struct{})
	for _, s := range sources {
		if s.err == nil {
			continue
		}
		if first == nil {
			first = s
		}
		lost[s.partition] = struct{}{}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("client: the list is not complete, %d of %d partitions could not tell; partition %d: %w",
		len(lost), of, first.partition, first.err)
}

// first is the source whose next row comes first: the one that changed last, and of
// several the one of the highest id, which is the order of each partition.
func first(sources []*source[queue.Described]) *source[queue.Described] {
	var best *source[queue.Described]
	for _, s := range sources {
		if len(s.rows) == 0 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(s.rows[0].Updated, best.rows[0].Updated), cmp.Compare(s.rows[0].Instance, best.rows[0].Instance)) > 0 {
			best = s
		}
	}
	return best
}
