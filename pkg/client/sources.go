package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// parallelRequests is the maximum number of concurrent requests.
const parallelRequests = 256

// pageFunc reads a page of partitions from one process. next is the cursor of the next page; empty: this is the last page. left contains
// the partitions that the process does not own, if several were requested.
type pageFunc[T any] func(ctx context.Context, partitions []int, cursor string) (rows []T, next string, left []int, err error)

// byPartition returns a pageFunc for single partitions.
func byPartition[T any](page func(ctx context.Context, partition int, cursor string) ([]T, string, error)) pageFunc[T] {
	return func(ctx context.Context, partitions []int, cursor string) ([]T, string, []int, error) {
		rows, next, err := page(ctx, partitions[0], cursor)
		return rows, next, nil, err
	}
}

// source contains the rows of one request, read page by page. A source of several partitions has only one page.
//
//	all partitions ──▶ page of one process's partitions ──has rows──▶ used
//	      ▲               │ partitions left over   │ no rows, or no reply
//	      └───────────────┘                        ▼
//	                             one source per partition, which waits for an owner
//
// So a list whose first page has enough rows makes one request to each process.
type source[T any] struct {
	partitions []int
	page       pageFunc[T]
	maxEmpty   int // maximum number of consecutive pages without rows; 0: no maximum
	empty      int // number of consecutive pages without rows so far
	rows       []T
	cursor     string
	end        bool  // there are no more pages
	cut        bool  // maxEmpty has been reached
	left       []int // partitions that the process does not own
	part       part
	err        error
}

// part is the origin of a source.
type part uint8

const (
	whole   part = iota
	divided      // part of a source that has no rows left
	failed       // part of a source that received no reply
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

// divide returns further sources that must be filled after this one. The source is used up if it has no partitions afterwards.
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

// opened fills sources concurrently, and the sources into which they are divided, and returns those in use.
func opened[T any](ctx context.Context, sources []*source[T]) (all []*source[T]) {
	for len(sources) > 0 {
		var wg sync.WaitGroup
		slots := make(chan struct{}, parallelRequests)
		for _, s := range sources {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
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

// openAll reads the first page of every partition with individual requests.
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

// alone returns one group per partition.
func alone(partitions int) [][]int {
	all := make([][]int, partitions)
	for p := range all {
		all[p] = []int{p}
	}
	return all
}

// groups are the partitions grouped by the process that owns them, as found by the last requests. It is safe for concurrent use.
type groups struct {
	mu  sync.Mutex
	all [][]int // nil: unknown
}

// of returns the groups, or one group of all partitions if they are unknown.
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

// keepGroups records the groups of the opened sources. If a process did not answer, or there are more groups than before, the groups are
// unknown again and found anew by the next request; otherwise groups that were divided once would never be merged, however few processes
// there are.
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

// missing returns the error of a list that lacks some partitions, with the cause of the first one, or nil if it is complete. The failure
// of one request cancels others; their errors are reported only if there is no other cause.
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
