package store

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/redisx"
)

// Lease identifies the lease of an activity: the event that scheduled it, and its effect id.
type Lease struct {
	Activity uint64
	Effect   string
}

// Commit is a turn: the store writes all of it or nothing.
//
// With Prepend it ends an execution and begins the next, in one write:
//
//	execution n   … ContinuedAsNew                                         Events, Delete, the keys of the commit
//	the record    execution n+1, no events                                 Record with Name and Execution
//	the inbox     Started of n+1 · carried events · what was unread        Prepend
//	the wakeup    now
//
// If the owner dies between the reply and the first turn of the next execution, reconciliation finds the start at the head of the
// inbox. If the reply is lost and the commit is repeated, its own head is found and nothing is prepended again.
type Commit struct {
	Instance  string
	Execution uint64 // of Events, Create and Delete
	Head      string // the head that it was decided on; "" without a record
	NewHead   string // random; "" when only the inbox is consumed
	Pop       []string
	Events    [][]byte
	Create    []Lease
	Delete    []Lease  // may name leases that Create names: those are created first
	Record    *Record  // the fields of the record that change; nil: only the head
	Retain    []string // tickets whose slots are retained from one attempt to the next: the record names them
	Release   []string // tickets that are no longer retained; Retain may name them again
	From      Status   // status before; "" without a record
	Wakeup    int64    // Unix ms; 0: nothing is due
	MaxUnread int      // unread elements in the reply

	// Decisions by time come behind every input that was accepted before. Due is the latest time that was due, Unix ms: none of
	// the first 16 unread elements behind the popped ones may be older (CONFLICT). Applied is the time, in ns, of the position up
	// to which the inputs have been ingested: a store that has lost it replies ErrRolledBack. 0: not checked.
	Due     int64
	Applied int64

	// Prepend is put in front of the unread inputs, in this order: encoded elements, the first of them the start of the execution
	// that Record names. That execution is then the current one, with an empty history, and its wakeup is now.
	Prepend [][]byte
	// Prune is an execution whose history is deleted, 0 for none: never Execution itself, nor one with pending messages.
	Prune uint64
}

// Committed is the reply to a commit.
type Committed struct {
	Now     int64             // Redis TIME, Unix ms
	Unread  [][]byte          // the head of the inbox, up to MaxUnread elements and 4 MiB
	Workers map[uint64]string // by activity, of the deleted leases that were claimed
	Number  int64             // of the commit in the partition, or of a later one; it ascends unless the store loses writes
}

// Commit writes a turn.
func (s *Store) Commit(t Tenure, c *Commit, done func(Committed, error)) {
	p := s.space.Part(t.Part)
	to := c.From
	if c.Record != nil && c.Record.Status != "" {
		to = c.Record.Status
	}
	fromIndex := p.Index(string(c.From))
	toIndex := fromIndex
	if to != c.From {
		toIndex = p.Index(string(to))
	}
	keys := make([]string, 0, 11+len(c.Create)+len(c.Delete))
	keys = append(keys, p.Owner(), p.Wakeups(), p.Instance(c.Instance), p.Inbox(c.Instance),
		p.History(c.Instance, c.Execution), p.Stalled(), fromIndex, toIndex,
		p.History(c.Instance, c.Prune), p.Reports(c.Instance, c.Prune), // no execution is 0
		p.Early())
	for _, l := range c.Create {
		keys = append(keys, p.Lease(c.Instance, c.Execution, l.Activity))
	}
	for _, l := range c.Delete {
		keys = append(keys, p.Lease(c.Instance, c.Execution, l.Activity))
	}
	var fields []any
	newIncarnation := 0
	if c.Record != nil {
		fields = c.Record.fields()
		if c.Record.NewIncarnation {
			newIncarnation = 1
		}
	}
	for _, ticket := range c.Retain {
		fields = append(fields, retainedField+ticket, "1")
	}
	args := make([]any, 0, 15+len(c.Pop)+len(c.Events)+2*len(c.Create)+len(fields)+len(c.Prepend)+len(c.Release))
	args = append(args, t.Token, c.Instance, c.Head, c.NewHead, optionalNum(c.Wakeup), newIncarnation, c.MaxUnread, unreadBytes,
		optionalNum(c.Due), optionalNum(c.Applied),
		len(c.Pop), len(c.Events), len(c.Create), len(fields), len(c.Prepend))
	for _, id := range c.Pop {
		args = append(args, id)
	}
	for _, e := range c.Events {
		args = append(args, e)
	}
	for _, l := range c.Create {
		args = append(args, l.Effect, t.leaseKey(c.Instance, l.Effect))
	}
	args = append(args, fields...)
	for _, e := range c.Prepend {
		args = append(args, e)
	}
	for _, ticket := range c.Release {
		args = append(args, retainedField+ticket)
	}
	deleted := c.Delete
	// Out of memory Redis refuses a commit that pops nothing, because it begins something new: it must not be behind another's writes.
	s.run.Go(redisx.Call{Script: s.commit, Keys: keys, Args: args, Join: len(c.Pop) > 0}, func(v any, err error) {
		if err != nil {
			done(Committed{}, err)
			return
		}
		done(parseCommitted(redisx.NewReply(v), deleted))
	})
}

func parseCommitted(r *redisx.Reply, deleted []Lease) (Committed, error) {
	if r.Str(0) != "OK" {
		return Committed{}, replyError("commit", r)
	}
	out := Committed{Now: r.Int(1), Unread: elements(r.Strs(2)), Number: r.Int(4)}
	holders := r.List(3)
	for i := 0; i+1 < len(holders); i += 2 {
		k, err := redisx.Int(holders[i])
		if err != nil || k < 1 || int(k) > len(deleted) {
			return out, fmt.Errorf("commit: %w: holder %v", redisx.ErrReply, holders[i])
		}
		worker, err := redisx.Str(holders[i+1])
		if err != nil {
			return out, fmt.Errorf("commit: %w", err)
		}
		if out.Workers == nil {
			out.Workers = make(map[uint64]string)
		}
		out.Workers[deleted[k-1].Activity] = worker
	}
	return out, r.Err()
}

func elements(said []string) [][]byte {
	out := make([][]byte, len(said))
	for i, e := range said {
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
