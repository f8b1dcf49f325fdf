package store

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Commit writes a turn, all or nothing: see commit.lua.
func (s *Store) Commit(t Tenure, c *record.Commit, done func(record.Committed, error)) {
	p := s.space.Part(t.Part)
	to := c.From
	if c.Record != nil && c.Record.Status != "" {
		to = c.Record.Status
	}
	keys := make([]string, 0, 12+len(c.Create)+len(c.Leave)+len(c.Enter)+len(c.Answers)+len(c.Delete))
	keys = append(keys, p.Owner(), p.Wakeups(), p.Instance(c.Instance), p.Inbox(c.Instance),
		p.History(c.Instance, c.Execution), p.Stalled(), stalledSet(p))
	moved, dropped, pruned := 0, 0, 0
	if to != c.From {
		keys, moved = append(keys, p.Index(string(c.From)), p.Index(string(to))), 2
	}
	if c.Head == "" && c.NewHead == "" && len(c.Pop) > 0 { // inputs of an instance that was never started
		keys, dropped = append(keys, p.Early()), 1
	}
	if c.Prune != 0 {
		keys, pruned = append(keys, p.History(c.Instance, c.Prune), p.Reports(c.Instance, c.Prune)), 2
	}
	for _, l := range c.Create {
		keys = append(keys, p.Lease(c.Instance, c.Execution, l.Activity))
	}
	sets, moves := movesOf(p, c)
	keys = append(keys, sets...)
	for range c.Answers {
		keys = append(keys, p.Updates(c.Instance))
	}
	for _, l := range c.Delete {
		keys = append(keys, p.Lease(c.Instance, c.Execution, l.Activity))
	}
	var fields []any
	newIncarnation := 0
	if c.Record != nil {
		fields = changedFields(c.Record, c.From == "")
		if c.Record.NewIncarnation {
			newIncarnation = 1
		}
	}
	for _, ticket := range c.Retain {
		fields = append(fields, retainedField+ticket, "1")
	}
	args := make([]any, 0, 20+2*(len(c.Leave)+len(c.Enter)+len(c.Answers))+len(c.Pop)+len(c.Events)+2*len(c.Create)+len(fields)+len(c.Prepend)+len(c.Release))
	args = append(args, t.Token, c.Instance, c.Head, c.NewHead, optionalNum(c.Wakeup), newIncarnation, c.MaxUnread, record.UnreadBytes,
		optionalNum(c.Due), optionalNum(c.Applied),
		len(c.Pop), len(c.Events), len(c.Create), len(fields), len(c.Prepend), len(sets), len(c.Answers), moved, dropped, pruned)
	for _, id := range c.Pop {
		args = append(args, id)
	}
	for _, e := range c.Events {
		args = append(args, e)
	}
	for _, l := range c.Create {
		args = append(args, l.Effect, t.leaseKey(c.Instance, l.Effect), l.Claim.String())
	}
	args = append(args, fields...)
	for _, e := range c.Prepend {
		args = append(args, e)
	}
	args = append(args, moves...)
	for _, a := range c.Answers {
		args = append(args, a.Update, a.Answer)
	}
	for _, ticket := range c.Release {
		args = append(args, retainedField+ticket)
	}
	// Out of memory, Redis must reject a commit that pops nothing, because it starts something new. It would not be rejected after the
	// writes of another call in the same script, so only commits that pop are joined.
	deleted := c.Delete
	s.run.Go(redisx.Call{Script: s.commit, Keys: keys, Args: args, Join: len(c.Pop) > 0}, func(v any, err error) {
		done(parseCommitted(v, err, deleted))
	})
}

// movesOf returns the keys of the sets that a commit changes, and the score and the member for each.
func movesOf(p redisx.Part, c *record.Commit) (sets []string, moves []any) {
	for i := range c.Leave {
		e := &c.Leave[i]
		sets, moves = append(sets, setKey(p, e)), append(moves, "-", c.Instance)
		if name := e.Orchestration(); name != "" {
			sets, moves = append(sets, p.Orchestrations()), append(moves, "=", name)
		}
	}
	for i := range c.Enter {
		e := &c.Enter[i]
		sets, moves = append(sets, setKey(p, e)), append(moves, entryScore(e), c.Instance)
		if name := e.Orchestration(); name != "" {
			sets, moves = append(sets, p.Orchestrations()), append(moves, "0", name)
		}
	}
	return sets, moves
}

func parseCommitted(v any, err error, deleted []record.Lease) (record.Committed, error) {
	r, err := okReply("commit", v, err)
	if err != nil {
		return record.Committed{}, err
	}
	out := record.Committed{Now: r.Int(1), Unread: elements(r.Strs(2)), Number: r.Int(4)}
	if out.Workers, err = workersOf(r.List(3), deleted); err != nil {
		return out, err
	}
	return out, r.Err()
}

// workersOf returns the workers that held the deleted leases, by activity.
func workersOf(holders []any, deleted []record.Lease) (map[uint64]string, error) {
	var workers map[uint64]string
	for i := 0; i+1 < len(holders); i += 2 {
		k, err := redisx.Int(holders[i])
		if err != nil || k < 1 || int(k) > len(deleted) {
			return nil, fmt.Errorf("commit: %w: holder %v", redisx.ErrReply, holders[i])
		}
		worker, err := redisx.Str(holders[i+1])
		if err != nil {
			return nil, fmt.Errorf("commit: %w", err)
		}
		if workers == nil {
			workers = make(map[uint64]string)
		}
		workers[deleted[k-1].Activity] = worker
	}
	return workers, nil
}

func elements(encoded []string) [][]byte {
	out := make([][]byte, len(encoded))
	for i, e := range encoded {
		out[i] = []byte(e)
	}
	return out
}

func optionalNum(at int64) string {
	if at == 0 {
		return ""
	}
	return num(at)
}
