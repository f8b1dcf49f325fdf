package store

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/redisx"
)

// Reconciliation repairs the leases of an instance that has no turn to take, and sets its next wakeup.
type Reconciliation struct {
	Instance  string
	Execution uint64 // of the leases
	Head      string
	Leases    []Lease
	MaxClaims int   // of each
	Wakeup    int64 // Unix ms; 0: nothing is due
	InboxHold InboxHold
	Stalled   string    // why it is stalled; "" leaves what is recorded, NotStalled removes it
	Published Watermark // watermark of the messages in the stream; zero leaves what is recorded
}

// InboxHold determines whether unread inputs bring the next wakeup forward.
type InboxHold string

// The ways to hold an inbox back.
const (
	HoldNone  InboxHold = ""  // unread inputs cause a wakeup within two seconds
	HoldAll   InboxHold = "1" // the instance is stalled: everything waits for the next attempt
	HoldEarly InboxHold = "e" // there is no instance yet: everything waits for its start
)

// NotStalled removes the reason that an earlier Reconciliation has recorded.
const NotStalled = "-"

// LeaseState is a lease as reconciliation found it.
type LeaseState struct {
	Lease
	Status     LeaseStatus
	Claims     int   // so far
	Until      int64 // of a claim, Unix ms
	Span       int64 // of the last claim or renewal, ms
	Token      string
	Worker     string
	ReturnedAt int64 // when a worker returned it, Unix ms; 0: none did
}

// LeaseStatus is the status of a lease.
type LeaseStatus byte

// The statuses of a lease.
const (
	LeaseUnclaimed  LeaseStatus = 'W' // no worker has claimed it
	LeaseClaimed    LeaseStatus = 'C'
	ClaimExpired    LeaseStatus = 'X' // the claim had expired and was removed: dispatch again
	ClaimsExhausted LeaseStatus = 'P' // claimed as often as is allowed, and expired
	LeaseMissing    LeaseStatus = 'M' // missing, with unread inputs: its completion is among them
	LeaseRecreated  LeaseStatus = 'R' // lost by the store and created again: dispatch again
)

// Reconciled is the reply to a Reconciliation.
type Reconciled struct {
	Now    int64
	Unread int
	Leases []LeaseState
}

// Reconcile repairs the leases of one instance and sets its next wakeup.
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
