package store

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
)

// minShare is the minimum number of rows that are read per partition for a page over several partitions.
const minShare = 3

// ListAll is List for several partitions: one page of their merged rows, in the same order. It reads the members of all partitions first,
// and then only the records of the rows of the page, unless the filter needs others.
//
//	partitions ──List, their share of the rows──▶ merged, in order ──a partition has no row left──▶ its next page
//	                                                 │                └──no row found──▶ the page ends there
//	                                                 ▼
//	                                              Limit rows, or the end ──▶ records
func (s *Reader) ListAll(ctx context.Context, parts []int, q ListQuery) (Page, error) {
	if len(parts) == 1 {
		return s.List(ctx, parts[0], q)
	}
	limit := q.limit()
	q.Limit = min(2*limit/max(len(parts), 1)+minShare, limit)
	sources := make([]*listSource, len(parts))
	g, reading := errgroup.WithContext(ctx)
	for i, part := range parts {
		sources[i] = &listSource{part: part, page: Page{More: true, Updated: q.Updated, Instance: q.Instance}}
		g.Go(func() error { return sources[i].read(reading, s, q) })
	}
	if err := g.Wait(); err != nil {
		return Page{}, err
	}
	out := Page{Updated: q.Updated, Instance: q.Instance}
	var of []int
	for len(out.Rows) < limit {
		best, cut := q.firstOf(sources)
		if cut != nil && (best == nil || q.after(&best.page.Rows[0], cut.page.place())) {
			out.More, out.Updated, out.Instance = true, cut.page.Updated, cut.page.Instance
			break
		}
		if best == nil {
			break
		}
		row := best.page.Rows[0]
		best.page.Rows = best.page.Rows[1:]
		out.Rows, of = append(out.Rows, row), append(of, best.part)
		out.Updated, out.Instance = row.Updated, row.Instance
		if err := best.read(ctx, s, q); err != nil {
			return Page{}, err
		}
	}
	out.More = out.More || slices.ContainsFunc(sources, func(l *listSource) bool { return len(l.page.Rows) > 0 || l.page.More })
	return out, s.complete(ctx, &q, &out, of)
}

// complete reads the records of the page, unless the filter required them already.
func (s *Reader) complete(ctx context.Context, q *ListQuery, page *Page, of []int) error {
	part := func(i int) int { return of[i] }
	if q.Keep == nil {
		if err := s.fill(ctx, page.Rows, part); err != nil {
			return err
		}
	}
	if err := s.fillStalled(ctx, page.Rows, part); err != nil {
		return err
	}
	page.Rows = slices.DeleteFunc(page.Rows, func(row Row) bool { return !q.listable(&row) })
	return nil
}

// listSource contains the rows of a partition that were read and not merged yet.
type listSource struct {
	part int
	page Page
}

// read reads the next page if no row is left and there may be more.
func (l *listSource) read(ctx context.Context, s *Reader, q ListQuery) (err error) {
	if len(l.page.Rows) > 0 || !l.page.More {
		return nil
	}
	q.Updated, q.Instance = l.page.Updated, l.page.Instance
	l.page, err = s.list(ctx, l.part, q, false)
	return err
}

// firstOf returns the source with the next row (best). It also returns, among the sources whose last page had no row but that may have
// more, the one with the first position (cut): the rows after that position are not known yet. Both may be nil.
func (q *ListQuery) firstOf(sources []*listSource) (best, cut *listSource) {
	for _, l := range sources {
		switch {
		case len(l.page.Rows) > 0:
			if best == nil || q.after(&best.page.Rows[0], l.page.Rows[0].place()) {
				best = l
			}
		case l.page.More:
			if cut == nil || q.after(cut.page.row(), l.page.place()) {
				cut = l
			}
		}
	}
	return best, cut
}

func (p *Page) place() Page { return Page{Updated: p.Updated, Instance: p.Instance} }

func (p *Page) row() *Row { return &Row{Updated: p.Updated, Instance: p.Instance} }
