package store

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/redisx"
)

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
	Sent      Mark   // up to which the stream has the instance's messages; zero leaves what is said
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
	Span   int64 // for which it was claimed or renewed last, ms
	Token  string
	Worker string
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
	args := make([]any, 0, 8+2*len(l.Leases))
	args = append(args, t.Token, l.Instance, l.Head, lookArg(l.Next), string(l.Hold), l.Stuck, l.Most, l.Sent.String())
	for _, a := range l.Leases {
		keys = append(keys, p.Lease(l.Instance, l.Execution, a.Activity))
		args = append(args, a.Effect, t.leaseKey(l.Instance, a.Effect))
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
			_, err = fmt.Sscan(said[1:], &st.Until, &st.Claims, &st.Span, &st.Token, &st.Worker)
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
