package memstore

// Reconciliation is one reconciliation of an instance: the leases of the activities that are outstanding in the history at this head, and the next wakeup.
type Reconciliation struct {
	Instance  string
	Execution uint64 // execution of the leases
	Head      string
	Next      int64 // next wakeup; zero: none
	Deferral  Deferral
	Seen      int // number of inputs that DeferSeen covers
	Leases    []Create
	Sent      Place // watermark of the messages in the stream; zero: unchanged
}

// The states of a lease in the answer to a reconciliation.
const (
	Waits     = "W" // unclaimed
	Claimed   = "C" // claimed, and not expired
	Cleared   = "X" // the claim had expired, and was removed
	Poisoned  = "P" // claimed too often
	Missing   = "M" // missing, and its completion may be unread
	MadeAgain = "R" // lost by the store, and created again
)

// Reconcile removes expired claims, creates lost leases again, and sets the next wakeup, if the head of the instance has not changed. It returns
// the length of the inbox and the state of each lease.
func (s *Store) Reconcile(now int64, token string, g Reconciliation) (a Answer, unread int, states []string) {
	if s.fenced(now, token) {
		return Fenced, 0, nil
	}
	in := s.Get(g.Instance)
	if in.Head != "" && (in.Head == g.Head || s.Rules.Wrong == SentBlind) && g.Sent != (Place{}) {
		in.Sent = g.Sent
	}
	if in.Head != g.Head && s.Rules.Wrong != BlindRescore {
		return Conflict, 0, nil
	}
	if in.Head == "" && g.Head == "" && len(in.Inbox) == 0 && s.Rules.Wrong != ReconcileBlind { // a late copy of a reconciliation of early inputs
		s.setWakeup(g.Instance, 0)
		return OK, 0, nil
	}
	for _, c := range g.Leases {
		at := Place{g.Execution, c.Activity}
		state := s.leaseState(now, g.Instance, at, c.Effect)
		if over := in.Leases[at].Until + 1; state == Claimed && g.Next > over {
			g.Next = over // a claim that is not renewed is reconciled when it expires
		}
		states = append(states, state)
	}
	if s.Rules.Wrong == BlindRescore {
		s.setWakeup(g.Instance, g.Next)
	} else {
		if g.Deferral == DeferSeen && (len(in.Inbox) > g.Seen && s.Rules.Wrong != DeferUnseen) {
			g.Deferral = ""
		}
		s.settle(now, g.Instance, g.Next, g.Deferral)
	}
	return OK, len(in.Inbox), states
}

func (s *Store) leaseState(now int64, id string, at Place, effect string) string {
	in := s.Get(id)
	l, ok := in.Leases[at]
	alive := l.Token != "" && !over(l.Until, l.Span, now) && s.Rules.Wrong != RequeueUnseen
	switch {
	case !ok || l.Effect != effect:
		if len(in.Inbox) > 0 || s.Rules.Wrong == BlindRescore {
			return Missing
		}
		s.make(id).Leases[at] = Lease{Effect: effect}
		return MadeAgain
	case alive:
		return Claimed
	case l.Claims >= s.Rules.Claims:
		return Poisoned
	case l.Token != "":
		in.Leases[at] = Lease{Effect: l.Effect, Claims: l.Claims, ReturnedAt: l.ReturnedAt}
		return Cleared
	}
	return Waits
}
