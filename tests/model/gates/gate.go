package gates

import (
	"cmp"
	"slices"
)

// Policy limits a gate; times are in ms.
type Policy struct {
	Concurrency  int
	Rate         int
	RateWindow   int64
	Quota        int
	QuotaWindow  int64
	QueueLimit   int
	QueueTimeout int64 // below zero: for ever
	Reject       bool
}

// Member is who asks.
type Member struct{ Ticket, Instance, Place, Under string }

// Waiter is a member in the queue. Its number, in µs, is both the order and the age.
type Waiter struct {
	Member Member
	Number int64
}

// Holder is a member that was let in.
type Holder struct {
	Member Member
	Known  int64 // ms: when it was last known to be wanted
}

// Turned is a member that was turned away after waiting, and has not left yet.
type Turned struct {
	Member  Member
	Cleared bool // or it waited too long
	Told    int64
}

// Counts are the counters of a gate.
type Counts struct{ Entered, Completed, Withdrawn, TimedOut, Cleared, Rejected int }

// Gate is the keys of one gate as a value. Holders and turned away are kept in the order of their members.
type Gate struct {
	Rules   Rules
	Queue   []Waiter
	Holders []Holder
	Away    []Turned
	Grants  []int64 // ms; the times of the last ones, the newest last
	Policy  Policy
	Version int
	Last    int64 // the last number given
	Window  int64 // ms: when the quota's window began; 0: none has
	Used    int   // of the quota
	Count   Counts
}

// Rules are the intervals of the scripts, in ms, and the mistake that is made, if any.
type Rules struct {
	Stale int64 // a holder, or who was turned away, is asked about again after this
	Wrong Mistake
}

// NewGate gives a gate that nobody has come to.
func NewGate(r Rules, p Policy) *Gate { return &Gate{Rules: r, Policy: p} }

// Clone gives a copy that shares nothing.
func (g *Gate) Clone() *Gate {
	c := *g
	c.Queue, c.Holders = slices.Clone(g.Queue), slices.Clone(g.Holders)
	c.Away, c.Grants = slices.Clone(g.Away), slices.Clone(g.Grants)
	return &c
}

// Kind is what became of an entry.
type Kind string

// The kinds.
const (
	LetIn    Kind = "let in"
	Waits    Kind = "waits"
	Full     Kind = "full"
	Limited  Kind = "limited"
	TimedOut Kind = "timed out"
	Cleared  Kind = "cleared"
)

// Entry is a member that asks to be let in, or says that it has been.
type Entry struct {
	Member Member
	In     bool
}

// Verdict is what became of an entry, and the place of one that waits, from 1.
type Verdict struct {
	Kind     Kind
	Position int
}

// Admitted is the answer of Admit.
type Admitted struct {
	Verdicts []Verdict
	Granted  []Member // of those who waited
	First    bool     // the queue was empty and is not any more
}

// Admit takes leaves, lets in who waits while there is room, and takes entries. The time is in µs.
func (g *Gate) Admit(now int64, leave []Member, enter []Entry) (a Admitted) {
	empty := len(g.Queue) == 0
	for _, m := range leave {
		g.leave(m)
	}
	if g.Rules.Wrong != Overtakes {
		a.Granted = g.promote(now)
	}
	for _, e := range enter {
		a.Verdicts = append(a.Verdicts, g.enter(now, e))
	}
	if g.Rules.Wrong == Overtakes {
		a.Granted = g.promote(now)
	}
	a.First = empty && len(g.Queue) > 0
	return a
}

func (g *Gate) leave(m Member) {
	if i := g.holder(m); i >= 0 {
		g.Holders = slices.Delete(g.Holders, i, i+1)
		g.Count.Completed++
	}
	if i := g.waiter(m); i >= 0 {
		g.Queue = slices.Delete(g.Queue, i, i+1)
		g.Count.Withdrawn++
	}
	if i := g.turned(m); i >= 0 {
		g.Away = slices.Delete(g.Away, i, i+1)
	} else if g.Rules.Wrong == CountedTwice {
		g.Count.Completed++
	}
}

// promote lets in who waits, in order, while there is room.
func (g *Gate) promote(now int64) (in []Member) {
	for len(g.Queue) > 0 && g.room(now) {
		m := g.Queue[0].Member
		g.Queue = g.Queue[1:]
		g.grant(now, m)
		in = append(in, m)
	}
	return in
}

func (g *Gate) enter(now int64, e Entry) Verdict {
	if g.Rules.Wrong == RestoredRefused {
		e.In = false
	}
	if i := g.holder(e.Member); i >= 0 {
		g.Holders[i].Known = max(g.Holders[i].Known, now/1000)
		return Verdict{Kind: LetIn}
	}
	if e.In {
		g.restore(now, e.Member)
		return Verdict{Kind: LetIn}
	}
	if i := g.turned(e.Member); i >= 0 {
		if g.Away[i].Cleared {
			return Verdict{Kind: Cleared}
		}
		return Verdict{Kind: TimedOut}
	}
	if i := g.waiter(e.Member); i >= 0 && g.Rules.Wrong != EnterTwice {
		return Verdict{Kind: Waits, Position: i + 1}
	} else if i >= 0 {
		g.Queue = slices.Delete(g.Queue, i, i+1)
		g.Count.Entered--
	}
	if g.room(now) && (len(g.Queue) == 0 || g.Rules.Wrong == Overtakes) {
		g.Count.Entered++
		g.grant(now, e.Member)
		return Verdict{Kind: LetIn}
	}
	switch {
	case g.Policy.Reject:
		g.Count.Rejected++
		return Verdict{Kind: Limited}
	case g.Policy.QueueLimit > 0 && len(g.Queue) >= g.Policy.QueueLimit:
		g.Count.Rejected++
		return Verdict{Kind: Full}
	}
	g.Count.Entered++
	g.Last = max(now, g.Last+1)
	g.Queue = append(g.Queue, Waiter{e.Member, g.Last})
	return Verdict{Kind: Waits, Position: len(g.Queue)}
}

// restore makes a holder of who has been let in, as its instance says, whatever the limit. What the gate
// believed of it was forgotten, or is from before a rollback, and its count is taken back.
func (g *Gate) restore(now int64, m Member) {
	if i := g.waiter(m); i >= 0 {
		if g.Rules.Wrong != RestoredTwice {
			g.Queue = slices.Delete(g.Queue, i, i+1)
		}
		g.Count.Entered--
	}
	if i := g.turned(m); i >= 0 {
		g.Count.Entered--
		if g.Away[i].Cleared {
			g.Count.Cleared--
		} else {
			g.Count.TimedOut--
		}
		g.Away = slices.Delete(g.Away, i, i+1)
	}
	g.Count.Entered++
	g.hold(now, m)
}

func (g *Gate) grant(now int64, m Member) {
	g.hold(now, m)
	ms := now / 1000
	if p := g.Policy; p.Rate > 0 && g.Rules.Wrong != RateUnseen {
		g.Grants = append(g.Grants, ms)
		g.Grants = g.Grants[max(0, len(g.Grants)-p.Rate):]
	}
	if p := g.Policy; p.Quota > 0 {
		if g.Window == 0 || ms >= g.Window+p.QuotaWindow || ms < g.Window {
			g.Window, g.Used = ms, 0
		}
		g.Used++
	}
}

func (g *Gate) hold(now int64, m Member) {
	i, _ := slices.BinarySearchFunc(g.Holders, m, func(h Holder, m Member) int { return byMember(h.Member, m) })
	g.Holders = slices.Insert(g.Holders, i, Holder{m, now / 1000})
}

// room tells whether one more may be let in now.
func (g *Gate) room(now int64) bool {
	p, ms := g.Policy, now/1000
	if p.Concurrency > 0 && len(g.Holders) >= p.Concurrency {
		return false
	}
	if n := len(g.Grants); p.Rate > 0 && n >= p.Rate {
		if at := g.Grants[n-p.Rate]; at <= ms && at+p.RateWindow > ms {
			return false
		}
	}
	inside := g.Window > 0 && ms >= g.Window && ms < g.Window+p.QuotaWindow
	return p.Quota == 0 || !inside || g.Used < p.Quota
}

// Swept is the answer of Sweep.
type Swept struct {
	Granted []Member
	Away    []Turned // who must be told again
	Stale   []Member // holders that have not been known as wanted for a while
}

// Sweep takes the policy if it is not older than the one it has, turns away who has waited too long, lets in while
// there is room, and tells whom to ask.
func (g *Gate) Sweep(now int64, p *Policy, version int) (s Swept) {
	if p != nil && (version >= g.Version || g.Rules.Wrong == OlderPolicy) {
		g.Policy, g.Version = *p, version
	}
	ms := now / 1000
	for t := g.Policy.QueueTimeout; t > 0 && len(g.Queue) > 0 && g.Queue[0].Number+t*1000 <= now; {
		g.Count.TimedOut++
		m := g.Queue[0].Member
		g.Queue = g.Queue[1:]
		g.turn(m, false)
	}
	s.Granted = g.promote(now)
	for i := range g.Away {
		if a := &g.Away[i]; a.Told+g.Rules.Stale <= ms || a.Told > ms {
			a.Told = ms
			s.Away = append(s.Away, *a)
		}
	}
	for i := 0; i < len(g.Holders); i++ {
		h := &g.Holders[i]
		if h.Known+g.Rules.Stale > ms && h.Known <= ms {
			continue
		}
		h.Known = ms
		s.Stale = append(s.Stale, h.Member)
		if g.Rules.Wrong == SweepFrees {
			g.leave(h.Member)
			i--
		}
	}
	return s
}

// Clear turns away everybody who waits.
func (g *Gate) Clear() (n int) {
	n = len(g.Queue)
	for _, w := range g.Queue {
		g.Count.Cleared++
		g.turn(w.Member, true)
	}
	g.Queue = nil
	return n
}

func (g *Gate) turn(m Member, cleared bool) {
	if g.Rules.Wrong == AwayForgotten {
		return
	}
	i, _ := slices.BinarySearchFunc(g.Away, m, func(t Turned, m Member) int { return byMember(t.Member, m) })
	g.Away = slices.Insert(g.Away, i, Turned{Member: m, Cleared: cleared})
}

// Deadlocked tells whether nobody more can be let in because every holder waits for one who waits here.
func (g *Gate) Deadlocked() bool {
	if g.Policy.Concurrency == 0 || len(g.Holders) < g.Policy.Concurrency || len(g.Holders) == 0 {
		return false
	}
	return !slices.ContainsFunc(g.Holders, func(h Holder) bool {
		return !slices.ContainsFunc(g.Queue, func(w Waiter) bool { return w.Member.Under == h.Member.Ticket })
	})
}

// Check gives the invariant that does not hold, or nothing.
func (g *Gate) Check() string {
	for _, h := range g.Holders {
		if g.waiter(h.Member) >= 0 || g.turned(h.Member) >= 0 {
			return h.Member.Ticket + " holds, and waits or is turned away"
		}
	}
	for i, w := range g.Queue {
		if g.turned(w.Member) >= 0 {
			return w.Member.Ticket + " waits, and is turned away"
		}
		if i > 0 && g.Queue[i-1].Number >= w.Number {
			return w.Member.Ticket + " has the number of another"
		}
	}
	if c := g.Count; c.Entered != len(g.Queue)+len(g.Holders)+c.Completed+c.Withdrawn+c.TimedOut+c.Cleared {
		return "the counters do not add up"
	}
	return ""
}

func (g *Gate) holder(m Member) int {
	return slices.IndexFunc(g.Holders, func(h Holder) bool { return h.Member == m })
}

func (g *Gate) waiter(m Member) int {
	return slices.IndexFunc(g.Queue, func(w Waiter) bool { return w.Member == m })
}

func (g *Gate) turned(m Member) int {
	return slices.IndexFunc(g.Away, func(t Turned) bool { return t.Member == m })
}

func byMember(a, b Member) int {
	return cmp.Or(cmp.Compare(a.Ticket, b.Ticket), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Place, b.Place))
}
