package store

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl/internal/redisx"
)

// Purge removes an instance with all its data.
type Purge struct {
	Instance  string
	Execution uint64 // the current one; the one before it is removed, too
	Head      string
	Status    Status   // of its index
	Pop       []string // ids at the head of the inbox, up to the purge itself; inputs behind it stay
	// Applied is set if the retention is over and no client has requested the purge: see Commit.Applied. Then nothing may be
	// unread.
	Applied int64
}

// Purge removes an instance that has ended and has no pending messages. A reply that was lost looks like a conflict to the next
// attempt: the record is gone.
func (s *Store) Purge(t Tenure, pu *Purge, done func(now int64, err error)) {
	p := s.space.Part(t.Part)
	keys := []string{p.Owner(), p.Wakeups(), p.Instance(pu.Instance), p.Inbox(pu.Instance), p.Stalled(), p.Index(string(pu.Status))}
	for e := max(pu.Execution, 2) - 1; e <= pu.Execution; e++ {
		keys = append(keys, p.History(pu.Instance, e), p.Reports(pu.Instance, e))
	}
	args := make([]any, 0, 4+len(pu.Pop))
	args = append(args, t.Token, pu.Instance, pu.Head, optionalNum(pu.Applied))
	for _, id := range pu.Pop {
		args = append(args, id)
	}
	s.run.Go(redisx.Call{Script: s.purge, Keys: keys, Args: args}, func(v any, err error) {
		if err != nil {
			done(0, fmt.Errorf("purge of %s: %w", pu.Instance, err))
			return
		}
		r := redisx.NewReply(v)
		if r.Str(0) != "OK" {
			done(0, replyError("purge", r))
			return
		}
		done(r.Int(1), r.Err())
	})
}

// Reports reads how cancelled activities of an execution ended, "" for those without a report.
func (s *Reader) Reports(ctx context.Context, part int, instance string, execution uint64, activities []uint64) ([]string, error) {
	args := make([]any, 0, 2+len(activities))
	args = append(args, "HMGET", s.space.Part(part).Reports(instance, execution))
	for _, a := range activities {
		args = append(args, num(a))
	}
	v, err := s.run.Do(ctx, redisx.Command(args...))
	if err != nil {
		return nil, fmt.Errorf("instance %s: read the reports: %w", instance, err)
	}
	r := redisx.NewReply(v)
	out := make([]string, len(activities))
	for i := range out {
		out[i] = r.Str(i)
	}
	return out, r.Err()
}
