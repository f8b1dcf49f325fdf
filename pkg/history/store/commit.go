package store

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/pkg/history"
)

// Lease names the lease of an activity: the event that scheduled it, and its effect id.
type Lease struct {
	Activity uint64
	Effect   string
}

// Commit is a turn as the store takes it: all of it or nothing.
type Commit struct {
	Instance  string
	Execution uint64
	Head      string // the head it was decided on; "" when there is no record yet
	NewHead   string // random; "" when only the inbox is consumed
	Pop       []string
	Events    [][]byte
	Create    []Lease
	Delete    []Lease // may name leases that Create names: they are created first
	Record    *Record // what changes of the record; nil: nothing but the head
	From      Status  // status before; "" when there is no record yet
	Look      int64   // next look, Unix ms; 0: nothing is due
	Want      int     // unread elements wanted in the answer
}

// Committed is what the store answers.
type Committed struct {
	Now     int64             // Redis TIME, Unix ms
	Unread  [][]byte          // what is now at the head of the inbox, up to Want and 4 MiB
	Holders map[uint64]string // worker by activity, of the deleted leases that were claimed
}

// Commit writes a turn.
func (s *Store) Commit(t Tenure, c *Commit, done func(Committed, error)) {
	p := s.space.Part(t.Part)
	to := c.From
	if c.Record != nil && c.Record.Status != "" {
		to = c.Record.Status
	}
	keys := make([]string, 0, 8+len(c.Create)+len(c.Delete))
	keys = append(keys, p.Owner(), p.Agenda(), p.Instance(c.Instance), p.Inbox(c.Instance),
		p.History(c.Instance, c.Execution), p.Stuck(), p.Index(string(c.From)), p.Index(string(to)))
	for _, l := range c.Create {
		keys = append(keys, p.Lease(c.Instance, c.Execution, l.Activity))
	}
	for _, l := range c.Delete {
		keys = append(keys, p.Lease(c.Instance, c.Execution, l.Activity))
	}
	var fields []any
	if c.Record != nil {
		fields = c.Record.fields()
	}
	args := make([]any, 0, 11+len(c.Pop)+len(c.Events)+len(c.Create)+len(fields))
	args = append(args, t.Token, c.Instance, c.Head, c.NewHead, lookArg(c.Look),
		len(c.Pop), len(c.Events), len(c.Create), len(fields), c.Want, unreadBytes)
	for _, id := range c.Pop {
		args = append(args, id)
	}
	for _, e := range c.Events {
		args = append(args, e)
	}
	for _, l := range c.Create {
		args = append(args, l.Effect)
	}
	args = append(args, fields...)
	deleted := c.Delete
	s.run.Go(redisx.Call{Script: s.commit, Keys: keys, Args: args}, func(v any, err error) {
		if err != nil {
			done(Committed{}, err)
			return
		}
		done(parseCommitted(redisx.NewReply(v), deleted))
	})
}

func parseCommitted(r *redisx.Reply, deleted []Lease) (Committed, error) {
	if r.Str(0) != "OK" {
		return Committed{}, refusal("commit", r)
	}
	out := Committed{Now: r.Int(1), Unread: elements(r.Strs(2))}
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
		if out.Holders == nil {
			out.Holders = make(map[uint64]string)
		}
		out.Holders[deleted[k-1].Activity] = worker
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

// Look is what the owner finds and mends when there is nothing to turn.
type Look struct {
	Instance  string
	Execution uint64 // of the leases
	Head      string
	Leases    []Lease
	Most      int   // claims at the most, of each
	Next      int64 // next look, Unix ms; 0: nothing is due
	Hold      Hold
	Stuck     string // why it does not move; "" leaves what is said, NotStuck takes it back
}

// Hold says whether what is unread may put the next look off.
type Hold string

// The ways to hold an inbox back.
const (
	HoldNone  Hold = ""  // what is unread is looked at within two seconds
	HoldAll   Hold = "1" // the instance is stalled: everything waits for the next try
	HoldEarly Hold = "e" // there is no instance yet: everything waits until a start comes, and then nothing does
)

// NotStuck takes back what an earlier Look said of being stuck.
const NotStuck = "-"

// LeaseState is how a look found a lease.
type LeaseState struct {
	Lease
	Found  Found
	Claims int   // so far
	Until  int64 // of a claim, Unix ms
	Back   int64 // for when a worker gave it back, Unix ms; 0: none did
}

// Found says how.
type Found byte

// How a look can find a lease.
const (
	Waiting  Found = 'W' // nobody has claimed it
	Claimed  Found = 'C'
	Expired  Found = 'X' // the claim was over and has been taken away: dispatch again
	Poison   Found = 'P' // claimed as often as allowed, and over
	Missing  Found = 'M' // gone, with inputs unread: its completion is among them
	Restored Found = 'R' // was lost by the store and has been made again: dispatch again
)

// Looked is what the store answers.
type Looked struct {
	Now    int64
	Unread int
	Leases []LeaseState
}

// Look mends the leases of one instance and sets its next look.
func (s *Store) Look(t Tenure, l *Look, done func(Looked, error)) {
	p := s.space.Part(t.Part)
	keys := make([]string, 0, 5+len(l.Leases))
	keys = append(keys, p.Owner(), p.Agenda(), p.Instance(l.Instance), p.Inbox(l.Instance), p.Stuck())
	args := make([]any, 0, 7+len(l.Leases))
	args = append(args, t.Token, l.Instance, l.Head, lookArg(l.Next), string(l.Hold), l.Stuck, l.Most)
	for _, a := range l.Leases {
		keys = append(keys, p.Lease(l.Instance, l.Execution, a.Activity))
		args = append(args, a.Effect)
	}
	leases := l.Leases
	s.run.Go(redisx.Call{Script: s.look, Keys: keys, Args: args}, func(v any, err error) {
		if err != nil {
			done(Looked{}, err)
			return
		}
		done(parseLooked(redisx.NewReply(v), leases))
	})
}

func parseLooked(r *redisx.Reply, leases []Lease) (Looked, error) {
	if r.Str(0) != "OK" {
		return Looked{}, refusal("look", r)
	}
	out := Looked{Now: r.Int(1), Unread: int(r.Int(2))}
	for i, said := range r.Strs(3) {
		if i >= len(leases) || said == "" {
			return out, fmt.Errorf("look: %w: %q", redisx.ErrReply, said)
		}
		st := LeaseState{Lease: leases[i], Found: Found(said[0])}
		var err error
		switch st.Found {
		case Claimed:
			_, err = fmt.Sscan(said[1:], &st.Until, &st.Claims)
		case Waiting:
			_, err = fmt.Sscan(said[1:], &st.Claims, &st.Back)
		case Expired, Poison:
			_, err = fmt.Sscan(said[1:], &st.Claims)
		case Missing, Restored:
		default:
			err = fmt.Errorf("%w: %q", redisx.ErrReply, said)
		}
		if err != nil {
			return out, fmt.Errorf("look: %w", err)
		}
		out.Leases = append(out.Leases, st)
	}
	return out, r.Err()
}

func lookArg(at int64) string {
	if at == 0 {
		return ""
	}
	return num(at)
}

// EndEvent gives the event that ends an execution, or nil.
func (r *Record) EndEvent() (history.Event, error) {
	if len(r.End) == 0 {
		return nil, nil //nolint:nilnil // no end is not an error
	}
	return history.Decode(r.Events, r.End)
}
