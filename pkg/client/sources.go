package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// parallelRequests is the maximum of requests at a time.
const parallelRequests = 256

// pageFunc reads a page of partitions, all of which the process that is asked may own, and the cursor of the next; empty: it is the last.
// Left are those of several partitions that it does not own.
type pageFunc[T any] func(ctx context.Context, partitions []int, cursor string) (rows []T, next string, left []int, err error)

// byPartition is a pageFunc of one partition at a time.
func byPartition[T any](page func(ctx context.Context, partition int, cursor string) ([]T, string, error)) pageFunc[T] {
	return func(ctx context.Context, partitions []int, cursor string) ([]T, string, []int, error) {
		rows, next, err := page(ctx, partitions[0], cursor)
		return rows, next, nil, err
	}
}

// source is the rows of one request, read page by page. Of several partitions it has one page.
//
//	all partitions ──▶ page of those of one process ──rows are left──▶ taken
//	      ▲               │ left over       │ no row, or no reply
//	      └───────────────┘                 ▼
//	                          one source for each partition, whose owner is waited for
//
// So a list whose first page has enough rows makes one request to each process.
type source[T any] struct {
	partitions []int
	page       pageFunc[T]
	maxEmpty   int // pages without a row, one after the other; 0: no maximum
	empty      int // so far
	rows       []T
	cursor     string
	end        bool
	cut        bool // maxEmpty is reached
	left       []int
	part       part
	err        error
}

// part is how a source came about.
type part uint8

const (
	whole   part = iota
	divided      // from one that had no row left
	failed       // from one that got no reply
)

// fill reads the next page if no rows are left.
func (s *source[T]) fill(ctx context.Context) {
	for len(s.rows) == 0 && !s.end && !s.cut {
		rows, next, left, err := s.page(ctx, s.partitions, s.cursor)
		if err != nil {
			s.err, s.end = err, true
			return
		}
		s.rows, s.cursor, s.end = rows, next, next == ""
		if s.empty++; len(rows) > 0 {
			s.empty = 0
		}
		s.cut = !s.end && s.maxEmpty > 0 && s.empty == s.maxEmpty
		if len(s.partitions) > 1 {
			s.left = left
			s.partitions = slices.DeleteFunc(slices.Clone(s.partitions), func(p int) bool { return slices.Contains(left, p) })
			return
		}
	}
}

// divide returns the sources that a filled one leaves to be filled; it is used up if it has no partitions then.
func (s *source[T]) divide() (all []*source[T]) {
	if len(s.left) > 0 {
		all = append(all, &source[T]{partitions: s.left, page: s.page, maxEmpty: s.maxEmpty})
		s.left = nil
	}
	if s.err == nil && (len(s.rows) > 0 || s.end || s.cut) || s.err != nil && len(s.partitions) == 1 {
		return all
	}
	part := divided
	if s.err != nil {
		part = failed
	}
	for _, p := range s.partitions {
		all = append(all, &source[T]{partitions: []int{p}, page: s.page, maxEmpty: s.maxEmpty, empty: s.empty, cursor: s.cursor, part: part})
	}
	s.partitions = nil
	return all
}

// opened fills sources, in parallel.
func opened[T any](ctx context.Context, sources []*source[T]) (all []*source[T]) {
	for len(sources) > 0 {
		var wg sync.WaitGroup
		places := make(chan struct{}, parallelRequests)
		for _, s := range sources {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				s.fill(ctx)
			})
		}
		wg.Wait()
		var next []*source[T]
		for _, s := range sources {
			if next = append(next, s.divide()...); len(s.partitions) > 0 {
				all = append(all, s)
			}
		}
		sources = next
	}
	return all
}

// openAll reads the first page of every partition, each by itself.
func openAll[T any](ctx context.Context, partitions int, page func(ctx context.Context, partition int, cursor string) ([]T, string, error)) []*source[T] {
	return opened(ctx, sourcesOf(alone(partitions), byPartition(page), 0))
}

func sourcesOf[T any](groups [][]int, page pageFunc[T], maxEmpty int) []*source[T] {
	all := make([]*source[T], len(groups))
	for i, g := range groups {
		all[i] = &source[T]{partitions: g, page: page, maxEmpty: maxEmpty}
	}
	return all
}

// alone is a group for each partition.
func alone(partitions int) [][]int {
	all := make([][]int, partitions)
	for p := range all {
		all[p] = []int{p}
	}
	return all
}

// groups are the partitions by the processes that own them, as the last requests have found them. It is safe for concurrent use.
type groups struct {
	mu  sync.Mutex
	all [][]int // nil: not known
}

// of returns the groups; all partitions are one as long as they are not known.
func (g *groups) of(partitions int) [][]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all != nil {
		return g.all
	}
	one := make([]int, partitions)
	for p := range one {
		one[p] = p
	}
	return [][]int{one}
}

// keepGroups keeps the groups of sources that were opened. Those of a process that did not answer are not known any more, and all are found
// anew if there are more than before: groups that were divided would never be one again, however few processes there are.
func keepGroups[T any](g *groups, sources []*source[T]) {
	var all [][]int
	lost := slices.ContainsFunc(sources, func(s *source[T]) bool { return s.err != nil || s.part == failed })
	for _, s := range sources {
		if s.part == divided && !lost {
			return
		}
		all = append(all, s.partitions)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if lost || g.all != nil && len(all) > len(g.all) {
		all = nil
	}
	g.all = all
}

// missing is the error of a list without some of the partitions, with the cause of the first; nil if none is missing. The failure of one
// cancels the requests of others, which have no cause of their own.
func missing[T any](sources []*source[T], of int) error {
	var first *source[T]
	lost := 0
	cancelled := func(s *source[T]) int {
		if errors.Is(s.err, context.Canceled) {
			return 1
		}
		return 0
	}
	for _, s := range sources {
		if s.err == nil {
			continue
		}
		lost += len(s.partitions)
		if first == nil || cmp.Or(cmp.Compare(cancelled(s), cancelled(first)), cmp.Compare(s.partitions[0], first.partitions[0])) < 0 {
			first = s
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("client: list incomplete, %d of %d partitions did not answer; partition %d: %w", lost, of, first.partitions[0], first.err)
}
