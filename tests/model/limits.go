package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/memlimit"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/history"
)

// queue is the record of a limit as observed from outside.
type queue struct {
	Kept         *memlimit.Limit // the state that a restart of the limit would restore
	Arrived      []string        // the tickets that have waited since their arrival, in order
	EverAdmitted []string        // tickets that it has ever admitted
	LostGrants   int             // grants and ends of holders that a rollback has lost
	Times        []int64         // times at which tickets were admitted within the limits, ms
	Unlisted     bool            // it was idle, and is not scheduled
	Unheard      map[string]int  // by holder: visits, with nothing else outstanding, at which its instance had not received the grant
}

func queueOf(w *World, name string) *queue {
	q := w.Queues[name]
	if q == nil {
		q = &queue{Unheard: map[string]int{}}
		w.Queues[name] = q
	}
	return q
}

func breaksf(w *World, format string, args ...any) {
	if w.Broken == "" {
		w.Broken = fmt.Sprintf(format, args...)
	}
}

// ticketState is a ticket as stored in the history.
type ticketState struct {
	member limit.Member
	limit  string
	wanted bool // the history requires it
	waits  bool
	runs   bool // it has a lease, or its instance runs
}

// ticketStates returns the tickets of an instance.
func ticketStates(id string, in *memstore.Instance) map[string]ticketState {
	past, events, _ := foldHistory(in.History())
	all := map[string]ticketState{}
	for _, ev := range events {
		if s, ok := ev.(*history.ActivityScheduled); ok && s.Limit != nil {
			all[s.Limit.Ticket] = ticketState{limit: s.Limit.Name}
		}
		if s, ok := ev.(*history.Started); ok && s.Limit != nil {
			all[s.Limit.Ticket] = ticketState{limit: s.Limit.Name}
		}
	}
	for _, k := range past.Tickets() {
		s := ticketState{member: core.Member(id, k.Event, past, k.Limit), limit: k.Limit.Name, wanted: true, waits: k.Waiting}
		s.runs = k.Event == 1 && !k.Waiting
		if a := past.Activity(k.Event); a != nil {
			s.runs = in.Leases[memstore.Place{Execution: max(in.Execution, 1), Event: k.Event}].Effect == a.Effect
		}
		all[k.ID] = s
	}
	return all
}

// ticketStateOf finds a ticket.
func ticketStateOf(w *World, m memlimit.Member) ticketState {
	return ticketStates(m.Instance, w.Store.Get(m.Instance))[m.Ticket]
}

// admitted checks that the activities and starts that a commit begins were admitted, and have not run before.
func admitted(w *World, id string, before, now map[string]ticketState) {
	for ticket, s := range now {
		was, known := before[ticket]
		if !s.runs || was.runs {
			continue
		}
		if !slices.Contains(queueOf(w, s.limit).EverAdmitted, ticket) {
			breaksf(w, "%s of %s runs and was never admitted", ticket, id)
		}
		if known && !was.wanted {
			breaksf(w, "%s of %s runs again after its end", ticket, id)
		}
	}
}

// limited compares running and waiting callers with the limits.
func limited(w *World) string {
	if len(w.Limits.ByName) == 0 {
		return ""
	}
	running := map[string]int{}
	for _, id := range w.IDs() {
		for ticket, s := range ticketStates(id, w.Store.Get(id)) {
			lim, m := w.Limits.Limit(s.limit), memlimit.Member(s.member)
			switch {
			case s.runs:
				running[s.limit]++
				if lim.Holder(m) < 0 && !w.AnyRolledBack {
					return ticket + " runs, and its slot is free for another"
				}
			case s.waits && !w.AnyRolledBack && slices.Contains(queueOf(w, s.limit).Arrived, ticket) && lim.Holder(m) < 0 && lim.Waiter(m) < 0 && lim.Rejection(m) < 0:
				return ticket + " waits, and has lost its place"
			}
		}
	}
	for name, lim := range w.Limits.ByName {
		if b := lim.Check(); b != "" {
			return name + ": " + b
		}
		if _, listed := w.Store.Limits[name]; !listed && !lim.Empty() && !w.AnyRolledBack && !queueOf(w, name).Unlisted {
			return name + " has members, and is not visited"
		}
		if c := lim.Force.Policy.Concurrency; c > 0 && running[name] > c+queueOf(w, name).LostGrants {
			return fmt.Sprintf("%d run behind %s, which admits %d", running[name], name, c)
		}
	}
	return ""
}

// script carries out a request to a limit, and checks its effect.
func script(w *World, r *request) *core.Message {
	e := &r.effect
	name := e.ID
	if e.Kind == core.CallLimit {
		name = e.Call.Limit
	}
	w.Scripted = true
	lim, q := w.Limits.Limit(name), queueOf(w, name)
	before, quiet := lim.Clone(), len(w.Net)+len(w.Doorbells)+len(w.Owner.Timers) == 0 && w.Former == nil && w.Faultless
	m := w.Answer(e, r.token)
	switch e.Kind {
	case core.CallLimit:
		q.left(w, before, lim, e.Call.Leave)
		q.granted(w, lim, m.Admitted.Granted)
		for i, x := range e.Call.Enter {
			if !slices.Contains(m.Admitted.Granted, x.Member) {
				q.came(w, before, lim, x, m.Admitted.Verdicts[i].Kind)
			}
		}
	case core.ReleaseTickets:
		var leave []limit.Member
		for _, o := range e.Body.([]limit.Orphan) {
			leave = append(leave, o.Member)
		}
		q.left(w, before, lim, leave)
		q.granted(w, lim, m.Admitted.Granted)
	default:
		q.granted(w, lim, m.Body.(limit.SweepReply).Granted)
		if quiet {
			q.visited(w, m.Body.(limit.SweepReply).Stale)
		}
	}
	return m
}

// visited counts the visits that repeat the grant to a holder whose instance has not received it: after two, it has, or is not a holder.
func (q *queue) visited(w *World, stale []limit.Member) {
	unheard := map[string]int{}
	for _, m := range stale {
		if s := ticketStateOf(w, memlimit.Member(m)); s.wanted && !s.waits {
			continue
		}
		if unheard[m.Ticket] = q.Unheard[m.Ticket] + 1; unheard[m.Ticket] > 2 {
			breaksf(w, "%s is leaked: two visits have not brought its notice home", m.Ticket)
		}
	}
	q.Unheard = unheard
}

// left records leaves as observed from outside: a ticket that waits in its history waits.
func (q *queue) left(w *World, before, lim *memlimit.Limit, leave []limit.Member) {
	for _, l := range leave {
		m := memlimit.Member(l)
		if ticketStateOf(w, m).waits && before.Holder(m) < 0 && before.Rejection(m) < 0 || lim.Waiter(m) >= 0 {
			continue
		}
		q.leave(l.Ticket)
	}
}

func (q *queue) leave(ticket string) {
	q.Arrived = slices.DeleteFunc(q.Arrived, func(t string) bool { return t == ticket })
}

// granted records admitted waiters: no earlier waiter may still wait.
func (q *queue) granted(w *World, lim *memlimit.Limit, ms []limit.Member) {
	for _, m := range ms {
		q.through(w, lim, m.Ticket, max(slices.Index(q.Arrived, m.Ticket), 0))
	}
}

// through records an admission: no window may contain more than the rate allows.
func (q *queue) through(w *World, lim *memlimit.Limit, ticket string, behind int) {
	for _, first := range q.Arrived[:behind] {
		away := slices.ContainsFunc(lim.Rejections, func(t memlimit.Rejection) bool { return t.Member.Ticket == first }) // it only waits for the notice
		for _, id := range w.IDs() {
			if ticketStates(id, w.Store.Get(id))[first].waits && !away && !w.AnyRolledBack {
				breaksf(w, "%s overtakes %s", ticket, first)
			}
		}
	}
	q.Times = append(q.Times, w.Now)
	if p, n := lim.Force.Policy, len(q.Times); p.Rate > 0 && n > p.Rate && w.Now-q.Times[n-1-p.Rate] < p.RateWindow {
		breaksf(w, "%d are admitted within %d ms", p.Rate+1, p.RateWindow)
	}
	q.admitted(ticket)
}

func (q *queue) admitted(ticket string) {
	q.leave(ticket)
	if !slices.Contains(q.EverAdmitted, ticket) {
		q.EverAdmitted = append(q.EverAdmitted, ticket)
		slices.Sort(q.EverAdmitted)
	}
}

// came records an entry and its verdict. A ticket that is reported as active is a holder again, even after a rollback.
func (q *queue) came(w *World, before, lim *memlimit.Limit, e limit.Entry, k limit.Kind) {
	t, m := e.Member.Ticket, memlimit.Member(e.Member)
	at := slices.Index(q.Arrived, t)
	switch {
	case e.Active && ticketStateOf(w, m).runs && lim.Holder(m) < 0:
		breaksf(w, "%s has reported that it runs, and has no slot", t)
	case e.Active && k == limit.Admitted:
		q.leave(t)
	case k == limit.Admitted && before.Holder(m) >= 0:
		q.admitted(t)
	case k == limit.Admitted && at < 0:
		q.through(w, lim, t, len(q.Arrived))
	case k == limit.Admitted:
		q.through(w, lim, t, at)
	case k == limit.Waiting && at < 0:
		q.Arrived = append(q.Arrived, t)
	}
}

// rolledBack records the tickets that run or wait again after a rollback: others have been admitted in their place.
func rolledBack(w *World, to *memstore.Store) {
	w.AnyRolledBack = true
	for _, q := range w.Queues {
		for _, ticket := range q.EverAdmitted {
			now, then := ticketIn(w.Store, ticket), ticketIn(to, ticket)
			if now.limit != "" && !now.waits && !now.runs && (then.limit == "" || then.waits || then.runs) {
				q.LostGrants++
			}
		}
	}
}

// ticketIn returns a ticket of a store.
func ticketIn(s *memstore.Store, ticket string) ticketState {
	for id, in := range s.Instances {
		if x, ok := ticketStates(id, in)[ticket]; ok {
			return x
		}
	}
	return ticketState{}
}

// pass delivers the notices of a limit, within the process or as messages to another one.
func pass(w *World, r *request) {
	all := r.effect.Body.([]core.LimitNotice)
	sent := make([]message.LimitNotice, len(all))
	for i, n := range all {
		sent[i] = n.Encode()
	}
	for _, t := range []*tenure{w.Owner, w.Former} {
		switch {
		case t == nil:
		case t.Token == r.token:
			w.deliver(t, core.Message{Kind: core.NoticesPassed, Body: all})
		default:
			w.deliver(t, core.Message{Kind: core.NoticesReceived, Body: sent})
		}
	}
}

// limitFaults are the faults of limits, and the requests of clients to them.
func (s *steps) limitFaults(w *World) {
	for _, name := range slices.Sorted(maps.Keys(w.Limits.ByName)) {
		if queueOf(w, name).Kept == nil {
			s.may(w.Left.LimitRollbacks, "(what a restart of "+name+" will remember)", func(w *World) { queueOf(w, name).Kept = w.Limits.Limit(name).Clone() })
		} else {
			s.may(w.Left.LimitRollbacks, "ROLLBACK of "+name, func(w *World) {
				w.Left.LimitRollbacks--
				q := queueOf(w, name)
				for _, h := range w.Limits.Limit(name).Holders {
					if q.Kept.Holder(h.Member) < 0 {
						q.LostGrants++
					}
				}
				w.Limits.ByName[name], q.Kept, q.Times, w.AnyRolledBack = q.Kept, nil, nil, true
			})
		}
		s.may(w.Left.Clears, name+" is cleared", func(w *World) {
			w.Left.Clears--
			w.Limits.Clear(name, w.Now)
			w.deliver(w.Owner, core.Message{Kind: core.LimitDue, ID: name})
		})
	}
	for i, r := range w.Runs {
		s.may(w.Left.Failures, fmt.Sprintf("event %d of %s fails", r.claim.Activity, r.claim.Instance), func(w *World) {
			w.Left.Failures--
			r := w.Runs[i]
			w.Runs = slices.Delete(w.Runs, i, i+1)
			w.complete(r.claim, &history.ActivityFailed{Scheduled: r.claim.Activity, Failure: history.Failure{Message: "failed"}, Worker: "w"})
		})
	}
	for i := range w.Net {
		if r := &w.Net[i]; r.effect.Kind == core.RunTurn {
			s.may(w.Left.Otherwise, r.String()+", decided otherwise", func(w *World) {
				w.Left.Otherwise--
				variant = "'"
				defer func() { variant = "" }()
				r := w.take(i)
				w.receive(&r, w.arrive(&r))
			})
		}
	}
	if w.Former == nil {
		s.may(w.Left.Pauses, "the owner is replaced, and does not know it", func(w *World) {
			w.Left.Pauses--
			w.Lossy = true
			w.Former = w.Owner
			w.acquire()
		})
	}
}

// occupied reports a limit that has members though all instances have ended.
func occupied(w *World) string {
	for name, lim := range w.Limits.ByName {
		if _, listed := w.Store.Limits[name]; listed && !lim.Empty() {
			return name + " is never empty"
		}
	}
	return ""
}
