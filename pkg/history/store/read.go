package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Head reads the head of an instance, "" without a record.
func (s *Reader) Head(ctx context.Context, part int, instance string) (string, error) {
	v, err := s.run.Do(ctx, redisx.Command("HGET", s.space.Part(part).Instance(instance), "head"))
	if err != nil {
		return "", fmt.Errorf("instance %s: read the head: %w", instance, err)
	}
	return redisx.Str(v)
}

// InboxLen reads the number of unread inputs.
func (s *Reader) InboxLen(ctx context.Context, part int, instance string) (uint64, error) {
	v, err := s.run.Do(ctx, redisx.Command("LLEN", s.space.Part(part).Inbox(instance)))
	if err != nil {
		return 0, fmt.Errorf("instance %s: length of the inbox: %w", instance, err)
	}
	n, err := redisx.Int(v)
	return uint64(n), err //nolint:gosec // a length
}

// Count reads the number of instances of a status in a partition, in constant time.
func (s *Reader) Count(ctx context.Context, part int, status Status) (uint64, error) {
	return s.size(ctx, part, redisx.Command("ZCARD", s.space.Part(part).Index(string(status))))
}

// CountSince reads the number of instances of a status in a partition that have reached it at a time (Unix ms) or later.
func (s *Reader) CountSince(ctx context.Context, part int, status Status, since int64) (uint64, error) {
	return s.size(ctx, part, redisx.Command("ZCOUNT", s.space.Part(part).Index(string(status)), since, "+inf"))
}

// StalledCount reads the number of stalled instances of a partition, in constant time.
func (s *Reader) StalledCount(ctx context.Context, part int) (uint64, error) {
	return s.size(ctx, part, redisx.Command("HLEN", s.space.Part(part).Stalled()))
}

func (s *Reader) size(ctx context.Context, part int, count redisx.Call) (uint64, error) {
	v, err := s.run.Do(ctx, count)
	if err != nil {
		return 0, fmt.Errorf("partition %d: count instances: %w", part, err)
	}
	n, err := redisx.Int(v)
	return uint64(n), err //nolint:gosec // a size
}

// StalledIDs reads the ids of the stalled instances of a partition, in no order.
func (s *Reader) StalledIDs(ctx context.Context, part int) ([]string, error) {
	v, err := s.run.Do(ctx, redisx.Command("HKEYS", s.space.Part(part).Stalled()))
	if err != nil {
		return nil, fmt.Errorf("partition %d: read what is stalled: %w", part, err)
	}
	r := redisx.NewReply([]any{v})
	return r.Strs(0), r.Err()
}

// StalledReasons reads why instances of a partition are stalled, by instance; those that are not stalled are left out.
func (s *Reader) StalledReasons(ctx context.Context, part int, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return map[string]string{}, nil
	}
	args := make([]any, 0, 2+len(ids))
	args = append(args, "HMGET", s.space.Part(part).Stalled())
	for _, id := range ids {
		args = append(args, id)
	}
	v, err := s.run.Do(ctx, redisx.Command(args...))
	if err != nil {
		return nil, fmt.Errorf("partition %d: read what is stalled: %w", part, err)
	}
	r := redisx.NewReply([]any{v})
	out := make(map[string]string, len(ids))
	for i, why := range r.List(0) {
		text, err := redisx.Str(why)
		if err != nil {
			return out, fmt.Errorf("partition %d: instance %s: %w", part, ids[i], err)
		}
		if text != "" {
			out[ids[i]] = text
		}
	}
	return out, r.Err()
}

// StalledReason reads why one instance is stalled, "" if it is not.
func (s *Reader) StalledReason(ctx context.Context, part int, instance string) (string, error) {
	v, err := s.run.Do(ctx, redisx.Command("HGET", s.space.Part(part).Stalled(), instance))
	if err != nil {
		return "", fmt.Errorf("instance %s: read whether it is stalled: %w", instance, err)
	}
	return redisx.Str(v)
}

// Wakeups reads the instances that are due within the span, soonest first, and Redis TIME (Unix ms). It changes nothing. It is a
// script, because only a script reads the time of the partition's own master.
func (s *Reader) Wakeups(ctx context.Context, part int, within time.Duration) (now int64, due []string, err error) {
	v, err := s.run.Do(ctx, redisx.Call{Script: s.wakeups, Keys: []string{s.space.Part(part).Wakeups()}, Args: []any{within.Milliseconds()}})
	if err != nil {
		return 0, nil, fmt.Errorf("partition %d: read the agenda: %w", part, err)
	}
	r := redisx.NewReply(v)
	return r.Int(1), r.Strs(2), r.Err()
}

// Holder is the worker that has claimed an activity.
type Holder struct {
	Worker string // "" if it is not claimed
	Claims uint32
}

// Holders reads the workers that have claimed the activities.
func (s *Reader) Holders(ctx context.Context, part int, instance string, execution uint64, activities []uint64) ([]Holder, error) {
	out := make([]Holder, len(activities))
	for i, a := range activities {
		v, err := s.run.Do(ctx, redisx.Command("HMGET", s.space.Part(part).Lease(instance, execution, a), "w", "n"))
		if err != nil {
			return nil, fmt.Errorf("instance %s: read the lease of activity %d: %w", instance, a, err)
		}
		r := redisx.NewReply(v)
		out[i] = Holder{Worker: r.Str(0), Claims: uint32(r.Int(1))} //nolint:gosec // at most the number of claims allowed
		if r.Err() != nil {
			return nil, r.Err()
		}
	}
	return out, nil
}

// RawHistory reads at most limit encoded events behind the event with id after.
func (s *Reader) RawHistory(ctx context.Context, part int, instance string, execution, after uint64, limit int) ([][]byte, error) {
	key := s.space.Part(part).History(instance, execution)
	v, err := s.run.Do(ctx, redisx.Command("LRANGE", key, num(after), num(after+uint64(limit)-1))) //nolint:gosec // limit is positive
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the history: %w", instance, err)
	}
	r := redisx.NewReply([]any{v})
	return elements(r.Strs(0)), r.Err()
}

// Unreadable reports whether this build cannot decode what is stored, so that a retry will not help.
func Unreadable(err error) bool {
	return errors.Is(err, history.ErrCorrupt) || errors.Is(err, history.ErrNewerVersion) || redisx.Refused(err)
}

// Fields of a record that a listing reads: those that may be large are left out, but for the end of a failed one, which has the code.
var (
	listed       = []any{"name", "version", "orig", "execution", "status", "head", "created", "updated", "events", "ended", "parent", "held"}
	listedFailed = append(slices.Clone(listed), "end")
)

// Row is an instance in a listing.
type Row struct {
	Instance string
	Status   Status  // of the index
	Updated  int64   // when it reached the status, Unix milliseconds
	Record   *Record // without payloads, watermarks and tickets, and End only if it failed; nil: it cannot be read, for the reason in Problem
	Problem  string
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
	Limit    int // rows; 0: 100; at most 500

	IDs  []string                              // only these instances; nil: all
	Span func(Status) (from, until int64)      // only rows whose Updated is in it, both included; nil: all
	Pick func(instance string) bool            // nil: all; decides before the record is read
	Keep func(instance string, _ *Record) bool // nil: all; not called for what cannot be read
}

const (
	defaultPage = 100
	maxPage     = 500
	maxScan     = 1000  // records that one page reads
	maxMembers  = 2_000 // of the indexes, that one page reads
	maxBatch    = 500   // of them at a time
	keptOf      = 4     // records that are read first for each row of a page with a filter
)

// List reads instances, the newest change of status first and, within a millisecond, the highest id first. A page reads a bounded
// number of records, so a filter may leave it short or empty although there are more.
func (s *Reader) List(ctx context.Context, part int, q ListQuery) (Page, error) {
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	q.Limit = min(q.Limit, maxPage)
	page := Page{Updated: q.Updated, Instance: q.Instance}
	batch := q.Limit
	if q.Keep != nil {
		batch = min(keptOf*q.Limit, maxPage)
	}
	for records, members := 0, 0; ; {
		rows, end, err := s.indexed(ctx, part, q, page, batch)
		if err != nil {
			return Page{}, err
		}
		picked := rows
		if q.Pick != nil {
			picked = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !q.Pick(r.Instance) })
		}
		if err := s.fill(ctx, part, picked); err != nil {
			return Page{}, err
		}
		for i, row := range picked {
			gone := row.Record == nil && row.Problem == ""
			if gone || q.Keep != nil && row.Record != nil && !q.Keep(row.Instance, row.Record) {
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
		records, members = records+len(picked), members+len(rows)
		if batch = min(2*batch, maxPage); len(picked) < len(rows)/4 { // few pass: members cost less than records
			batch = maxBatch
		}
		if end || records >= maxScan || members >= maxMembers {
			page.More = !end
			return page, nil
		}
	}
}

// indexed reads the next n members of the indexes behind a place, and reports whether they are the last.
func (s *Reader) indexed(ctx context.Context, part int, q ListQuery, behind Page, n int) (rows []Row, end bool, _ error) {
	type answer struct {
		rows []Row
		end  bool
		err  error
	}
	answers := make([]answer, len(q.Statuses))
	var wg sync.WaitGroup
	for i, status := range q.Statuses[min(1, len(q.Statuses)):] {
		wg.Go(func() {
			a := &answers[i+1]
			a.rows, a.end, a.err = s.index(ctx, part, status, q, behind, n)
		})
	}
	if len(q.Statuses) > 0 {
		a := &answers[0]
		a.rows, a.end, a.err = s.index(ctx, part, q.Statuses[0], q, behind, n)
	}
	wg.Wait()
	end = true
	for _, a := range answers {
		if a.err != nil {
			return nil, false, a.err
		}
		rows, end = append(rows, a.rows...), end && a.end
	}
	if len(answers) > 1 {
		newestFirst(rows)
	}
	return rows[:min(n, len(rows))], end && len(rows) <= n, nil
}

// index reads at most n members of the index of a status behind a place, and reports whether they are the last.
func (s *Reader) index(ctx context.Context, part int, status Status, q ListQuery, behind Page, n int) (rows []Row, end bool, _ error) {
	from, until := int64(0), int64(1<<53)
	if q.Span != nil {
		from, until = q.Span(status)
	}
	if behind.Instance != "" {
		until = min(until, behind.Updated)
	}
	key := s.space.Part(part).Index(string(status))
	if q.IDs != nil {
		rows, err := s.scores(ctx, key, status, q.IDs)
		if err != nil {
			return nil, false, fmt.Errorf("partition %d: list %s: %w", part, status, err)
		}
		rows = slices.DeleteFunc(rows, func(r Row) bool {
			return r.Updated < from || r.Updated > until || behind.Instance != "" && r.Updated == behind.Updated && r.Instance >= behind.Instance
		})
		newestFirst(rows)
		return rows[:min(n, len(rows))], len(rows) <= n, nil
	}
	// Members of the same millisecond in front of the place are read again and skipped.
	for offset := 0; ; {
		v, err := s.run.Do(ctx, redisx.Command("ZREVRANGEBYSCORE", key, until, from, "WITHSCORES", "LIMIT", offset, n))
		if err != nil {
			return nil, false, fmt.Errorf("partition %d: list %s: %w", part, status, err)
		}
		members, err := scored(v)
		if err != nil {
			return nil, false, err
		}
		for _, m := range members {
			if behind.Instance == "" || m.Updated < behind.Updated || m.Instance < behind.Instance {
				m.Status = status
				rows = append(rows, m)
			}
		}
		if offset += len(members); len(rows) > 0 || len(members) < n {
			return rows, len(members) < n, nil
		}
	}
}

func newestFirst(rows []Row) {
	slices.SortFunc(rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(y.Updated, x.Updated), strings.Compare(y.Instance, x.Instance))
	})
}

// scores looks up instances in an index.
func (s *Reader) scores(ctx context.Context, key string, status Status, ids []string) (rows []Row, _ error) {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		v, err := s.run.Do(ctx, redisx.Command("ZSCORE", key, id))
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		found, err := scored([]any{id, v})
		if err != nil {
			return nil, err
		}
		found[0].Status = status
		rows = append(rows, found[0])
	}
	return rows, nil
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

// fill reads the records of the rows in parallel.
func (s *Reader) fill(ctx context.Context, part int, rows []Row) error {
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
		s.run.Go(redisx.Command(append([]any{"HMGET", s.space.Part(part).Instance(row.Instance)}, fields...)...), func(reply any, err error) {
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

// Applied reads the position up to which a partition has ingested the inputs stream.
func (s *Reader) Applied(ctx context.Context, part int) (history.Position, error) {
	v, err := s.run.Do(ctx, redisx.Command("HMGET", s.space.Part(part).Owner(), "seq", "time"))
	if err != nil {
		return history.Position{}, fmt.Errorf("partition %d: read the position: %w", part, err)
	}
	r := redisx.NewReply(v)
	return history.Position{Seq: uint64(r.Int(0)), Time: r.Int(1)}, r.Err() //nolint:gosec // a sequence is below 2^63
}
