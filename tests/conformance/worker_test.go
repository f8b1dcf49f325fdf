package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/leases"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/redistest"
)

// drawClaim draws a claim of a worker, mostly one that it has made.
func (m *machine) drawClaim() memstore.Claim {
	if len(m.claims) == 0 || oneIn(m, 10) {
		l := m.lease()
		return memstore.Claim{Instance: m.instance(), Execution: draw(m, "execution", uint64(1), 2), Activity: l.Activity, Effect: l.Effect, Token: m.fresh("t")}
	}
	last := m.claims[max(0, len(m.claims)-3):]
	return draw(m, "claim", last...)
}

func claimOf(g memstore.Claim) leases.Claim {
	return leases.Claim{
		Ref:   leases.Ref{Part: partition, Instance: g.Instance, Execution: g.Execution, Activity: g.Activity, Effect: g.Effect},
		Token: g.Token,
	}
}

// existing lists the existing leases.
func (m *machine) existing() (all []memstore.Claim) {
	for _, id := range instances() {
		in := m.model.Get(id)
		for _, at := range slices.SortedFunc(maps.Keys(in.Leases), byPlace) {
			all = append(all, memstore.Claim{Instance: id, Execution: at.Execution, Activity: at.Event, Effect: in.Leases[at].Effect})
		}
	}
	return all
}

func byPlace(p, q memstore.Place) int {
	return cmp.Or(cmp.Compare(p.Execution, q.Execution), cmp.Compare(p.Event, q.Event))
}

// claim claims a lease, mostly an existing one.
func (m *machine) claim() {
	g := m.drawClaim()
	if all := m.existing(); len(all) > 0 && !oneIn(m, 6) {
		g = draw(m, "lease", all...)
		g.Token = m.fresh("t")
	}
	m.claims = append(m.claims, g)
	worker := draw(m, "worker", "w1", "w2")
	m.both(fmt.Sprintf("claim %+v", g), func() (string, int64) {
		b := leases.ClaimRequest{Claim: claimOf(g), Worker: worker, TTL: ms(leaseTTL), MaxClaims: claims}
		c, err := redistest.Answer(func(done func(leases.ClaimReply, error)) { m.leases.Claim(b, done) })
		m.must(err)
		return fmt.Sprintf("%s %d", c.Outcome, c.Claims), 0
	}, func(s *memstore.Store, now int64) string {
		a, l := s.Claim(now, g, worker)
		if a != memstore.Acquired && a != memstore.Exhausted {
			l.Claims = 0
		}
		return fmt.Sprintf("%s %d", a, l.Claims)
	})
}

func (m *machine) renew() {
	claims := make([]memstore.Claim, draw(m, "leases", 1, 2, 3))
	sent := make([]leases.Claim, len(claims))
	for i := range claims {
		claims[i] = m.drawClaim()
		sent[i] = claimOf(claims[i])
	}
	m.both(fmt.Sprintf("renew %+v", claims), func() (string, int64) {
		out, err := redistest.Answer(func(done func([]leases.Outcome, error)) { m.leases.Renew(partition, sent, ms(leaseTTL), done) })
		m.must(err)
		words := make([]string, len(out))
		for i, o := range out {
			words[i] = o.String()
		}
		return fmt.Sprint(words), 0
	}, func(s *memstore.Store, now int64) string {
		out := make([]memstore.Answer, len(claims))
		for i, g := range claims {
			out[i] = s.RenewClaim(now, g)
		}
		return fmt.Sprint(out)
	})
}

func (m *machine) ack() {
	g := m.drawClaim()
	m.both(fmt.Sprintf("ack %+v", g), func() (string, int64) {
		c := leases.Completion{Claim: claimOf(g), Body: []byte(g.Effect)}
		a, err := redistest.Answer(func(done func(leases.Acked, error)) { m.leases.Ack(c, done) })
		m.must(err)
		return fmt.Sprintf("%s %d", a.Outcome, a.Inbox), a.Element.At
	}, func(s *memstore.Store, now int64) string {
		a, length := s.Ack(now, g)
		return fmt.Sprintf("%s %d", a, length)
	})
}

func (m *machine) abandon() {
	g, uncounted := m.drawClaim(), oneIn(m, 2)
	delay := draw(m, "delay", int64(0), 1000, 60_000)
	m.both(fmt.Sprintf("abandon %+v", g), func() (string, int64) {
		back := leases.ReleaseRequest{Claim: claimOf(g), Uncounted: uncounted, Delay: ms(delay)}
		o, err := redistest.Answer(func(done func(leases.Outcome, error)) { m.leases.Release(back, done) })
		m.must(err)
		return o.String(), 0
	}, func(s *memstore.Store, now int64) string { return string(s.Abandon(now, g, uncounted, delay)) })
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
