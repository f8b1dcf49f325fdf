package store

import (
	"context"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// RewindSource reads the whole history of an execution, and the whole inbox.
func (s *Reader) RewindSource(ctx context.Context, part int, instance string, execution uint64) (out record.RewindSource, err error) {
	for {
		more, err := s.RawHistory(ctx, part, instance, execution, uint64(len(out.Events)), historyChunk)
		if err != nil {
			return out, err
		}
		out.Events = append(out.Events, more...)
		if len(more) < historyChunk {
			break
		}
	}
	out.Inbox, err = s.Inbox(ctx, part, instance, 0)
	return out, err
}

// Rewind writes a rewind, all or nothing: see rewind.lua.
func (s *Store) Rewind(t Tenure, r *record.Rewind, done func(record.Committed, error)) {
	p := s.space.Part(t.Part)
	next := r.Execution + 1
	pruned := uint64(0)
	if r.Execution > 1 {
		pruned = r.Execution - 1
	}
	keys := []string{
		p.Owner(), p.Wakeups(), p.Instance(r.Instance), p.Inbox(r.Instance), p.History(r.Instance, r.Execution),
		p.History(r.Instance, next), p.Reports(r.Instance, next), p.Stalled(), stalledSet(p), p.Index(string(r.From)), p.Index(string(r.To)),
		p.History(r.Instance, pruned), p.Reports(r.Instance, pruned), // there is no execution 0
	}
	for i := range r.Leave {
		keys = append(keys, setKey(p, &r.Leave[i]))
	}
	for i := range r.Enter {
		keys = append(keys, setKey(p, &r.Enter[i]))
	}
	for _, l := range r.Delete {
		keys = append(keys, p.Lease(r.Instance, r.Execution, l.Activity))
	}
	kept := record.Watermark{Execution: next, Event: r.Keep}.String() // all earlier messages are published
	fields := []any{
		"execution", num(next), "status", string(r.To), "prod", kept, "pub", kept, "control", formatOrigin(r.Control), record.FieldUnanswered, r.Unanswered,
	}
	for _, ticket := range r.Retain {
		fields = append(fields, retainedField+ticket, "1")
	}
	args := []any{t.Token, r.Instance, r.Head, r.NewHead, num(r.Keep), r.Read, len(r.Leave) + len(r.Enter), len(r.Results), len(r.Prepend), len(r.Release)}
	for range r.Leave {
		args = append(args, "-")
	}
	for i := range r.Enter {
		args = append(args, entryScore(&r.Enter[i]))
	}
	for _, e := range r.Results {
		args = append(args, e.Place, e.ID)
	}
	for _, e := range r.Prepend {
		args = append(args, e)
	}
	for _, ticket := range r.Release {
		args = append(args, retainedField+ticket)
	}
	args = append(args, fields...)
	s.run.Go(redisx.Call{Script: s.rewind, Keys: keys, Args: args}, func(v any, err error) {
		reply, err := okReply("rewind of "+r.Instance, v, err)
		if err != nil {
			done(record.Committed{}, err)
			return
		}
		out := record.Committed{Now: reply.Int(1), Number: reply.Int(3)}
		if out.Workers, err = workersOf(reply.List(2), r.Delete); err == nil {
			err = reply.Err()
		}
		done(out, err)
	})
}
