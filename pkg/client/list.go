package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/pawlrun/pawl/pkg/queue"
)

// asksAtOnce is how many partitions are asked at a time.
const asksAtOnce = 32

// pageSize is how many rows of a partition are asked for at a time.
const pageSize = 100

// ListOptions say what is listed. The zero value is everything.
type ListOptions struct {
	Status Status // "": all
	Limit  int    // at most so many; 0: no limit
}

// List gives the instances of the namespace, the latest change of status first, reading
// on as they are taken. All partitions are asked, at the same time. If some can not
// tell (ErrNoOwner), the others' instances are listed all the same, and the last pair
// has the error: the list is not complete.
//
// A listing is no snapshot: an instance whose status changes meanwhile may be listed
// twice or not at all.
func List(ctx context.Context, c *Client, o ListOptions) iter.Seq2[Description, error] {
	statuses := []Status{o.Status}
	if o.Status == "" {
		statuses = []Status{Running, Completed, Failed, Cancelled}
	}
	var sources []*source
	for p := range c.conn.Partitions() {
		for _, s := range statuses { // within a status an owner answers in order, across them not
			sources = append(sources, &source{c: c, partition: p, ask: queue.Ask{Op: queue.OpList, Status: string(s), Limit: page(o.Limit)}})
		}
	}
	return limited(merge(ctx, sources), o.Limit)
}

// Stuck gives the instances that can not go on, and why, as List does.
func Stuck(ctx context.Context, c *Client) iter.Seq2[Description, error] {
	var sources []*source
	for p := range c.conn.Partitions() {
		sources = append(sources, &source{c: c, partition: p, ask: queue.Ask{Op: queue.OpStuck, Limit: pageSize}})
	}
	return merge(ctx, sources)
}

func page(limit int) int {
	if limit <= 0 {
		return pageSize
	}
	return min(limit, pageSize)
}

func limited(seq iter.Seq2[Description, error], limit int) iter.Seq2[Description, error] {
	if limit <= 0 {
		return seq
	}
	return func(yield func(Description, error) bool) {
		n := 0
		for d, err := range seq {
			if n++; n > limit && err == nil { // what is missing is told also behind the limit
				return
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// source is the rows of one partition and status, read page by page.
type source struct {
	c         *Client
	partition int
	ask       queue.Ask
	rows      []Description
	end       bool
	err       error
}

// fill reads the next page, if there is nothing at hand.
func (s *source) fill(ctx context.Context) {
	for len(s.rows) == 0 && !s.end {
		r, err := s.c.ask(ctx, s.partition, s.ask)
		if err != nil {
			s.err, s.end = fmt.Errorf("client: partition %d: %w", s.partition, err), true
			return
		}
		s.rows, s.end = r.Rows, r.Cursor == ""
		s.ask.Cursor = r.Cursor
	}
}

// merge gives the rows of all sources in order.
func merge(ctx context.Context, sources []*source) iter.Seq2[Description, error] {
	return func(yield func(Description, error) bool) {
		fillAll(ctx, sources)
		for {
			s := first(sources)
			if s == nil {
				break
			}
			d := s.rows[0]
			s.rows = s.rows[1:]
			if !yield(d, nil) {
				return
			}
			s.fill(ctx)
		}
		var missing []error
		told := make(map[int]bool)
		for _, s := range sources {
			if s.err != nil && !told[s.partition] {
				missing = append(missing, s.err)
				told[s.partition] = true
			}
		}
		if len(missing) > 0 {
			yield(Description{}, fmt.Errorf("client: the list is not complete, %d of %d partitions are missing: %w",
				len(missing), sources[0].c.conn.Partitions(), errors.Join(missing[:min(len(missing), 3)]...)))
		}
	}
}

func fillAll(ctx context.Context, sources []*source) {
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, asksAtOnce)
	for _, s := range sources {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			s.fill(ctx)
		})
	}
}

// first is the source whose next row comes first: the one that changed last, and of
// several the one of the lowest id.
func first(sources []*source) *source {
	var best *source
	for _, s := range sources {
		if len(s.rows) == 0 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(s.rows[0].Updated, best.rows[0].Updated), cmp.Compare(best.rows[0].Instance, s.rows[0].Instance)) > 0 {
			best = s
		}
	}
	return best
}
