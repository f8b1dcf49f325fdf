package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/redisx"
)

// Fields of a record that a listing reads: those that may be large are left out, but for the end of a failed one, which has the code.
var (
	listed       = []any{"name", "version", "orig", "execution", "status", "head", "created", "updated", "events", "ended", "parent", "held", "attributes", "stalled"}
	listedFailed = append(slices.Clone(listed), "end")
)

// Row is an instance in a listing.
type Row struct {
	Instance string
	Status   Status  // of the index
	Updated  int64   // when it reached the status, Unix milliseconds
	Record   *Record // without payloads, watermarks and tickets, and End only if it failed; nil: it cannot be read, for the reason in Problem
	Problem  string
	Stalled  string // why it is stalled; empty: it is not
}

// Page is a part of a listing.
type Page struct {
	Rows []Row
	// More reports that the listing continues behind the place Updated, Instance, also if this page kept no row.
	More     bool
	Updated  int64
	Instance string
}

// ListQuery selects instances.
type ListQuery struct {
	Statuses []Status
	// Only rows behind this place in the order of the listing; Instance "": from the beginning.
	Updated  int64
	Instance string
	Oldest   bool // in the opposite order
	Limit    int  // rows; 0: 100; at most 500

	IDs    []string                              // only these instances; nil: all
	Prefix string                                // only instances whose id begins with it
	Ranges []Range                               // only instances with a number in each
	Values []Values                              // only instances with one value of each; at most MaxSets values each
	Span   func(Status) (from, until int64)      // only rows whose Updated is in it, both included; nil: all
	Pick   func(instance string) bool            // nil: all; decides before the record is read
	Keep   func(instance string, _ *Record) bool // nil: all; not called for what cannot be read

	brief     bool // few instances are looked up, because time is short
	anyStatus bool // the statuses of rows do not matter, if the query has all of them
}

// Range is a range of the numbers of a field, both ends included. An end beyond MaxExact is not exact.
type Range struct {
	Field       string
	From, Until int64
}

// MaxExact is the largest number that sets have exactly: scores are floating-point numbers.
const MaxExact = 1<<53 - 1

// Values are values of a field: texts, which have sets, and numbers.
type Values struct {
	Field   string
	Of      []string
	Numbers []int64 // at most MaxExact, and not below -MaxExact
}

const (
	defaultPage = 100
	maxPage     = 500
	maxScan     = 1000  // records that one page reads
	maxMembers  = 4_000 // of the indexes, that one page reads
	maxBatch    = 500   // of them at a time
	keptOf      = 4     // records that are read first for each row of a page with a filter
)

// List reads instances, the newest change of status first and, within a millisecond, the highest id first. A page reads a bounded
// number of records, so a filter may leave it short or empty although there are more. With Oldest the order is the opposite.
func (s *Reader) List(ctx context.Context, part int, q ListQuery) (Page, error) {
	page, err := s.list(ctx, part, q, true)
	if err != nil {
		return Page{}, err
	}
	return page, s.fillStalled(ctx, page.Rows, func(int) int { return part })
}

// list is List without the reasons of what is stalled; with records false those that the filter does not need are not read.
func (s *Reader) list(ctx context.Context, part int, q ListQuery, records bool) (Page, error) {
	q.Limit = q.limit()
	records = records || q.Keep != nil
	page := Page{Updated: q.Updated, Instance: q.Instance}
	plan, err := s.plan(ctx, part, &q)
	if err != nil {
		return Page{}, err
	}
	batch := plan.batch()
	for read, members := 0, 0; ; {
		rows, end, err := plan.next(ctx, page, batch)
		if err != nil {
			return Page{}, err
		}
		picked, err := plan.pick(ctx, rows)
		if err != nil {
			return Page{}, err
		}
		room := maxScan - read
		if q.Keep == nil { // all that are picked pass
			room = min(room, q.Limit-len(page.Rows))
		}
		if len(picked) > room { // the rest is for the next page
			picked, end = picked[:room], false
			rows = upTo(rows, picked[room-1].Instance)
		}
		if err := s.fill(ctx, picked, records, func(int) int { return part }); err != nil {
			return Page{}, err
		}
		for i, row := range picked {
			if records && !q.listable(&row) {
				continue
			}
			if page.Rows = append(page.Rows, row); len(page.Rows) == q.Limit {
				page.Updated, page.Instance = row.Updated, row.Instance
				page.More = !end || i+1 < len(picked)
				return page, nil
			}
		}
		if len(rows) > 0 {
			page.Updated, page.Instance = rows[len(rows)-1].Updated, rows[len(rows)-1].Instance
		}
		read, members = read+len(picked), members+len(rows)
		if batch = min(2*batch, maxPage); len(picked) < len(rows)/4 { // few pass: members cost less than records
			batch = maxBatch
		}
		if end || read >= maxScan || members >= maxMembers {
			page.More = !end
			return page, nil
		}
	}
}

func (q *ListQuery) limit() int {
	if q.Limit <= 0 {
		return defaultPage
	}
	return min(q.Limit, maxPage)
}

// upTo returns the rows up to that of an instance, which is among them.
func upTo(rows []Row, instance string) []Row {
	return rows[:1+slices.IndexFunc(rows, func(r Row) bool { return r.Instance == instance })]
}

// listable reports whether a row belongs to the list: its record is there, and passes the filter or cannot be read.
func (q *ListQuery) listable(row *Row) bool {
	if row.Record == nil {
		return row.Problem != ""
	}
	return q.Keep == nil || q.Keep(row.Instance, row.Record)
}

// order compares a row with a place in the order of the list.
func (q *ListQuery) order(row *Row, at Page) int {
	if q.Oldest {
		return cmp.Or(cmp.Compare(row.Updated, at.Updated), strings.Compare(row.Instance, at.Instance))
	}
	return cmp.Or(cmp.Compare(at.Updated, row.Updated), strings.Compare(at.Instance, row.Instance))
}

// behind reports whether a row comes behind a place of the list.
func (q *ListQuery) behind(row *Row, at Page) bool { return at.Instance == "" || q.order(row, at) > 0 }

func (q *ListQuery) sort(rows []Row) {
	slices.SortFunc(rows, func(x, y Row) int { return q.order(&x, y.place()) })
}

// scored parses members with their scores, in either version of the protocol.
func scored(v any) ([]Row, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%w: %T", redisx.ErrReply, v)
	}
	if len(list) > 0 {
		if _, nested := list[0].([]any); nested {
			flat := make([]any, 0, 2*len(list))
			for _, pair := range list {
				p, _ := pair.([]any)
				flat = append(flat, p...)
			}
			list = flat
		}
	}
	rows := make([]Row, 0, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		id, err := redisx.Str(list[i])
		if err != nil {
			return nil, fmt.Errorf("%w: %T", redisx.ErrReply, list[i])
		}
		var score float64
		switch x := list[i+1].(type) {
		case float64:
			score = x
		case string:
			if score, err = strconv.ParseFloat(x, 64); err != nil {
				return nil, fmt.Errorf("%w: score %q", redisx.ErrReply, x)
			}
		default:
			return nil, fmt.Errorf("%w: score %T", redisx.ErrReply, x)
		}
		rows = append(rows, Row{Instance: id, Updated: int64(score)})
	}
	return rows, nil
}

// fill reads the records of the rows in parallel, if they are needed; part is the partition of each.
func (s *Reader) fill(ctx context.Context, rows []Row, needed bool, part func(i int) int) error {
	if !needed {
		return nil
	}
	type answer struct {
		row   int
		reply any
		err   error
	}
	answers := make(chan answer, len(rows))
	for i, row := range rows {
		fields := listed
		if row.Status == Failed {
			fields = listedFailed
		}
		s.run.Go(redisx.Command(append([]any{"HMGET", s.space.Part(part(i)).Instance(row.Instance)}, fields...)...), func(reply any, err error) {
			answers <- answer{i, reply, err}
		})
	}
	for range rows {
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		rec, err := listedRecord(rows[a.row], a.reply, a.err)
		if err != nil && !Unreadable(err) {
			return err
		}
		if err != nil {
			rows[a.row].Problem = err.Error() // it must not hide the other rows
		}
		rows[a.row].Record = rec
	}
	return nil
}

// fillStalled reads why the stalled ones of the rows are.
func (s *Reader) fillStalled(ctx context.Context, rows []Row, part func(i int) int) error {
	var round readRound
	for i := range rows {
		if row := &rows[i]; row.Record != nil && row.Record.Stalled {
			round.add(redisx.Command("HGET", s.space.Part(part(i)).Stalled(), row.Instance), func(v any, err error) error {
				if err == nil {
					row.Stalled, err = redisx.Str(v)
				}
				return err
			})
		}
	}
	return round.do(ctx, s.run)
}

// listedRecord parses the reply to HMGET of a record; nil: it is gone.
func listedRecord(row Row, v any, err error) (*Record, error) {
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the record: %w", row.Instance, err)
	}
	r := redisx.NewReply(v)
	m := make(map[string]string, r.Len())
	for i := range r.Len() {
		if text := r.Str(i); text != "" {
			m[listedFailed[i].(string)] = text //nolint:forcetypeassert // they are texts
		}
	}
	if r.Err() != nil || len(m) == 0 {
		return nil, r.Err()
	}
	rec, err := parseRecord(m)
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", row.Instance, err)
	}
	return rec, nil
}
