package store

import (
	"fmt"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Reconcile repairs the leases of one instance and sets its next wakeup.
func (s *Store) Reconcile(t Tenure, l *record.Reconciliation, done func(record.Reconciled, error)) {
	p := s.space.Part(t.Part)
	keys := make([]string, 0, 6+len(l.Leases))
	keys = append(keys, p.Owner(), p.Wakeups(), p.Instance(l.Instance), p.Inbox(l.Instance), p.Stalled(), stalledSet(p))
	args := make([]any, 0, 8+2*len(l.Leases))
	args = append(args, t.Token, l.Instance, l.Head, optionalNum(l.Wakeup), string(l.Deferral), l.Stalled, l.MaxClaims, l.Published.String())
	for _, a := range l.Leases {
		keys = append(keys, p.Lease(l.Instance, l.Execution, a.Activity))
		args = append(args, a.Effect, t.leaseKey(l.Instance, a.Effect))
	}
	leases := l.Leases
	s.run.Go(redisx.Call{Script: s.reconcile, Keys: keys, Args: args, Join: true}, func(v any, err error) {
		done(parseReconciled(v, err, leases))
	})
}

func parseReconciled(v any, err error, leases []record.Lease) (record.Reconciled, error) {
	r, err := okReply("reconcile", v, err)
	if err != nil {
		return record.Reconciled{}, err
	}
	out := record.Reconciled{Now: r.Int(1), Unread: int(r.Int(2))}
	for i, reply := range r.Strs(3) {
		if i >= len(leases) || reply == "" {
			return out, fmt.Errorf("reconcile: %w: %q", redisx.ErrReply, reply)
		}
		st := record.LeaseState{Lease: leases[i], Status: record.LeaseStatus(reply[0])}
		switch st.Status {
		case record.LeaseClaimed:
			_, err = fmt.Sscan(reply[1:], &st.Until, &st.Claims, &st.Span, &st.Token, &st.Worker)
		case record.LeaseUnclaimed:
			_, err = fmt.Sscan(reply[1:], &st.Claims, &st.ReturnedAt)
		case record.ClaimExpired, record.ClaimsExhausted:
			_, err = fmt.Sscan(reply[1:], &st.Claims)
		case record.LeaseMissing, record.LeaseRecreated:
		default:
			err = fmt.Errorf("%w: %q", redisx.ErrReply, reply)
		}
		if err != nil {
			return out, fmt.Errorf("reconcile: %w", err)
		}
		out.Leases = append(out.Leases, st)
	}
	return out, r.Err()
}
