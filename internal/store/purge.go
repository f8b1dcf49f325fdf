package store

import (
	"context"
	"fmt"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Purge removes an instance that has ended and has no pending messages. If the reply to a successful attempt is lost, the next attempt
// reports a conflict, because the record is gone.
func (s *Store) Purge(t Tenure, pu *record.Purge, done func(now int64, err error)) {
	p := s.space.Part(t.Part)
	keys := []string{p.Owner(), p.Wakeups(), p.Instance(pu.Instance), p.Inbox(pu.Instance), p.Stalled(), stalledSet(p), p.Index(string(pu.Status)), p.Orchestrations()}
	keys = append(keys, p.Updates(pu.Instance), p.Values(record.FieldUnanswered, "true"))
	for i := range pu.Entries {
		keys = append(keys, setKey(p, &pu.Entries[i]))
	}
	for e := max(pu.Execution, 2) - 1; e <= pu.Execution; e++ {
		keys = append(keys, p.History(pu.Instance, e), p.Reports(pu.Instance, e))
	}
	args := make([]any, 0, 5+len(pu.Entries)+len(pu.Pop))
	args = append(args, t.Token, pu.Instance, pu.Head, optionalNum(pu.Applied), len(pu.Entries))
	for i := range pu.Entries {
		args = append(args, pu.Entries[i].Orchestration())
	}
	for _, id := range pu.Pop {
		args = append(args, id)
	}
	s.run.Go(redisx.Call{Script: s.purge, Keys: keys, Args: args}, func(v any, err error) {
		r, err := okReply("purge of "+pu.Instance, v, err)
		if err != nil {
			done(0, err)
			return
		}
		done(r.Int(1), r.Err())
	})
}

// Reports reads how cancelled activities of an execution ended; "" for activities without a report.
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
