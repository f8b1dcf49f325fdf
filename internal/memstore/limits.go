package memstore

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/memlimit"
)

// Limits are the limits of a partition. They share its clock, and its store holds their wakeups.
type Limits struct {
	Rules    memlimit.Rules
	ByName   map[string]*memlimit.Limit
	policies map[string]limit.InForce
}

// The mistakes around limits.
const (
	Unlisted      memlimit.Mistake = "an entry does not schedule the limit"
	PendingWanted memlimit.Mistake = "a waiting instance counts as an admitted one"
)

// Waiting returns the number of members that wait at a limit.
func (l *Limits) Waiting(name string) int {
	if g := l.ByName[name]; g != nil {
		return len(g.Queue)
	}
	return 0
}

// Clear rejects all waiters of a limit.
func (l *Limits) Clear(name string, now int64) { l.Limit(name).Clear(now * 1000) }

// Limit returns a limit, and creates it if it does not exist.
func (l *Limits) Limit(name string) *memlimit.Limit {
	g := l.ByName[name]
	if g == nil {
		g = &memlimit.Limit{Rules: l.Rules, Keyed: limit.Key(name) != ""}
		if l.ByName == nil {
			l.ByName, l.policies = map[string]*memlimit.Limit{}, map[string]limit.InForce{}
		}
		l.ByName[name] = g
	}
	return g
}

// force stores the policy that a request carries, and converts it; nil: the request carries none.
func (l *Limits) force(name string, f *limit.InForce) *memlimit.Force {
	if f == nil || f.Level == "" {
		return nil
	}
	if f.Version >= l.policies[name].Version {
		l.policies[name] = *f
	}
	p, quota := f.Policy, int(f.Policy.Quota)                                //nolint:gosec // at most history.MaxQuota
	return &memlimit.Force{Version: int(f.Version), Policy: memlimit.Policy{ //nolint:gosec // a count of changes
		Concurrency: int(p.Concurrency), Rate: int(p.Rate), RateWindow: p.RateWindow, Quota: quota, QuotaWindow: p.QuotaWindow,
		QueueLimit: int(p.QueueLimit), QueueTimeout: p.QueueTimeout, Reject: p.Reject, Paused: p.Paused,
	}}
}

// ListLimit schedules a visit of the limit that an effect enters, which must precede the call.
func (s *Shell) ListLimit(e *core.Effect) {
	if e.Kind == core.CallLimit && len(e.Call.Enter) > 0 && s.Limits.Rules.Wrong != Unlisted {
		if _, listed := s.Store.Limits[e.Call.Limit]; !listed {
			s.Store.List(s.Now, e.Call.Limit)
		}
	}
}

// answerLimit carries out a request to a limit, and returns its answer; nil: the effect has none, or is no such request.
func (s *Shell) answerLimit(e *core.Effect) *core.Message {
	l := &s.Limits
	switch e.Kind {
	case core.CallLimit:
		return &core.Message{Kind: core.LimitAnswered, Number: e.Number, Admitted: s.admit(l, e.Call)}
	case core.ReleaseTickets:
		var leave []memlimit.Leave
		for _, o := range e.Body.([]limit.Orphan) {
			leave = append(leave, memlimit.Leave{Member: memlimit.Member(o.Member), Orphaned: true, At: o.At})
		}
		got := l.Limit(e.ID).Admit(s.Now*1000, nil, leave, nil)
		return &core.Message{Kind: core.TicketsReleased, ID: e.ID, Admitted: s.admitted(got)}
	case core.SweepLimit:
		f, _ := e.Body.(*limit.InForce)
		return &core.Message{Kind: core.LimitSwept, ID: e.ID, Body: s.swept(l, e.ID, f)}
	case core.RescheduleLimit:
		s.Store.Reschedule(s.Now, e.ID, e.After.Milliseconds())
		return &core.Message{Kind: core.LimitRescheduled, ID: e.ID, Body: e.After}
	case core.UnlistLimit:
		s.Store.Reschedule(s.Now, e.ID, 0)
	case core.FindUnwanted:
		swept := e.Body.(limit.SweepReply)
		found := &core.UnwantedMembers{At: swept.Now}
		for _, m := range swept.Stale {
			if !s.wanted(m) {
				found.Members = append(found.Members, m)
			}
		}
		return &core.Message{Kind: core.UnwantedFound, ID: e.ID, Body: found}
	case core.PassNotices:
		return &core.Message{Kind: core.NoticesPassed, Body: e.Body}
	case core.WakeLimit:
		return &core.Message{Kind: core.LimitDue, ID: e.ID}
	default:
	}
	return nil
}

func (s *Shell) admit(l *Limits, r *limit.AdmitRequest) limit.AdmitReply {
	var leave []memlimit.Leave
	for _, m := range r.Leave {
		leave = append(leave, memlimit.Leave{Member: memlimit.Member(m)})
	}
	var enter []memlimit.Entry
	for _, e := range r.Enter {
		enter = append(enter, memlimit.Entry{Member: memlimit.Member(e.Member), Active: e.Active})
	}
	return s.admitted(l.Limit(r.Limit).Admit(s.Now*1000, l.force(r.Limit, &r.InForce), leave, enter))
}

func (s *Shell) admitted(got memlimit.AdmitReply) limit.AdmitReply {
	out := limit.AdmitReply{Now: s.Now, Granted: members(got.Granted), Waiting: got.Waiting, Holding: got.Holding, LimitedUntil: got.Until, SweepNow: got.SweepNow}
	kinds := map[memlimit.Kind]limit.Kind{
		memlimit.Admitted: limit.Admitted, memlimit.Waits: limit.Waiting, memlimit.Full: limit.QueueFull, memlimit.Limited: limit.Limited,
		memlimit.TimedOut: limit.TimedOut, memlimit.Cleared: limit.Cleared,
	}
	for _, v := range got.Verdicts {
		out.Verdicts = append(out.Verdicts, limit.Verdict{Kind: kinds[v.Kind], Position: v.Position, Until: v.Until})
	}
	return out
}

func (s *Shell) swept(l *Limits, name string, f *limit.InForce) limit.SweepReply {
	got := l.Limit(name).Sweep(s.Now*1000, l.force(name, f))
	out := limit.SweepReply{
		Now: s.Now, Granted: members(got.Granted), Stale: members(got.Stale), Waiting: got.Waiting, Holding: got.Holding, LimitedUntil: got.Until,
		Next: got.Next, Deadlocked: got.Deadlocked, IdleFor: time.Duration(got.Idle) * time.Millisecond,
		Declared: l.policies[name].Declared, Version: l.policies[name].Version,
	}
	for _, a := range got.Rejected {
		out.Rejected = append(out.Rejected, limit.Rejection{Member: limit.Member(a.Member), Cleared: a.Cleared})
	}
	return out
}

func members(ms []memlimit.Member) []limit.Member {
	var out []limit.Member
	for _, m := range ms {
		out = append(out, limit.Member(m))
	}
	return out
}

// wanted reports whether an instance requires the ticket: its activity has a lease, its start has been admitted, or its record retains it.
func (s *Shell) wanted(m limit.Member) bool {
	in := s.Store.Get(m.Instance)
	if execution, event, ok := m.Activity(); ok {
		return in.Leases[Place{execution, event}].Effect == m.Ticket
	}
	if in.Data == nil {
		return false
	}
	if origin, ok := m.Origin(); ok {
		return limit.StartPlace(in.Data.Origin) == "o"+origin && (in.Status != "pending" || s.Limits.Rules.Wrong == PendingWanted) && in.Data.Ended == 0
	}
	return in.Data.Ended == 0 && slices.Contains(in.Data.Retained, m.Ticket)
}
