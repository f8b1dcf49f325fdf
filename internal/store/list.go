package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Record fields that a list reads. Fields that may be large are omitted, except the end of a failed instance, which contains its code.
var (
	listed       = []any{"name", "version", "orig", "execution", "status", "head", "created", "updated", "events", "ended", "parent", "held", "attributes", "stalled"}
	listedFailed = append(slices.Clone(listed), "end")
)

// Row is an instance in a list.
type Row struct {
	Instance string
	Status   record.Status // status of the index that contains the instance
	Updated  int64         // time at which it reached the status, Unix ms
	// Record has no payloads, watermarks and tickets, and End only if the instance failed; nil: it cannot be read, see Problem.
	Record  *record.Record
	Problem string // error of reading the record
	Stalled string // reason for which the instance is stalled; empty: it is not
}

// Page is a part of a list.
type Page struct {
	Rows []Row
	// More reports whether the list continues after the position (Updated, Instance), even if this page has no rows.
	More     bool
	Updated  int64
	Instance string
}

// ListQuery selects instances.
type ListQuery struct {
	Statuses []record.Status
	// Updated and Instance are the position after which the rows begin; Instance "": at the first row.
	Updated  int64
	Instance string
	Oldest   bool // in reverse order
	Limit    int  // number of rows; 0: 100; at most 500

	IDs    []string                                     // only these instances; nil: all
	Prefix string                                       // only instances whose id begins with it
	Ranges []Range                                      // only instances with a number in each range
	Values []Values                                     // only instances with one of the values in each; at most MaxSets values per field
	Span   func(record.Status) (from, until int64)      // only rows whose Updated is within the returned times, both included; nil: all
	Pick   func(instance string) bool                   // decides before the record is read; nil: all pass
	Keep   func(instance string, _ *record.Record) bool // decides on the record; not called for records that cannot be read; nil: all pass

	brief     bool // look up few instances, because time is limited
	anyStatus bool // the statuses of rows do not matter if the query selects all of them
}

// Range is a range of the numbers of a field, both ends included. An end beyond MaxExact is inexact.
type Range struct {
	Field       string
	From, Until int64
}

// MaxExact is the largest integer that sets store exactly: scores are floating-point numbers.
const MaxExact = 1<<53 - 1

// Values are values of a field: strings, each of which has a set, and numbers.
type Values struct {
	Field   string
	Of      []string
	Numbers []int64 // between -MaxExact and MaxExact
}

const (
	defaultPage   = 100
	maxPage       = 500
	maxScan       = 1000  // maximum number of records that a page reads
	maxMembers    = 4_000 // maximum number of members of indexes that a page reads
	maxBatch      = 500   // members per request
	recordsPerRow = 4     // records that are read first per row of a page with a filter
)

// List reads instances, ordered by their latest change of status, the newest first, and within a millisecond by descending id. A page
// reads a bounded number of records, so with a filter it may be short or empty although the list continues. Oldest reverses the order.
func (s *Reader) List(ctx context.Context, part int, q ListQuery) (Page, error) {
	page, err := s.list(ctx, part, q, true)
	if err != nil {
		return Page{}, err
	}
	return page, s.fillStalled(ctx, page.Rows, func(int) int { return part })
}

// list is List without the reasons of stalled instances. Without records it reads only the records that the filter needs.
func (s *Reader) list(ctx context.Context, part int, q ListQuery, records bool) (Page, error) {
	q.Limit = q.limit()
	records = records || q.Keep != nil
	page := Page{Updated: q.Updated, Instance: q.Instance}
	plan, err := s.newPlan(ctx, part, &q)
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
		if room := q.room(read, len(page.Rows)); len(picked) > room { // the rest is left to the next page
			picked, end = picked[:room], false
			rows = upTo(rows, picked[room-1].Instance)
		}
		if records {
			if err := s.fill(ctx, picked, func(int) int { return part }); err != nil {
				return Page{}, err
			}
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
		batch = nextBatch(batch, len(picked), len(rows))
		if end || read >= maxScan || members >= maxMembers {
			page.More = !end
			return page, nil
		}
	}
}

// nextBatch returns the number of members to read after a batch of rows rows, of which picked passed.
func nextBatch(batch, picked, rows int) int {
	if picked < rows/4 { // few pass: reading members is cheaper than reading records
		return maxBatch
	}
	return min(2*batch, maxPage)
}

// room returns how many more rows a page may read after read records and rows rows.
func (q *ListQuery) room(read, rows int) int {
	if q.Keep == nil { // all picked rows pass
		return min(maxScan-read, q.Limit-rows)
	}
	return maxScan - read
}

func (q *ListQuery) limit() int {
	if q.Limit <= 0 {
		return defaultPage
	}
	return min(q.Limit, maxPage)
}

// upTo returns the rows up to the given instance, which must be among them.
func upTo(rows []Row, instance string) []Row {
	return rows[:1+slices.IndexFunc(rows, func(r Row) bool { return r.Instance == instance })]
}

// listable reports whether a row belongs to the list: it passes the filter, or its record cannot be read. A missing record is omitted.
func (q *ListQuery) listable(row *Row) bool {
	if row.Record == nil {
		return row.Problem != ""
	}
	return q.Keep == nil || q.Keep(row.Instance, row.Record)
}

// order compares a row with a position in the order of the list.
func (q *ListQuery) order(row *Row, at Page) int {
	if q.Oldest {
		return cmp.Or(cmp.Compare(row.Updated, at.Updated), strings.Compare(row.Instance, at.Instance))
	}
	return cmp.Or(cmp.Compare(at.Updated, row.Updated), strings.Compare(at.Instance, row.Instance))
}

// after reports whether a row is after a position of the list.
func (q *ListQuery) after(row *Row, at Page) bool { return at.Instance == "" || q.order(row, at) > 0 }

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
		at, err := score(list[i+1])
		if err != nil {
			return nil, fmt.Errorf("%w: score %v", redisx.ErrReply, list[i+1])
		}
		rows = append(rows, Row{Instance: id, Updated: int64(at)})
	}
	return rows, nil
}

// fill reads the records of the rows in one round trip; part returns the partition of a row.
func (s *Reader) fill(ctx context.Context, rows []Row, part func(i int) int) error {
	var round readRound
	for i := range rows {
		row, fields := &rows[i], listed
		if row.Status == record.Failed {
			fields = listedFailed
		}
		call := redisx.Command(append([]any{"HMGET", s.space.Part(part(i)).Instance(row.Instance)}, fields...)...)
		round.add(call, func(v any, err error) error {
			row.Record, err = listedRecord(row.Instance, v, err)
			if Unreadable(err) { // it must not hide the other rows
				row.Problem, err = err.Error(), nil
			}
			return err
		})
	}
	return round.do(ctx, s.run)
}

// fillStalled reads the reasons of the stalled instances among the rows.
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

// listedRecord parses the reply to HMGET of a record; nil: there is no record.
func listedRecord(instance string, v any, err error) (*record.Record, error) {
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the record: %w", instance, err)
	}
	r := redisx.NewReply(v)
	m := make(map[string]string, r.Len())
	for i := range r.Len() {
		if text := r.Str(i); text != "" {
			m[listedFailed[i].(string)] = text //nolint:forcetypeassert // all are strings
		}
	}
	if r.Err() != nil || len(m) == 0 {
		return nil, r.Err()
	}
	rec, err := parseRecord(m)
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", instance, err)
	}
	return rec, nil
}
