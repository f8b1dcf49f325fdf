package memstore

// The answers of the workers' scripts.
const (
	Yours     Answer = "ACQUIRED"
	Held      Answer = "HELD"
	Gone      Answer = "GONE"      // there is no such lease: cancelled, completed, or of a forgotten turn
	Stolen    Answer = "STOLEN"    // another claim holds it, or none
	Exhausted Answer = "EXHAUSTED" // no claim holds it, but it was claimed as often as is allowed
	Expired   Answer = "EXPIRED"   // the caller's time was over before it asked
)

// Grip names a lease and its claim.
type Grip struct {
	Instance  string
	Execution uint64
	Activity  uint64
	Effect    string
	Token     string
}

func (g Grip) place() Place { return Place{g.Execution, g.Activity} }

func (s *Store) lease(g Grip) (*Instance, Lease, bool) {
	in := s.Get(g.Instance)
	l, ok := in.Leases[g.place()]
	if ok && l.Effect != g.Effect && s.Rules.Wrong != EffectIgnored {
		ok = false
	}
	return in, l, ok
}

// holds answers OK if the grip is good at this moment.
func (s *Store) holds(now int64, g Grip) (*Instance, Lease, Answer) {
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

// Claim takes a free or expired lease. The same token again is the same claim, uncounted.
func (s *Store) Claim(now int64, g Grip, worker string) (Answer, Lease) {
	in, l, ok := s.lease(g)
	if !ok {
		return Gone, Lease{}
	}
	if l.Token == g.Token && !over(l.Until, l.Span, now) {
		return Yours, l
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
	return Yours, l
}

// Prolong is a worker's renewal of its lease. Tokens are fresh for every delivery, so it need not name the effect.
func (s *Store) Prolong(now int64, g Grip) Answer {
	in := s.Get(g.Instance)
	g.Effect = in.Leases[g.place()].Effect
	_, l, a := s.holds(now, g)
	if a == OK {
		l.Until, l.Span = now+s.Rules.LeaseTTL, s.Rules.LeaseTTL
		in.Leases[g.place()] = l
	}
	return a
}

// Ack ends the lease and pushes its completion. It returns the length of the inbox:
// at one it was empty before, and the doorbell is rung.
func (s *Store) Ack(now int64, g Grip) (a Answer, length int) {
	in, _, a := s.holds(now, g)
	if a == Gone && s.Rules.Wrong == AckOfNothing {
		in, a = s.make(g.Instance), OK
	}
	if a != OK {
		return a, 0
	}
	delete(in.Leases, g.place())
	in.Inbox = append(in.Inbox, Element{ID: "a" + g.Effect + "." + g.Token, Kind: "done", Time: now, Ref: g.Activity, Tag: g.Effect})
	if len(in.Inbox) == 1 && s.Rules.Wrong != AckWithoutLook {
		s.bring(g.Instance, now+s.Rules.Soon)
	}
	return OK, len(in.Inbox)
}

// Abandon gives the lease back before its end; uncounted takes the attempt back. The
// owner looks after the delay at the latest.
func (s *Store) Abandon(now int64, g Grip, uncounted bool, delay int64) Answer {
	in, l, a := s.holds(now, g)
	if a != OK {
		return a
	}
	l = Lease{Effect: l.Effect, Claims: l.Claims, Back: now + delay}
	if uncounted {
		l.Claims = max(0, l.Claims-1)
	}
	in.Leases[g.place()] = l
	s.bring(g.Instance, now+delay)
	return OK
}
