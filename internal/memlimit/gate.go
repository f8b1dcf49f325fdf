package memlimit

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
	QueueLimit   int   // 0: 10,000
	QueueTimeout int64 // 0: an hour; below: forever
	Reject       bool
	Paused       bool
}

// Force is a policy, and how new it is.
type Force struct {
	Policy   Policy
	Version  int
	Declared string
}

// Member is who asks.
type Member struct{ Ticket, Instance, Place, HeldByAncestor string }

// Waiter is a member in the queue. Its number, in µs, is both the order and the age.
type Waiter struct {
	Member Member
	Number int64
}

// Holder is a member that was admitted.
type Holder struct {
	Member Member
	Known  int64 // ms: when it was last known to be wanted
}

// Turned is a member that was rejected after waiting, and has not left yet.
type Turned struct {
	Member  Member
	Cleared bool // or it waited too long
	Told    int64
}

// Counts are the counters of a gate.
type Counts struct{ Entered, Completed, Withdrawn, TimedOut, Cleared, Rejected int }

// Gate is the keys of one gate as a value. Holders and rejected members are kept in the order of their members.
type Gate struct {
	Rules   Rules
	Keyed   bool // one of many: it is forgotten an hour after its last use
	Queue   []Waiter
	Holders []Holder
	Away    []Turned
	Grants  []int64 // ms; the times of those in the window, the newest last
	Force   Force
	Policed bool // it has been given a policy
	There   bool // it has been used
	Used    int64
	Last    int64 // the last number given
	Window  int64 // ms: when the quota's window began; 0: none has
	Spent   int   // of the quota
	Dead    bool  // deadlocked, at the last sweep
	Expires bool
	Count   Counts
}

// Rules are the intervals of the scripts, in ms, and the mistake that is made, if any.
type Rules struct {
	Stale int64 // a holder, or a rejected member, is asked about again after this
	Wrong Mistake
}

// NewGate gives a gate that has no members yet.
func NewGate(r Rules, p Policy) *Gate { return &Gate{Rules: r, Force: Force{Policy: p}, Policed: true} }

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
	LetIn    Kind = "admitted"
	Waits    Kind = "waits"
	Full     Kind = "full"
	Limited  Kind = "limited"
	TimedOut Kind = "timed out"
	Cleared  Kind = "cleared"
)

// Entry is a member that asks to be admitted, or reports that it has been.
type Entry struct {
	Member Member
	In     bool
}

// Leave is a member that leaves: whatever it does there or, if it is disowned, only if nothing was received about it after At.
type Leave struct {
	Member   Member
	Disowned bool
	At       int64 // ms
}

// Verdict is what became of an entry. Positions are from 1.
type Verdict struct {
	Kind     Kind
	Position int
	Until    int64 // ms: when it is rejected, or, if it was refused, when there is room again
}

// Admitted is the answer of Admit.
type Admitted struct {
	Verdicts         []Verdict
	Granted          []Member // of the members that waited
	Waiting, Holding int
	Until            int64 // ms: when rate and quota allow the next one; 0: they do
	Look             bool  // it is to be swept now: the queue was empty and is not any more, or waits for the rate or the quota now, and no more for a slot
}

// Admit takes leaves, admits waiters while there is room, and takes entries. The time is in µs.
func (g *Gate) Admit(now int64, f *Force, leave []Leave, enter []Entry) (a Admitted) {
	was := g.Clone()
	g.take(f)
	g.window(now)
	moved := false
	for _, l := range leave {
		if !l.Disowned || g.Heard(l.Member) <= l.At || g.Rules.Wrong == StampIgnored {
			moved = g.leave(l.Member) || moved
		}
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
	a.Waiting, a.Holding, a.Until = len(g.Queue), len(g.Holders), g.until(now)
	c := g.Force.Policy.Concurrency
	freed := c > 0 && len(was.Holders) >= c && len(g.Holders) < c
	a.Look = len(g.Queue) > 0 && (len(was.Queue) == 0 || freed && a.Until > 0)
	for i, e := range enter {
		g.place(&a.Verdicts[i], e.Member, a.Until)
	}
	used := moved || len(a.Granted)+len(enter) > 0
	if !was.There && !used {
		*g = *was // nothing is made of a gate that is not there
		return a
	}
	if g.There = true; used {
		g.Used = now / 1000
	}
	g.expire(now, was)
	return a
}

// place completes a verdict: a member that was waiting already has the position that it has when all are done.
func (g *Gate) place(v *Verdict, m Member, until int64) {
	switch {
	case v.Kind == Limited:
		v.Until = until
	case v.Kind != Waits || v.Position > 0:
	case g.Waiter(m) < 0:
		v.Kind = LetIn // a later entry of the same call has reported it admitted
	default:
		i := g.Waiter(m)
		v.Position, v.Until = i+1, g.deadline(g.Queue[i].Number)
	}
}

// take puts a policy in force unless it is older.
func (g *Gate) take(f *Force) {
	if f != nil && (f.Version >= g.Force.Version || g.Rules.Wrong == OlderPolicy) {
		g.Force, g.Policed = *f, true
	}
}

// window forgets the grants, and the quota's window, that do not count any more, or lie in the future.
func (g *Gate) window(now int64) {
	p, ms := g.Force.Policy, now/1000
	g.Grants = slices.DeleteFunc(g.Grants, func(at int64) bool { return p.Rate == 0 || at > ms || at+p.RateWindow <= ms })
}

// inside reports whether the quota's window is open.
func (g *Gate) inside(now int64) bool {
	ms := now / 1000
	return g.Window > 0 && g.Window <= ms && ms < g.Window+g.Force.Policy.QuotaWindow
}

// until is when rate and quota allow the next one, 0 if they do.
func (g *Gate) until(now int64) (at int64) {
	p := g.Force.Policy
	if n := len(g.Grants); p.Rate > 0 && n >= p.Rate {
		at = g.Grants[n-p.Rate] + p.RateWindow
	}
	if p.Quota > 0 && g.inside(now) && g.Spent >= p.Quota {
		at = max(at, g.Window+p.QuotaWindow)
	}
	return at
}

func (p Policy) timeout() int64 {
	if p.QueueTimeout == 0 {
		return 3_600_000
	}
	return p.QueueTimeout
}

// deadline is when the waiter of this number is rejected, in ms; 0 for never.
func (g *Gate) deadline(number int64) int64 {
	if g.Force.Policy.timeout() < 0 {
		return 0
	}
	return (number+999)/1000 + g.Force.Policy.timeout()
}

// expire: one of many that is empty is forgotten in an hour, or when the window of its quota is over.
func (g *Gate) expire(now int64, was *Gate) {
	if !g.Keyed {
		return
	}
	switch {
	case g.Empty():
		at := g.Used + 3_600_000
		if p := g.Force.Policy; p.Rate > 0 {
			at = g.Used + max(3_600_000, p.RateWindow)
		}
		if g.Force.Policy.Quota > 0 && g.inside(now) {
			at = max(at, g.Window+g.Force.Policy.QuotaWindow)
		}
		if g.Expires = true; at <= now/1000 {
			*g = Gate{Rules: g.Rules, Keyed: true}
		}
	case was.Empty():
		g.Expires = false
	}
}

// Empty reports whether there are no waiters, no holders, and no rejected members to notify.
func (g *Gate) Empty() bool { return len(g.Queue)+len(g.Holders)+len(g.Away) == 0 }

// Heard is when something was last received about a member, in ms: about a waiter, when it came.
func (g *Gate) Heard(m Member) int64 {
	if i := g.Holder(m); i >= 0 {
		return g.Holders[i].Known
	}
	if i := g.Waiter(m); i >= 0 {
		return g.Queue[i].Number/1000 + 1
	}
	if i := g.Turned(m); i >= 0 {
		return g.Away[i].Told
	}
	return 0
}

func (g *Gate) leave(m Member) (moved bool) {
	if i := g.Holder(m); i >= 0 {
		g.Holders = slices.Delete(g.Holders, i, i+1)
		g.Count.Completed++
		moved = true
	}
	if i := g.Waiter(m); i >= 0 {
		g.Queue = slices.Delete(g.Queue, i, i+1)
		g.Count.Withdrawn++
		moved = true
	}
	if i := g.Turned(m); i >= 0 {
		g.Away = slices.Delete(g.Away, i, i+1)
		moved = true
	}
	if !moved && g.Rules.Wrong == CountedTwice {
		g.Count.Completed++
	}
	return moved
}

// promote admits waiters, in order, while there is room.
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
	if i := g.Holder(e.Member); i >= 0 {
		g.Holders[i].Known = now / 1000
		return Verdict{Kind: LetIn}
	}
	if e.In {
		g.restore(now, e.Member)
		return Verdict{Kind: LetIn}
	}
	if i := g.Turned(e.Member); i >= 0 {
		if g.Away[i].Cleared {
			return Verdict{Kind: Cleared}
		}
		return Verdict{Kind: TimedOut}
	}
	if i := g.Waiter(e.Member); i >= 0 && g.Rules.Wrong != EnterTwice {
		return Verdict{Kind: Waits}
	} else if i >= 0 {
		g.Queue = slices.Delete(g.Queue, i, i+1)
		g.Count.Entered--
	}
	if g.room(now) && (len(g.Queue) == 0 || g.Rules.Wrong == Overtakes) {
		g.Count.Entered++
		g.grant(now, e.Member)
		return Verdict{Kind: LetIn}
	}
	p := g.Force.Policy
	if p.Reject || len(g.Queue) >= cmp.Or(p.QueueLimit, 10_000) {
		g.Count.Rejected++
		if p.Reject {
			return Verdict{Kind: Limited}
		}
		return Verdict{Kind: Full}
	}
	g.Count.Entered++
	g.Last = max(now, g.Last+1)
	g.Queue = append(g.Queue, Waiter{e.Member, g.Last})
	return Verdict{Kind: Waits, Position: len(g.Queue), Until: g.deadline(g.Last)}
}

// restore makes a holder of a member that its instance reports as admitted, whatever the limit. What the gate
// had recorded of it was forgotten, or is from before a rollback, and its count is taken back.
func (g *Gate) restore(now int64, m Member) {
	if i := g.Waiter(m); i >= 0 {
		if g.Rules.Wrong != RestoredTwice {
			g.Queue = slices.Delete(g.Queue, i, i+1)
		}
		g.Count.Entered--
	}
	if i := g.Turned(m); i >= 0 {
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
	p := g.Force.Policy
	if p.Rate > 0 && g.Rules.Wrong != RateUnseen {
		g.Grants = append(g.Grants, now/1000)
	}
	if p.Quota > 0 {
		if !g.inside(now) {
			g.Window, g.Spent = now/1000, 0
		}
		g.Spent++
	}
}

func (g *Gate) hold(now int64, m Member) {
	i, _ := slices.BinarySearchFunc(g.Holders, m, func(h Holder, m Member) int { return byMember(h.Member, m) })
	g.Holders = slices.Insert(g.Holders, i, Holder{m, now / 1000})
}

// room reports whether one more may be admitted now.
func (g *Gate) room(now int64) bool {
	p := g.Force.Policy
	return !p.Paused && (p.Concurrency == 0 || len(g.Holders) < p.Concurrency) &&
		(p.Rate == 0 || len(g.Grants) < p.Rate) &&
		(p.Quota == 0 || !g.inside(now) || g.Spent < p.Quota)
}

// Swept is the answer of Sweep.
type Swept struct {
	Granted          []Member
	Away             []Turned // the rejected members to notify again
	Stale            []Member // holders that have not been known as wanted for a while
	Waiting, Holding int
	Until            int64
	Next             int64 // ms: when to sweep again; 0: there are no members
	Idle             int64 // ms since the last use; 0 unless it is empty
	Deadlocked       bool
	Force            Force // the policy in force, also of a gate that expires at the end of the sweep
}

// Sweep takes the policy, rejects the waiters that have waited too long, admits others while there is room, and returns what to ask about.
func (g *Gate) Sweep(now int64, f *Force) (s Swept) {
	was, ms := g.Clone(), now/1000
	g.take(f)
	s.Force = g.Force
	if !g.There && g.Empty() {
		*g = *was // a sweep creates nothing
		return Swept{Idle: 86_400_000, Force: s.Force}
	}
	g.window(now)
	for i := range g.Holders { // a waiter that is admitted below is not asked about
		if h := &g.Holders[i]; h.Known+g.Rules.Stale <= ms || h.Known > ms {
			h.Known = ms
			s.Stale = append(s.Stale, h.Member)
		}
	}
	if g.Rules.Wrong == SweepFrees {
		for _, m := range s.Stale {
			g.leave(m)
		}
	}
	for t := g.Force.Policy.timeout(); t >= 0 && len(g.Queue) > 0 && g.Queue[0].Number+t*1000 <= now; {
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
	g.Used = min(g.Used, ms)
	g.Dead = g.Deadlocked()
	s.Waiting, s.Holding, s.Until, s.Deadlocked = len(g.Queue), len(g.Holders), g.until(now), g.Dead
	s.Next = g.next(now)
	if g.Empty() {
		s.Idle = ms - g.Used
	}
	g.expire(now, was)
	return s
}

// next is when to look again.
func (g *Gate) next(now int64) int64 {
	if g.Empty() {
		return 0
	}
	ms, c := now/1000, g.Force.Policy.Concurrency
	next := ms + g.Rules.Stale
	if len(g.Queue) > 0 {
		if till := g.until(now); till > 0 && (c == 0 || len(g.Holders) < c) {
			next = min(next, till)
		}
		if late := g.deadline(g.Queue[0].Number); late > 0 {
			next = min(next, late)
		}
	}
	return max(next, ms+1)
}

// Clear rejects all waiters.
func (g *Gate) Clear(now int64) (n int) {
	if n = len(g.Queue); n > 0 {
		g.window(now)
	}
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

// Deadlocked reports whether no more can be admitted because every holder waits for a waiter of this gate, or for a holder that does.
func (g *Gate) Deadlocked() bool {
	c := g.Force.Policy.Concurrency
	if c == 0 || len(g.Holders) < c {
		return false
	}
	blocked := map[string]bool{}
	for _, w := range g.Queue {
		for up := w.Member.HeldByAncestor; up != ""; {
			i := slices.IndexFunc(g.Holders, func(h Holder) bool { return h.Member.Ticket == up })
			if i < 0 || blocked[up] {
				break
			}
			blocked[up] = true
			up = g.Holders[i].Member.HeldByAncestor
		}
	}
	return len(blocked) == len(g.Holders)
}

// Check gives the invariant that does not hold, or nothing.
func (g *Gate) Check() string {
	for _, h := range g.Holders {
		if g.Waiter(h.Member) >= 0 || g.Turned(h.Member) >= 0 {
			return h.Member.Ticket + " holds, and waits or is rejected"
		}
	}
	for i, w := range g.Queue {
		if g.Turned(w.Member) >= 0 {
			return w.Member.Ticket + " waits, and is rejected"
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

// Holder is the place of a member among the holders; below 0: it is none.
func (g *Gate) Holder(m Member) int {
	return slices.IndexFunc(g.Holders, func(h Holder) bool { return h.Member == m })
}

// Waiter is the place of a member in the queue; below 0: it is not there.
func (g *Gate) Waiter(m Member) int {
	return slices.IndexFunc(g.Queue, func(w Waiter) bool { return w.Member == m })
}

// Turned is the place of a member among the rejected; below 0: it is none.
func (g *Gate) Turned(m Member) int {
	return slices.IndexFunc(g.Away, func(t Turned) bool { return t.Member == m })
}

func byMember(a, b Member) int {
	return cmp.Or(cmp.Compare(a.Ticket, b.Ticket), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Place, b.Place))
}
