package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Head reads the head of an instance, "" if there is no record.
func (s *Store) Head(ctx context.Context, part int, instance string) (string, error) {
	v, err := s.run.Do(ctx, redisx.Command("HGET", s.space.Part(part).Instance(instance), "head"))
	if err != nil {
		return "", fmt.Errorf("instance %s: read the head: %w", instance, err)
	}
	return redisx.Str(v)
}

// InboxLen is the number of unread inputs.
func (s *Store) InboxLen(ctx context.Context, part int, instance string) (uint64, error) {
	v, err := s.run.Do(ctx, redisx.Command("LLEN", s.space.Part(part).Inbox(instance)))
	if err != nil {
		return 0, fmt.Errorf("instance %s: length of the inbox: %w", instance, err)
	}
	n, err := redisx.Int(v)
	return uint64(n), err //nolint:gosec // a length
}

// StuckIDs reads which instances of a partition are stalled, in no order.
func (s *Store) StuckIDs(ctx context.Context, part int) ([]string, error) {
	v, err := s.run.Do(ctx, redisx.Command("HKEYS", s.space.Part(part).Stuck()))
	if err != nil {
		return nil, fmt.Errorf("partition %d: read what is stalled: %w", part, err)
	}
	r := redisx.NewReply([]any{v})
	return r.Strs(0), r.Err()
}

// Stuck reads why the instances of a partition are stalled, by instance; of those that are not there is nothing.
func (s *Store) Stuck(ctx context.Context, part int, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return map[string]string{}, nil
	}
	args := make([]any, 0, 2+len(ids))
	args = append(args, "HMGET", s.space.Part(part).Stuck())
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

// StuckOne reads why one instance is stalled, "" if it is not.
func (s *Store) StuckOne(ctx context.Context, part int, instance string) (string, error) {
	v, err := s.run.Do(ctx, redisx.Command("HGET", s.space.Part(part).Stuck(), instance))
	if err != nil {
		return "", fmt.Errorf("instance %s: read whether it is stalled: %w", instance, err)
	}
	return redisx.Str(v)
}

// Agenda reads who is to be looked at within the span, soonest first, and Redis TIME (Unix ms). It changes
// nothing. A script, because only that asks the partition's own master for the time.
func (s *Store) Agenda(ctx context.Context, part int, within time.Duration) (now int64, due []string, err error) {
	v, err := s.run.Do(ctx, redisx.Call{Script: s.agenda, Keys: []string{s.space.Part(part).Agenda()}, Args: []any{within.Milliseconds()}})
	if err != nil {
		return 0, nil, fmt.Errorf("partition %d: read the agenda: %w", part, err)
	}
	r := redisx.NewReply(v)
	return r.Int(1), r.Strs(2), r.Err()
}

// Holder is who has claimed an activity.
type Holder struct {
	Worker string // "" if nobody has
	Claims uint32
}

// Holders reads who has claimed each of the activities.
func (s *Store) Holders(ctx context.Context, part int, instance string, execution uint64, activities []uint64) ([]Holder, error) {
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

// RawHistory reads encoded events behind the event with id after, at most limit.
func (s *Store) RawHistory(ctx context.Context, part int, instance string, execution, after uint64, limit int) ([][]byte, error) {
	key := s.space.Part(part).History(instance, execution)
	v, err := s.run.Do(ctx, redisx.Command("LRANGE", key, num(after), num(after+uint64(limit)-1))) //nolint:gosec // limit is positive
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the history: %w", instance, err)
	}
	r := redisx.NewReply([]any{v})
	return elements(r.Strs(0)), r.Err()
}

// Unreadable reports whether what is stored can not be understood by this build, and trying
// again will not help.
func Unreadable(err error) bool {
	return errors.Is(err, history.ErrCorrupt) || errors.Is(err, history.ErrNewerVersion) || redisx.Refused(err)
}

// Row is an instance in a listing.
type Row struct {
	Instance string
	Record   *Record // nil: it can not be read, and Problem says why
	Status   Status  // of the index
	Problem  string
}

// Page is a part of a listing.
type Page struct {
	Rows   []Row
	Cursor string // for the next page; "" at the end
}

const (
	pageDefault = 100
	pageMost    = 500
)

// List reads the instances of a status ("": of all, one status after the other), newest change
// first, from the cursor of the previous page.
func (s *Store) List(ctx context.Context, part int, status Status, cursor string, limit int) (Page, error) {
	if limit <= 0 {
		limit = pageDefault
	}
	limit = min(limit, pageMost)
	statuses := []Status{status}
	if status == "" {
		statuses = Statuses()
	}
	which, from, err := parseCursor(cursor)
	if err != nil {
		return Page{}, err
	}
	var page Page
	for ; which < len(statuses); which, from = which+1, 0 {
		key := s.space.Part(part).Index(string(statuses[which]))
		v, err := s.run.Do(ctx, redisx.Command("ZREVRANGE", key, from, from+limit-len(page.Rows)-1))
		if err != nil {
			return Page{}, fmt.Errorf("partition %d: list %s: %w", part, statuses[which], err)
		}
		r := redisx.NewReply([]any{v})
		ids := r.Strs(0)
		if r.Err() != nil {
			return Page{}, r.Err()
		}
		for _, id := range ids {
			row := Row{Instance: id, Status: statuses[which]}
			if row.Record, err = s.Record(ctx, part, id); err != nil {
				if !Unreadable(err) {
					return Page{}, err
				}
				row.Problem = err.Error() // it must not hide its neighbours
			}
			if row.Record != nil || row.Problem != "" {
				page.Rows = append(page.Rows, row)
			}
		}
		if from += len(ids); len(page.Rows) >= limit {
			page.Cursor = strconv.Itoa(which) + "." + strconv.Itoa(from)
			return page, nil
		}
	}
	return page, nil
}

func parseCursor(c string) (which, from int, err error) {
	if c == "" {
		return 0, 0, nil
	}
	w, f, _ := strings.Cut(c, ".")
	if which, err = strconv.Atoi(w); err == nil {
		from, err = strconv.Atoi(f)
	}
	if err != nil || which < 0 || from < 0 {
		return 0, 0, fmt.Errorf("cursor %q is not one that a listing gave", c)
	}
	return which, from, nil
}

// Applied reads up to where a partition has ingested the inputs stream.
func (s *Store) Applied(ctx context.Context, part int) (history.Position, error) {
	v, err := s.run.Do(ctx, redisx.Command("HMGET", s.space.Part(part).Owner(), "seq", "time"))
	if err != nil {
		return history.Position{}, fmt.Errorf("partition %d: read the position: %w", part, err)
	}
	r := redisx.NewReply(v)
	return history.Position{Seq: uint64(r.Int(0)), Time: r.Int(1)}, r.Err() //nolint:gosec // a sequence is below 2^63
}
