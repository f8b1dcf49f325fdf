package store

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/redisx"
)

// Look is what the owner finds and mends when there is nothing to turn.
type Reconciliation struct {
	Instance  string
	Execution uint64 // of the leases
	Head      string
	Leases    []Lease
	MaxClaims int   // claims at the most, of each
	Wakeup    int64 // next look, Unix ms; 0: nothing is due
	InboxHold InboxHold
	Stalled   string    // why it does not move; "" leaves what is said, NotStuck takes it back
	Published Watermark // up to which the stream has the instance's messages; zero leaves what is said
}

// Hold says whether what is unread may put the next look off.
type InboxHold string

// The ways to hold an inbox back.
const (
	HoldNone  InboxHold = ""  // what is unread is looked at within two seconds
	HoldAll   InboxHold = "1" // the instance is stalled: everything waits for the next try
	HoldEarly InboxHold = "e" // there is no instance yet: everything waits until a start comes, and then nothing does
)

// NotStuck takes back what an earlier Look said of being stuck.
const NotStalled = "-"

// LeaseState is how a look found a lease.
type LeaseState struct {
	Lease
	Status     LeaseStatus
	Claims     int   // so far
	Until      int64 // of a claim, Unix ms
	Span       int64 // for which it was claimed or renewed last, ms
	Token      string
	Worker     string
	ReturnedAt int64 // for when a worker gave it back, Unix ms; 0: none did
}

// Found says how.
type LeaseStatus byte

// How a look can find a lease.
const (
	LeaseUnclaimed  LeaseStatus = 'W' // nobody has claimed it
	LeaseClaimed    LeaseStatus = 'C'
	ClaimExpired    LeaseStatus = 'X' // the claim was over and has been taken away: dispatch again
	ClaimsExhausted LeaseStatus = 'P' // claimed as often as allowed, and over
	LeaseMissing    LeaseStatus = 'M' // gone, with inputs unread: its completion is among them
	LeaseRecreated  LeaseStatus = 'R' // was lost by the store and has been made again: dispatch again
)

// Looked is what the store answers.
type Reconciled struct {
	Now    int64
	Unread int
	Leases []LeaseState
}

// Look mends the leases of one instance and sets its next look.
func (s *Store) Reconcile(t Tenure, l *Reconciliation, done func(Reconciled, error)) {
	p := s.space.Part(t.Part)
	keys := make([]string, 0, 5+len(l.Leases))
	keys = append(keys, p.Owner(), p.Wakeups(), p.Instance(l.Instance), p.Inbox(l.Instance), p.Stalled())
	args := make([]any, 0, 8+2*len(l.Leases))
	args = append(args, t.Token, l.Instance, l.Head, optionalNum(l.Wakeup), string(l.InboxHold), l.Stalled, l.MaxClaims, l.Published.String())
	for _, a := range l.Leases {
		keys = append(keys, p.Lease(l.Instance, l.Execution, a.Activity))
		args = append(args, a.Effect, t.leaseKey(l.Instance, a.Effect))
	}
	leases := l.Leases
	s.run.Go(redisx.Call{Script: s.reconcile, Keys: keys, Args: args}, func(v any, err error) {
		if err != nil {
			done(Reconciled{}, err)
			return
		}
		done(parseReconciled(redisx.NewReply(v), leases))
	})
}

func parseReconciled(r *redisx.Reply, leases []Lease) (Reconciled, error) {
	if r.Str(0) != "OK" {
		return Reconciled{}, replyError("reconcile", r)
	}
	out := Reconciled{Now: r.Int(1), Unread: int(r.Int(2))}
	for i, said := range r.Strs(3) {
		if i >= len(leases) || said == "" {
			return out, fmt.Errorf("reconcile: %w: %q", redisx.ErrReply, said)
		}
		st := LeaseState{Lease: leases[i], Status: LeaseStatus(said[0])}
		var err error
		switch st.Status {
		case LeaseClaimed:
			_, err = fmt.Sscan(said[1:], &st.Until, &st.Claims, &st.Span, &st.Token, &st.Worker)
		case LeaseUnclaimed:
			_, err = fmt.Sscan(said[1:], &st.Claims, &st.ReturnedAt)
		case ClaimExpired, ClaimsExhausted:
			_, err = fmt.Sscan(said[1:], &st.Claims)
		case LeaseMissing, LeaseRecreated:
		default:
			err = fmt.Errorf("%w: %q", redisx.ErrReply, said)
		}
		if err != nil {
			return out, fmt.Errorf("reconcile: %w", err)
		}
		out.Leases = append(out.Leases, st)
	}
	return out, r.Err()
}
