package memlimit

import (
	"cmp"
	"slices"
)

// Policy is the policy of a limit. Times are in ms.
type Policy struct {
	Concurrency  int
	Rate         int
	RateWindow   int64
	Quota        int
	QuotaWindow  int64
	QueueLimit   int   // 0: 10,000
	QueueTimeout int64 // 0: an hour; negative: forever
	Reject       bool
	Paused       bool
}

// Force is a policy with its version.
type Force struct {
	Policy   Policy
	Version  int
	Declared string
}

// Member is a caller at a limit.
type Member struct{ Ticket, Instance, Place, HeldByAncestor string }

// Waiter is a waiting member. Its number determines the order, and is the time of its entry in µs.
type Waiter struct {
	Member Member
	Number int64
}

// Holder is a member that was admitted.
type Holder struct {
	Member Member
	Known  int64 // time at which it was last known to be required, ms
}

// Rejection is a member that was rejected after waiting and has not left yet.
type Rejection struct {
	Member    Member
	Cleared   bool  // cleared; otherwise it timed out
	NoticedAt int64 // time of the last notice to its owner, ms; 0: none
}

// Counts are the counters of a limit.
type Counts struct{ Entered, Completed, Withdrawn, TimedOut, Cleared, Rejected int }

// Limit is the state of one limit, the keys of the scripts, as a value. Holders and Rejections are sorted by member.
type Limit struct {
	Rules         Rules
	Keyed         bool // the limit of one value of a key: it expires an hour after its last use
	Queue         []Waiter
	Holders       []Holder
	Rejections    []Rejection
	Grants        []int64 // times of the grants in the window, ms, ascending
	Force         Force
	HasPolicy     bool  // it has received a policy
	Exists        bool  // it exists: it has been used
	Used          int64 // time of the last use, ms
	Last          int64 // the last number assigned
	Window        int64 // start of the quota window, ms; 0: none
	Spent         int   // grants in the quota window
	WasDeadlocked bool  // deadlocked at the last sweep
	Expires       bool  // it is empty and keyed
	Count         Counts
}

// Rules are the intervals of the scripts, in ms, and the mistake to make, if any.
type Rules struct {
	Stale int64 // time after which a holder is checked, or the owner of a rejected member notified, again
	Wrong Mistake
}

// Clone returns a deep copy.
func (g *Limit) Clone() *Limit {
	c := *g
	c.Queue, c.Holders = slices.Clone(g.Queue), slices.Clone(g.Holders)
	c.Rejections, c.Grants = slices.Clone(g.Rejections), slices.Clone(g.Grants)
	return &c
}

// Kind is the outcome of an entry.
type Kind string

// The kinds.
const (
	Admitted Kind = "admitted"
	Waits    Kind = "waits"
	Full     Kind = "full"
	Limited  Kind = "limited"
	TimedOut Kind = "timed out"
	Cleared  Kind = "cleared"
)

// Entry is a member that requests admission.
type Entry struct {
	Member Member
	Active bool // it reports that it was admitted before
}

// Leave is a member that leaves.
type Leave struct {
	Member   Member
	Orphaned bool  // it is an orphan: it leaves only if it was not active after At
	At       int64 // ms
}

// Verdict is the outcome of an entry. Positions start at 1.
type Verdict struct {
	Kind     Kind
	Position int
	Until    int64 // ms; of a waiter: when it times out; of a rejected member: when rate and quota allow the next grant
}

// AdmitReply is the result of Admit.
type AdmitReply struct {
	Verdicts         []Verdict
	Granted          []Member // former waiters
	Waiting, Holding int
	Until            int64 // when rate and quota allow the next grant, ms; 0: they do now
	SweepNow         bool  // it must be swept now: it has waiters and had none before, or its waiters waited for a slot and now wait for the rate or the quota
}

// Admit processes leaves, admits waiters while there is room, and processes entries. The time is in µs.
func (g *Limit) Admit(now int64, f *Force, leave []Leave, enter []Entry) (a AdmitReply) {
	was := g.Clone()
	g.applyPolicy(f)
	g.dropGrants(now)
	moved := false
	for _, l := range leave {
		if !l.Orphaned || g.LastActive(l.Member) <= l.At || g.Rules.Wrong == StampIgnored {
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
	a.Waiting, a.Holding, a.Until = len(g.Queue), len(g.Holders), g.limitedUntil(now)
	c := g.Force.Policy.Concurrency
	freed := c > 0 && len(was.Holders) >= c && len(g.Holders) < c
	a.SweepNow = len(g.Queue) > 0 && (len(was.Queue) == 0 || freed && a.Until > 0)
	for i, e := range enter {
		g.place(&a.Verdicts[i], e.Member, a.Until)
	}
	used := moved || len(a.Granted)+len(enter) > 0
	if !was.Exists && !used {
		*g = *was // a limit that does not exist is not created
		return a
	}
	if g.Exists = true; used {
		g.Used = now / 1000
	}
	g.expire(now, was)
	return a
}

// place completes a verdict: the position of a member that was waiting already is determined after all entries.
func (g *Limit) place(v *Verdict, m Member, until int64) {
	switch {
	case v.Kind == Limited:
		v.Until = until
	case v.Kind != Waits || v.Position > 0:
	case g.Waiter(m) < 0:
		v.Kind = Admitted // a later entry of the same call has restored it as a holder
	default:
		i := g.Waiter(m)
		v.Position, v.Until = i+1, g.deadline(g.Queue[i].Number)
	}
}

// applyPolicy applies a policy unless it is older than the current one.
func (g *Limit) applyPolicy(f *Force) {
	if f != nil && (f.Version >= g.Force.Version || g.Rules.Wrong == OlderPolicy) {
		g.Force, g.HasPolicy = *f, true
	}
}

// dropGrants removes the grants that are outside the rate window or in the future.
func (g *Limit) dropGrants(now int64) {
	p, ms := g.Force.Policy, now/1000
	g.Grants = slices.DeleteFunc(g.Grants, func(at int64) bool { return p.Rate == 0 || at > ms || at+p.RateWindow <= ms })
}

// quotaOpen reports whether the quota window is open.
func (g *Limit) quotaOpen(now int64) bool {
	ms := now / 1000
	return g.Window > 0 && g.Window <= ms && ms < g.Window+g.Force.Policy.QuotaWindow
}

// limitedUntil returns the time at which rate and quota allow the next grant, ms, or 0 if they allow one now.
func (g *Limit) limitedUntil(now int64) (at int64) {
	p := g.Force.Policy
	if n := len(g.Grants); p.Rate > 0 && n >= p.Rate {
		at = g.Grants[n-p.Rate] + p.RateWindow
	}
	if p.Quota > 0 && g.quotaOpen(now) && g.Spent >= p.Quota {
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

// deadline returns the time at which the waiter with the number times out, ms; 0: never.
func (g *Limit) deadline(number int64) int64 {
	if g.Force.Policy.timeout() < 0 {
		return 0
	}
	return (number+999)/1000 + g.Force.Policy.timeout()
}

// expire resets an empty keyed limit an hour after its last use, but not before its rate and quota windows end.
func (g *Limit) expire(now int64, was *Limit) {
	if !g.Keyed {
		return
	}
	switch {
	case g.Empty():
		at := g.Used + 3_600_000
		if p := g.Force.Policy; p.Rate > 0 {
			at = g.Used + max(3_600_000, p.RateWindow)
		}
		if g.Force.Policy.Quota > 0 && g.quotaOpen(now) {
			at = max(at, g.Window+g.Force.Policy.QuotaWindow)
		}
		if g.Expires = true; at <= now/1000 {
			*g = Limit{Rules: g.Rules, Keyed: true}
		}
	case was.Empty():
		g.Expires = false
	}
}

// Empty reports whether there are no waiters, no holders, and no rejected members to notify.
func (g *Limit) Empty() bool { return len(g.Queue)+len(g.Holders)+len(g.Rejections) == 0 }

// LastActive returns the time at which a member was last active, ms; for a waiter, the time of its entry.
func (g *Limit) LastActive(m Member) int64 {
	if i := g.Holder(m); i >= 0 {
		return g.Holders[i].Known
	}
	if i := g.Waiter(m); i >= 0 {
		return g.Queue[i].Number/1000 + 1
	}
	if i := g.Rejection(m); i >= 0 {
		return g.Rejections[i].NoticedAt
	}
	return 0
}

func (g *Limit) leave(m Member) (moved bool) {
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
	if i := g.Rejection(m); i >= 0 {
		g.Rejections = slices.Delete(g.Rejections, i, i+1)
		moved = true
	}
	if !moved && g.Rules.Wrong == CountedTwice {
		g.Count.Completed++
	}
	return moved
}

// promote admits waiters in FIFO order while there is room, and returns them.
func (g *Limit) promote(now int64) (in []Member) {
	for len(g.Queue) > 0 && g.room(now) {
		m := g.Queue[0].Member
		g.Queue = g.Queue[1:]
		g.grant(now, m)
		in = append(in, m)
	}
	return in
}

func (g *Limit) enter(now int64, e Entry) Verdict {
	if g.Rules.Wrong == RestoredRefused {
		e.Active = false
	}
	if i := g.Holder(e.Member); i >= 0 {
		g.Holders[i].Known = now / 1000
		return Verdict{Kind: Admitted}
	}
	if e.Active {
		g.restore(now, e.Member)
		return Verdict{Kind: Admitted}
	}
	if i := g.Rejection(e.Member); i >= 0 {
		if g.Rejections[i].Cleared {
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
		return Verdict{Kind: Admitted}
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

// restore makes a member a holder because its instance reports it as admitted, regardless of the limit. The limit's record of the member
// was lost or predates a rollback, so its counts are undone.
func (g *Limit) restore(now int64, m Member) {
	if i := g.Waiter(m); i >= 0 {
		if g.Rules.Wrong != RestoredTwice {
			g.Queue = slices.Delete(g.Queue, i, i+1)
		}
		g.Count.Entered--
	}
	if i := g.Rejection(m); i >= 0 {
		g.Count.Entered--
		if g.Rejections[i].Cleared {
			g.Count.Cleared--
		} else {
			g.Count.TimedOut--
		}
		g.Rejections = slices.Delete(g.Rejections, i, i+1)
	}
	g.Count.Entered++
	g.hold(now, m)
}

func (g *Limit) grant(now int64, m Member) {
	g.hold(now, m)
	p := g.Force.Policy
	if p.Rate > 0 && g.Rules.Wrong != RateUnseen {
		g.Grants = append(g.Grants, now/1000)
	}
	if p.Quota > 0 {
		if !g.quotaOpen(now) {
			g.Window, g.Spent = now/1000, 0
		}
		g.Spent++
	}
}

func (g *Limit) hold(now int64, m Member) {
	i, _ := slices.BinarySearchFunc(g.Holders, m, func(h Holder, m Member) int { return byMember(h.Member, m) })
	g.Holders = slices.Insert(g.Holders, i, Holder{m, now / 1000})
}

// room reports whether one more may be admitted now.
func (g *Limit) room(now int64) bool {
	p := g.Force.Policy
	return !p.Paused && (p.Concurrency == 0 || len(g.Holders) < p.Concurrency) &&
		(p.Rate == 0 || len(g.Grants) < p.Rate) &&
		(p.Quota == 0 || !g.quotaOpen(now) || g.Spent < p.Quota)
}

// SweepReply is the result of Sweep.
type SweepReply struct {
	Granted          []Member
	Rejected         []Rejection // rejected members whose owners must be notified
	Stale            []Member    // holders that must be checked
	Waiting, Holding int
	Until            int64
	Next             int64 // time of the next sweep, ms; 0: there are no members
	Idle             int64 // ms since the last use; 0 unless it is empty
	Deadlocked       bool
	Force            Force // the policy in force, even if the limit expires at the end of the sweep
}

// Sweep applies the policy, rejects the waiters that have waited too long, admits waiters while there is room, and returns the members to
// notify or check.
func (g *Limit) Sweep(now int64, f *Force) (s SweepReply) {
	was, ms := g.Clone(), now/1000
	g.applyPolicy(f)
	s.Force = g.Force
	if !g.Exists && g.Empty() {
		*g = *was // a sweep does not create a limit
		return SweepReply{Idle: 86_400_000, Force: s.Force}
	}
	g.dropGrants(now)
	for i := range g.Holders { // before the admissions, because new holders need no check
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
		g.reject(m, false)
	}
	s.Granted = g.promote(now)
	for i := range g.Rejections {
		if a := &g.Rejections[i]; a.NoticedAt+g.Rules.Stale <= ms || a.NoticedAt > ms {
			a.NoticedAt = ms
			s.Rejected = append(s.Rejected, *a)
		}
	}
	g.Used = min(g.Used, ms)
	g.WasDeadlocked = g.Deadlocked()
	s.Waiting, s.Holding, s.Until, s.Deadlocked = len(g.Queue), len(g.Holders), g.limitedUntil(now), g.WasDeadlocked
	s.Next = g.next(now)
	if g.Empty() {
		s.Idle = ms - g.Used
	}
	g.expire(now, was)
	return s
}

// next returns the time of the next sweep, ms.
func (g *Limit) next(now int64) int64 {
	if g.Empty() {
		return 0
	}
	ms, c := now/1000, g.Force.Policy.Concurrency
	next := ms + g.Rules.Stale
	if len(g.Queue) > 0 {
		if till := g.limitedUntil(now); till > 0 && (c == 0 || len(g.Holders) < c) {
			next = min(next, till)
		}
		if late := g.deadline(g.Queue[0].Number); late > 0 {
			next = min(next, late)
		}
	}
	return max(next, ms+1)
}

// Clear rejects all waiters.
func (g *Limit) Clear(now int64) (n int) {
	if n = len(g.Queue); n > 0 {
		g.dropGrants(now)
	}
	for _, w := range g.Queue {
		g.Count.Cleared++
		g.reject(w.Member, true)
	}
	g.Queue = nil
	return n
}

func (g *Limit) reject(m Member, cleared bool) {
	if g.Rules.Wrong == RejectionLost {
		return
	}
	i, _ := slices.BinarySearchFunc(g.Rejections, m, func(t Rejection, m Member) int { return byMember(t.Member, m) })
	g.Rejections = slices.Insert(g.Rejections, i, Rejection{Member: m, Cleared: cleared})
}

// Deadlocked reports whether there is no room because every holder has a waiter among its descendants.
func (g *Limit) Deadlocked() bool {
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

// Check returns the first violated invariant, or "".
func (g *Limit) Check() string {
	for _, h := range g.Holders {
		if g.Waiter(h.Member) >= 0 || g.Rejection(h.Member) >= 0 {
			return h.Member.Ticket + " holds, and waits or is rejected"
		}
	}
	for i, w := range g.Queue {
		if g.Rejection(w.Member) >= 0 {
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

// Holder returns the index of a member among the holders, or -1.
func (g *Limit) Holder(m Member) int {
	return slices.IndexFunc(g.Holders, func(h Holder) bool { return h.Member == m })
}

// Waiter returns the index of a member among the waiters, or -1.
func (g *Limit) Waiter(m Member) int {
	return slices.IndexFunc(g.Queue, func(w Waiter) bool { return w.Member == m })
}

// Rejection returns the index of a member among the rejected members, or -1.
func (g *Limit) Rejection(m Member) int {
	return slices.IndexFunc(g.Rejections, func(t Rejection) bool { return t.Member == m })
}

func byMember(a, b Member) int {
	return cmp.Or(cmp.Compare(a.Ticket, b.Ticket), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Place, b.Place))
}
