package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// strs runs a command whose reply is a list of strings.
func (s *Reader) strs(ctx context.Context, command redisx.Call) ([]string, error) {
	v, err := s.run.Do(ctx, command)
	if err != nil {
		return nil, err
	}
	r := redisx.NewReply([]any{v})
	return r.Strs(0), r.Err()
}

// Head reads the head of an instance; "" if it has no record.
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
	return uint64(n), err //nolint:gosec // a length is not negative
}

// Count reads the number of instances of a status in a partition, in constant time.
func (s *Reader) Count(ctx context.Context, part int, status record.Status) (uint64, error) {
	return s.size(ctx, part, redisx.Command("ZCARD", s.space.Part(part).Index(string(status))))
}

// Sizes are the numbers of instances of a partition.
type Sizes struct {
	Status  map[record.Status]uint64
	Since   map[record.Status][]uint64 // number of instances that have ended since each of the requested times
	Stalled uint64
}

// Sizes counts, in one round trip, the instances of each status, those that have ended since each of the given times (Unix ms), and the
// stalled instances.
func (s *Reader) Sizes(ctx context.Context, part int, since []int64) (Sizes, error) {
	p := s.space.Part(part)
	out := Sizes{Status: make(map[record.Status]uint64), Since: make(map[record.Status][]uint64)}
	var round readRound
	size := func(count redisx.Call, put func(n uint64)) {
		round.add(count, func(v any, err error) error {
			if err != nil {
				return err
			}
			n, err := redisx.Int(v)
			put(uint64(n)) //nolint:gosec // a size
			return err
		})
	}
	for _, st := range record.Statuses() {
		size(redisx.Command("ZCARD", p.Index(string(st))), func(n uint64) { out.Status[st] = n })
		for _, at := range since {
			if st.Ended() {
				size(redisx.Command("ZCOUNT", p.Index(string(st)), at, "+inf"), func(n uint64) { out.Since[st] = append(out.Since[st], n) })
			}
		}
	}
	size(redisx.Command("HLEN", p.Stalled()), func(n uint64) { out.Stalled = n })
	if err := round.do(ctx, s.run); err != nil {
		return out, fmt.Errorf("partition %d: count instances: %w", part, err)
	}
	return out, nil
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

// StalledIDs reads the ids of the stalled instances of a partition, in no particular order.
func (s *Reader) StalledIDs(ctx context.Context, part int) ([]string, error) {
	ids, err := s.strs(ctx, redisx.Command("HKEYS", s.space.Part(part).Stalled()))
	if err != nil {
		return nil, fmt.Errorf("partition %d: read the stalled instances: %w", part, err)
	}
	return ids, nil
}

// StalledReasons reads the reasons for which instances are stalled, by instance; instances that are not stalled are omitted.
func (s *Reader) StalledReasons(ctx context.Context, part int, ids []string) (map[string]string, error) {
	if len(ids) == 0 {
		return map[string]string{}, nil
	}
	v, err := s.run.Do(ctx, redisx.Command(append([]any{"HMGET", s.space.Part(part).Stalled()}, arguments(ids)...)...))
	if err != nil {
		return nil, fmt.Errorf("partition %d: read the stalled instances: %w", part, err)
	}
	r := redisx.NewReply(v)
	out := make(map[string]string, len(ids))
	for i, id := range ids {
		if reason := r.Str(i); reason != "" {
			out[id] = reason
		}
	}
	return out, r.Err()
}

// StalledReason reads the reason for which an instance is stalled; "" if it is not.
func (s *Reader) StalledReason(ctx context.Context, part int, instance string) (string, error) {
	v, err := s.run.Do(ctx, redisx.Command("HGET", s.space.Part(part).Stalled(), instance))
	if err != nil {
		return "", fmt.Errorf("instance %s: read whether it is stalled: %w", instance, err)
	}
	return redisx.Str(v)
}

// Wakeups reads the instances that are due within the span, soonest first, and the time of Redis (Unix ms). It writes nothing. It is a
// script because only a script reads the time of the partition's own master.
func (s *Reader) Wakeups(ctx context.Context, part int, within time.Duration) (now int64, due []string, err error) {
	v, err := s.run.Do(ctx, redisx.Call{Script: s.wakeups, Keys: []string{s.space.Part(part).Wakeups()}, Args: []any{within.Milliseconds()}})
	if err != nil {
		return 0, nil, fmt.Errorf("partition %d: read the wakeups: %w", part, err)
	}
	r := redisx.NewReply(v)
	return r.Int(1), r.Strs(2), r.Err()
}

// Holder is the worker that has claimed an activity.
type Holder struct {
	Worker string // "" if the activity is not claimed
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

// RawHistory reads at most limit encoded events after the event with the id after.
func (s *Reader) RawHistory(ctx context.Context, part int, instance string, execution, after uint64, limit int) ([][]byte, error) {
	key := s.space.Part(part).History(instance, execution)
	events, err := s.strs(ctx, redisx.Command("LRANGE", key, num(after), num(after+uint64(limit)-1))) //nolint:gosec // limit is positive
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the history: %w", instance, err)
	}
	return elements(events), nil
}

// Unreadable reports whether err means that this build cannot decode the stored data, so that a retry will not help.
func Unreadable(err error) bool {
	return errors.Is(err, eventcodec.ErrCorrupt) || errors.Is(err, eventcodec.ErrNewerVersion) || redisx.Refused(err)
}

// Applied reads the stream position up to which a partition has ingested INPUTS.
func (s *Reader) Applied(ctx context.Context, part int) (history.Position, error) {
	v, err := s.run.Do(ctx, redisx.Command("HMGET", s.space.Part(part).Owner(), "seq", "time"))
	if err != nil {
		return history.Position{}, fmt.Errorf("partition %d: read the position: %w", part, err)
	}
	r := redisx.NewReply(v)
	return history.Position{Seq: uint64(r.Int(0)), Time: r.Int(1)}, r.Err() //nolint:gosec // a sequence is below 2^63
}
