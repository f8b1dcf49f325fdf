package memstore

// The answers of the workers' scripts.
const (
	Acquired  Answer = "ACQUIRED"
	Held      Answer = "HELD"      // another claim holds it
	Gone      Answer = "GONE"      // there is no such lease: it was cancelled or completed, or its turn was lost
	Stolen    Answer = "STOLEN"    // another claim holds it, or none
	Exhausted Answer = "EXHAUSTED" // no claim holds it, but it was claimed as often as is allowed
	Expired   Answer = "EXPIRED"   // the caller's claim has expired
)

// Claim identifies a lease and a claim on it.
type Claim struct {
	Instance  string
	Execution uint64
	Activity  uint64
	Effect    string
	Token     string
}

func (g Claim) place() Place { return Place{g.Execution, g.Activity} }

func (s *Store) lease(g Claim) (*Instance, Lease, bool) {
	in := s.Get(g.Instance)
	l, ok := in.Leases[g.place()]
	if ok && l.Effect != g.Effect && s.Rules.Wrong != EffectIgnored {
		ok = false
	}
	return in, l, ok
}

// holds answers OK if the claim holds the lease now.
func (s *Store) holds(now int64, g Claim) (*Instance, Lease, Answer) {
	in, l, ok := s.lease(g)
	switch {
	case !ok:
		return in, l, Gone
	case l.Token != g.Token:
		return in, l, Stolen
	case over(l.Until, l.Span, now) && s.Rules.Wrong != AckAfterExpiry:
		return in, l, Expired
	}
	return in, l, OK
}

// Claim claims a lease without a claim, or with an expired one. A repeat with the same token is the same claim, and is not counted.
func (s *Store) Claim(now int64, g Claim, worker string) (Answer, Lease) {
	in, l, ok := s.lease(g)
	if !ok {
		return Gone, Lease{}
	}
	if l.Token == g.Token && !over(l.Until, l.Span, now) {
		return Acquired, l
	}
	if l.Token != "" && !over(l.Until, l.Span, now) && s.Rules.Wrong != ClaimHeld {
		return Held, l
	}
	if l.Claims >= s.Rules.Claims {
		return Exhausted, l
	}
	l.Token, l.Worker, l.Claims = g.Token, worker, l.Claims+1
	l.Until, l.Span = now+s.Rules.LeaseTTL, s.Rules.LeaseTTL
	in.Leases[g.place()] = l
	return Acquired, l
}

// RenewClaim renews a worker's claim. Tokens are unique to a delivery, so the request need not name the effect.
func (s *Store) RenewClaim(now int64, g Claim) Answer {
	in := s.Get(g.Instance)
	g.Effect = in.Leases[g.place()].Effect
	_, l, a := s.holds(now, g)
	if a == OK {
		l.Until, l.Span = now+s.Rules.LeaseTTL, s.Rules.LeaseTTL
		in.Leases[g.place()] = l
	}
	return a
}

// Ack deletes the lease and pushes the completion. It returns the length of the inbox:
// if it is one, the inbox was empty before, and the worker sends a doorbell.
func (s *Store) Ack(now int64, g Claim) (a Answer, length int) {
	in, _, a := s.holds(now, g)
	if a == Gone && s.Rules.Wrong == AckOfNothing {
		in, a = s.make(g.Instance), OK
	}
	if a != OK {
		return a, 0
	}
	delete(in.Leases, g.place())
	in.Inbox = append(in.Inbox, Element{ID: "a" + g.Effect + "." + g.Token, Kind: "done", Time: now, Ref: g.Activity, Tag: g.Effect})
	if len(in.Inbox) == 1 && s.Rules.Wrong != AckWithoutWakeup {
		s.wakeBy(g.Instance, now+s.Rules.Soon)
	}
	return OK, len(in.Inbox)
}

// Abandon returns the lease before its claim expires; uncounted: the claim is not counted. The owner reconciles it after the delay at the
// latest.
func (s *Store) Abandon(now int64, g Claim, uncounted bool, delay int64) Answer {
	in, l, a := s.holds(now, g)
	if a != OK {
		return a
	}
	l = Lease{Effect: l.Effect, Claims: l.Claims, ReturnedAt: now + delay}
	if uncounted {
		l.Claims = max(0, l.Claims-1)
	}
	in.Leases[g.place()] = l
	s.wakeBy(g.Instance, now+delay)
	return OK
}
