package core

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/pkg/history"
)

// The instance's side of limits: see docs/decisions/0014. The tickets that an instance requires follow from its
// history:
//
//	turn ──enter──▶ limit ──admitted──▶ commit, with the lease   ──task──▶ …
//	                 └──waits──▶ commit, without ──notice──▶ Granted: commit, with the lease ──task──▶ …
//	                                               └───────▶ rejected: a failure
//	… ──answered, cancelled, ended──▶ commit ──leave──▶ limit
//
// Crash points: between enter and commit, between commit and leave, and between a notice and the commit of its input. After each of them
// the limit holds a ticket that the history may or may not require: the limit repeats its notice until the two agree.

const (
	silentLimitRetry     = 2 * time.Second // delay of the next request after a limit did not answer, or has rejected a ticket and that is not committed yet
	limitRepeatIntervals = 3               // minimum number of reconcile intervals between two requests about a ticket
	lastLimitRepeat      = 5 * time.Minute // maximum of the backoff between requests
)

// admission enters activities and starts into their limits, and releases their tickets.
type admission struct {
	owner    *Owner
	policies limit.Policies
	calls    map[uint64]*limitCall // unanswered calls, by number of the effect
}

// entry is the schedule of an activity, or a start, that must pass a limit.
type entry struct {
	event   uint64
	limit   *history.Limit
	inForce limit.InForce
}

// enter enters the activities of a turn into their limits, and commits the turn when all limits have answered.
func (a *admission) enter(in *instance, t *turn) {
	entries := a.entries(t)
	t.takeReleased()
	if len(entries)+len(t.tickets) > 0 {
		ended := t.endedByWorkers()
		calls := t.limitCalls(entries, ended)
		a.leaveLimits(in, t, ended)
		if t.calls = len(calls); t.calls > 0 {
			a.owner.to(in, admitting)
			for _, c := range calls {
				c.reason, c.turn = EnterTurn, t
				a.admit(c)
			}
			return
		}
	}
	a.commitEntered(in, t)
}

// entries returns the activities of the turn that must pass a limit. The schedule of an activity without a limit records no limit.
func (a *admission) entries(t *turn) []entry {
	var out []entry
	for _, ev := range t.Events {
		e, ok := ev.(*history.ActivityScheduled)
		if !ok {
			continue
		}
		declared := history.Limit{}
		if e.Limit != nil {
			declared, e.Limit = *e.Limit, nil
			t.stamped = append(t.stamped, e)
		}
		if t.Fold.Activity(e.ID) == nil { // cancelled in the same turn
			continue
		}
		ticket := e.Effect
		if declared.Retain {
			ticket = e.CallKey()
		}
		if kept, ok := t.Fold.Retained(ticket); ok {
			t.Fold.SetLimit(e.ID, &kept)
			continue // its limit was declared, so the schedule is in stamped already
		}
		f, ok := a.policies.For(e.Name, declared.Declared)
		if !ok {
			continue
		}
		if declared == (history.Limit{}) { // otherwise it is in stamped already
			t.stamped = append(t.stamped, e)
		}
		g := newLimit(e.Name, e.Payload, ticket, f, t.Fold.Started)
		g.Retain = declared.Retain
		out = append(out, entry{event: e.ID, limit: g, inForce: f})
	}
	return out
}

// newLimit returns the limit that an action of the execution must pass, as its history records it.
func newLimit(action string, p history.Payload, ticket string, f limit.InForce, s *history.Started) *history.Limit {
	g := &history.Limit{Name: limit.Name(action, limit.KeyAt(f.Policy.Key, p)), Ticket: ticket, Declared: f.Declared}
	for held := range strings.FieldsSeq(heldLimits(s)) {
		if name, ticket := cutHeld(held); name == g.Name { // held by the instance itself, or by an ancestor
			g.HeldByAncestor = ticket
			break
		}
	}
	return g
}

// heldLimits returns the limits that an instance and its ancestors hold as starts, for its children: name=ticket, separated by spaces.
func heldLimits(s *history.Started) string {
	above := ""
	if s.Parent != nil {
		above = s.Parent.HeldLimits
	}
	if s.Limit == nil {
		return above
	}
	all := []string{s.Limit.Name + "=" + s.Limit.Ticket} // the nearest holder comes first, and is the only one of its limit: recursion may be deep
	for held := range strings.FieldsSeq(above) {
		if g, _ := cutHeld(held); g != s.Limit.Name {
			all = append(all, held)
		}
	}
	return strings.Join(all, " ")
}

// cutHeld splits name=ticket. The key in the name of a limit may contain "=", a ticket cannot.
func cutHeld(held string) (name, ticket string) {
	if at := strings.LastIndexByte(held, '='); at >= 0 {
		return held[:at], held[at+1:]
	}
	return "", ""
}

// takeReleased takes the released tickets out of the state of the turn.
func (t *turn) takeReleased() {
	released := t.Fold.TakeReleased()
	t.tickets = append(t.tickets, released...)
	for _, k := range released {
		if k.Limit.Retain {
			t.released = append(t.released, k.ID)
		}
	}
}

// endedByWorkers returns a predicate for the tickets of activities that a worker has acknowledged. Those activities have ended, whatever
// happens to the turn, so their tickets leave before its commit; all others leave after it.
func (t *turn) endedByWorkers() func(fold.Ticket) bool {
	ended := make(map[uint64]bool)
	for _, ev := range t.Events {
		switch e := ev.(type) {
		case *history.ActivityCompleted:
			ended[e.Scheduled] = true
		case *history.ActivityFailed:
			ended[e.Scheduled] = e.Worker != "" // otherwise the owner or a limit has failed it
		}
	}
	return func(k fold.Ticket) bool { return ended[k.Event] }
}

// limitCalls groups the entries by limit. A ticket that enters again, such as that of an attempt after a rejected one,
// leaves in the same call.
func (t *turn) limitCalls(entries []entry, ended func(fold.Ticket) bool) []*limitCall {
	var calls limitCalls
	again := make(map[string]bool)
	for _, e := range entries {
		c := calls.at(e.limit.Name)
		if len(c.entries) == 0 {
			c.call.InForce = e.inForce
		}
		c.entries = append(c.entries, e)
		c.call.Enter = append(c.call.Enter, limit.Entry{Member: Member(t.in.id, e.event, t.Fold, e.limit)})
		again[e.limit.Ticket] = true
	}
	t.tickets = slices.DeleteFunc(t.tickets, func(k fold.Ticket) bool {
		c := calls.of[k.Limit.Name]
		if c == nil || !ended(k) && !again[k.ID] {
			return false
		}
		c.leave(t, k)
		return true
	})
	return calls.all
}

// limitCall is one call of a limit.
type limitCall struct {
	reason  callReason
	call    limit.AdmitRequest
	in      *instance
	turn    *turn   // for EnterTurn
	entries []entry // for EnterTurn and EnterStart
	since   []int64 // for RepeatLimitRequest: the WaitingSince of the tickets in the history
}

// callReason is the reason for calling a limit.
type callReason uint8

// Reasons for calls.
const (
	EnterTurn          callReason = iota + 1 // the activities of a turn enter, before its commit
	EnterStart                               // a start enters, before its turn
	LeaveLimit                               // released tickets leave
	RepeatLimitRequest                       // tickets that the history requires are requested again
)

// limitCalls are calls of different limits, in the order in which they were added.
type limitCalls struct {
	all []*limitCall
	of  map[string]*limitCall
}

// at returns the call of a limit, and adds it if there is none.
func (s *limitCalls) at(name string) *limitCall {
	c := s.of[name]
	if c == nil {
		c = &limitCall{call: limit.AdmitRequest{Limit: name}}
		if s.of == nil {
			s.of = make(map[string]*limitCall)
		}
		s.of[name] = c
		s.all = append(s.all, c)
	}
	return c
}

// Member returns a ticket as its limit records it.
func Member(instance string, event uint64, s *fold.State, g *history.Limit) limit.Member {
	m := limit.Member{Ticket: g.Ticket, Instance: instance, HeldByAncestor: g.HeldByAncestor}
	switch {
	case event == 1:
		m.Place = limit.StartPlace(s.Started.Origin)
	case g.Retain:
		m.Place = limit.RetainedPlace
	default:
		m.Place = limit.ActivityPlace(s.Execution(), event)
	}
	return m
}

// leave adds a ticket of the turn that leaves.
func (c *limitCall) leave(t *turn, k fold.Ticket) {
	c.call.Leave = append(c.call.Leave, Member(t.in.id, k.Event, t.Fold, k.Limit))
}

// leaveLimits releases tickets of a turn. A release that is lost is repaired by the sweep of the limit.
func (a *admission) leaveLimits(in *instance, t *turn, which func(fold.Ticket) bool) {
	var calls limitCalls
	t.tickets = slices.DeleteFunc(t.tickets, func(k fold.Ticket) bool {
		if which(k) {
			calls.at(k.Limit.Name).leave(t, k)
			return true
		}
		return false
	})
	for _, c := range calls.all {
		c.reason, c.in = LeaveLimit, in
		a.admit(c)
	}
}

func allTickets(fold.Ticket) bool { return true }

// admit sends a call.
func (a *admission) admit(c *limitCall) {
	n := a.owner.nextNumber()
	a.calls[n] = c
	a.owner.emit(Effect{Kind: CallLimit, Number: n, Reason: c.reason, Call: &c.call})
}

// limitAnswered notifies the waiters that a call has admitted, and continues the instance that has made it.
func (a *admission) limitAnswered(number uint64, got limit.AdmitReply, err error) {
	c := a.calls[number]
	delete(a.calls, number)
	a.passOn(c.call.Limit, got, err)
	switch c.reason {
	case EnterTurn:
		a.turnEntered(c.turn, c, got, err)
	case EnterStart:
		a.startEntered(c.in, c.entries[0].limit, got, err)
	case LeaveLimit:
		if err != nil {
			reportFailure(a.owner.log, "slot not released, swept later", err, "instance", c.in.id, "limit", c.call.Limit)
		}
	case RepeatLimitRequest:
		a.limitRequested(c.in.id, c, got, err)
	}
}

// turnEntered applies the verdicts of a limit on the activities of a turn, and commits the turn when all limits have answered.
func (a *admission) turnEntered(t *turn, c *limitCall, got limit.AdmitReply, err error) {
	for i, e := range c.entries {
		v := verdict(got, i, err)
		rejected := a.applyVerdict(t.in, e.limit, got.Now, v)
		t.Fold.SetLimit(e.event, e.limit)
		if rejected {
			t.refused = append(t.refused, a.rejectedActivity(e.event, e.limit.Name, v.Kind, v.Until))
		}
	}
	if t.calls--; t.calls == 0 {
		a.owner.to(t.in, idle)
		a.commitEntered(t.in, t)
	}
}

// unanswered is the verdict if the limit has not answered: the ticket waits, and is requested again.
const unanswered limit.Kind = 0

func verdict(got limit.AdmitReply, i int, err error) limit.Verdict {
	if err != nil || i >= len(got.Verdicts) {
		return limit.Verdict{Kind: unanswered}
	}
	return got.Verdicts[i]
}

// applyVerdict records the verdict of a limit in g, and reports whether it is a rejection.
func (a *admission) applyVerdict(in *instance, g *history.Limit, now int64, v limit.Verdict) (rejected bool) {
	g.Waiting = v.Kind != limit.Admitted
	switch v.Kind {
	case limit.Admitted:
		return false
	case limit.Waiting:
		g.WaitingSince = now
		a.owner.countLimit(limit.Action(g.Name), LimitCount{What: LimitWaited, N: 1})
		return false
	default: // a rejection is only in memory until it is committed
		in.limitAt = a.owner.clock.now() + silentLimitRetry.Milliseconds()
		return v.Kind != unanswered
	}
}

// passOn notifies other waiters that a call has admitted, and has the limit swept if the answer requires it.
func (a *admission) passOn(name string, got limit.AdmitReply, err error) {
	if err != nil { // the sweep repeats the release
		return
	}
	a.owner.notices.notify(name, got.Granted, limit.Admitted, got.Now)
	if got.SweepNow {
		a.owner.emit(Effect{Kind: WakeLimit, ID: name})
	}
}

// repeatLimitRequests requests every ticket of the history again, if it is time: a limit may have lost its waiters and its holders.
func (a *admission) repeatLimitRequests(in *instance) {
	now := a.owner.clock.now()
	if in.state == nil || in.state.TicketLen() == 0 || in.limitAt > now {
		return
	}
	in.limitAt = now + a.limitBackoff(in, now)
	var calls limitCalls
	for _, k := range in.state.Tickets() {
		c := calls.at(k.Limit.Name)
		if len(c.since) == 0 {
			c.call.InForce, _ = a.policies.Resolve(limit.Action(k.Limit.Name), k.Limit.Declared)
			c.call.InForce.Version = 0 // in case the limit has lost its policy, too
		}
		c.repeat(in, k)
	}
	for _, c := range calls.all {
		a.repeatCall(in, c)
	}
}

// repeat adds a ticket that is requested again.
func (c *limitCall) repeat(in *instance, k fold.Ticket) {
	m := Member(in.id, k.Event, in.state, k.Limit)
	c.call.Enter = append(c.call.Enter, limit.Entry{Member: m, Active: !k.Waiting})
	c.since = append(c.since, k.Limit.WaitingSince)
}

// repeatCall sends a call that requests tickets of the instance again.
func (a *admission) repeatCall(in *instance, c *limitCall) {
	a.owner.met[CountLimitRepeats]++
	in.limitRequests++
	c.reason, c.in = RepeatLimitRequest, in
	a.admit(c)
}

// limitBackoff returns half the age of the youngest ticket, within bounds, ms. It is derived from the history, because a waiting instance
// may be dropped between any two reconciliations.
func (a *admission) limitBackoff(in *instance, now int64) int64 {
	youngest := in.state.Started.At
	for _, k := range in.state.Tickets() {
		if e := in.state.Activity(k.Event); e != nil {
			youngest = max(youngest, e.At)
		}
	}
	return min(max((now-youngest)/2, a.firstLimitRepeat()), lastLimitRepeat.Milliseconds())
}

func (a *admission) firstLimitRepeat() int64 {
	return limitRepeatIntervals * a.owner.cfg.ReconcileInterval.Milliseconds()
}

// limitRequested handles the answer to a call that requested tickets again.
func (a *admission) limitRequested(id string, c *limitCall, got limit.AdmitReply, err error) {
	in := a.owner.instances[id]
	if in != nil && in.limitRequests > 0 {
		in.limitRequests--
	}
	if err != nil {
		if in != nil && in.state != nil { // otherwise its next wakeup repeats the request
			in.limitAt = a.owner.clock.now() + silentLimitRetry.Milliseconds()
			a.owner.outbox.retrySoon(in, silentLimitRetry)
		}
		reportFailure(a.owner.log, "limit request failed, retrying", err, "instance", id, "limit", c.call.Limit)
		return
	}
	for i, e := range c.call.Enter {
		if v := verdict(got, i, nil); !e.Active && v.Kind != limit.Waiting && v.Kind != unanswered {
			a.owner.notices.deliver(LimitNotice{Limit: c.call.Limit, Member: e.Member, Kind: v.Kind, At: got.Now, Requested: true, Since: c.since[i]})
		}
	}
	if in != nil && in.phase == idle {
		a.owner.advance(in)
	}
}
