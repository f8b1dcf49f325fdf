package core

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/pkg/history"
)

// The instance's side of the gates: see docs/decisions/0014. The tickets that it requires are those of the fold of its history:
//
//	turn ──enter──▶ gate ──admitted──▶ commit, with the lease   ──task──▶ …
//	                 └──waits──▶ commit, without ──notice──▶ Granted: commit, with the lease ──task──▶ …
//	                                               └───────▶ rejected: a failure
//	… ──answered, cancelled, ended──▶ commit ──leave──▶ gate
//
// Crash points: between enter and commit, commit and leave, a notice and the commit of what it reports. In all of them the gate
// has a ticket that the history may or may not require: it repeats its notice until the two agree.

const (
	askSilentGate = 2 * time.Second // after a gate did not answer, or has refused and that is not in the history
	gateAsks      = 3               // reconcile intervals, before a ticket is asked for again
	lastGateAsk   = 5 * time.Minute // the pause grows up to this
)

// admission takes what must pass a limit there.
type admission struct {
	owner    *Owner
	policies limit.Policies
	calls    map[uint64]*gateCall // that are not answered
}

// entry is a schedule, or a start, in front of a gate.
type entry struct {
	event   uint64
	gate    *history.Limit
	inForce limit.InForce
}

// enter takes what a turn has scheduled through its gates, and commits.
func (a *admission) enter(in *instance, t *turn) {
	entries := a.entries(t)
	t.takeLeft()
	if len(entries)+len(t.tickets) > 0 { // as few have
		ended := t.endedByWorkers()
		calls := t.gateCalls(entries, ended)
		a.leaveGates(in, t, ended)
		if t.calls = len(calls); t.calls > 0 {
			a.owner.to(in, admitting)
			for _, c := range calls {
				c.why, c.turn = EnterTurn, t
				a.admit(c)
			}
			return
		}
	}
	a.commitEntered(in, t)
}

// entries are the activities of the turn that must pass a gate. One that passes none records nothing of gates.
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
			continue // it was declared to be kept, so it is encoded again
		}
		f, ok := a.policies.For(e.Name, declared.Declared)
		if !ok {
			continue
		}
		if declared == (history.Limit{}) { // else it is among them
			t.stamped = append(t.stamped, e)
		}
		g := newGate(e.Name, e.Payload, ticket, f, t.Fold.Started)
		g.Retain = declared.Retain
		out = append(out, entry{event: e.ID, gate: g, inForce: f})
	}
	return out
}

// newGate is the note of the gate that an action of the execution has to pass.
func newGate(action string, p history.Payload, ticket string, f limit.InForce, s *history.Started) *history.Limit {
	g := &history.Limit{Name: limit.Name(action, limit.KeyAt(f.Policy.Key, p)), Ticket: ticket, Declared: f.Declared}
	g.HeldByAncestor = under(g.Name, s)
	return g
}

// under finds who of the ancestors, or the instance itself, holds the gate.
func under(name string, s *history.Started) string {
	for held := range strings.FieldsSeq(holds(s)) {
		if g, ticket := cutHeld(held); g == name {
			return ticket
		}
	}
	return ""
}

// holds lists the gates that an instance and its ancestors hold, for its children.
func holds(s *history.Started) string {
	above := ""
	if s.Parent != nil {
		above = s.Parent.HeldLimits
	}
	if s.Limit == nil {
		return above
	}
	all := []string{s.Limit.Name + "=" + s.Limit.Ticket} // the nearest comes first, and is the only one of its gate: recursion may be deep
	for held := range strings.FieldsSeq(above) {
		if g, _ := cutHeld(held); g != s.Limit.Name {
			all = append(all, held)
		}
	}
	return strings.Join(all, " ")
}

// cutHeld takes gate=ticket apart. The key of a gate may have the sign, a ticket has not.
func cutHeld(held string) (name, ticket string) {
	if at := strings.LastIndexByte(held, '='); at >= 0 {
		return held[:at], held[at+1:]
	}
	return "", ""
}

// takeLeft notes which tickets are not wanted any more.
func (t *turn) takeLeft() {
	left := t.Fold.TakeReleased()
	t.tickets = append(t.tickets, left...)
	for _, k := range left {
		if k.Limit.Retain {
			t.forgone = append(t.forgone, k.ID)
		}
	}
}

// endedByWorkers reports which tickets are of activities that a worker has acknowledged. They are over whatever becomes of the turn, so
// they leave before its commit; all others leave after it.
func (t *turn) endedByWorkers() func(history.Ticket) bool {
	ended := make(map[uint64]bool)
	for _, ev := range t.Events {
		switch e := ev.(type) {
		case *history.ActivityCompleted:
			ended[e.Scheduled] = true
		case *history.ActivityFailed:
			ended[e.Scheduled] = e.Worker != "" // otherwise the owner has failed it, or its limit
		}
	}
	return func(k history.Ticket) bool { return ended[k.Event] }
}

// gateCalls groups the entries by gate. A ticket that enters again, as that of an attempt whose predecessor was rejected,
// leaves in the same call.
func (t *turn) gateCalls(entries []entry, ended func(history.Ticket) bool) []*gateCall {
	var calls gateCalls
	again := make(map[string]bool)
	for _, e := range entries {
		c := calls.at(e.gate.Name)
		if len(c.entries) == 0 {
			c.call.InForce = e.inForce
		}
		c.entries = append(c.entries, e)
		c.call.Enter = append(c.call.Enter, limit.Entry{Member: Member(t.in.id, e.event, t.Fold, e.gate)})
		again[e.gate.Ticket] = true
	}
	t.tickets = slices.DeleteFunc(t.tickets, func(k history.Ticket) bool {
		c := calls.of[k.Limit.Name]
		if c == nil || !ended(k) && !again[k.ID] {
			return false
		}
		c.leave(t, k)
		return true
	})
	return calls.all
}

// gateCall is one call of a gate, and what is in it.
type gateCall struct {
	why     callReason
	call    limit.AdmitRequest
	in      *instance
	turn    *turn   // of enterTurn
	entries []entry // of enterTurn and enterStart
	since   []int64 // of askGate: when the tickets have begun to wait
}

// callReason is why a gate is called.
type callReason uint8

// Reasons for calls.
const (
	EnterTurn  callReason = iota + 1 // with what a turn has scheduled, before its commit
	EnterStart                       // with a start, before its turn
	LeaveGate                        // behind a commit
	AskGate                          // again, for what the history wants
)

// gateCalls are calls of different gates, in the order in which these came.
type gateCalls struct {
	all []*gateCall
	of  map[string]*gateCall
}

// at gives the call of a gate.
func (s *gateCalls) at(name string) *gateCall {
	c := s.of[name]
	if c == nil {
		c = &gateCall{call: limit.AdmitRequest{Limit: name}}
		if s.of == nil {
			s.of = make(map[string]*gateCall)
		}
		s.of[name] = c
		s.all = append(s.all, c)
	}
	return c
}

// Member is the ticket as its gate records it.
func Member(instance string, event uint64, s *history.State, g *history.Limit) limit.Member {
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

// leave has a ticket of the turn leave in this call.
func (c *gateCall) leave(t *turn, k history.Ticket) {
	c.call.Leave = append(c.call.Leave, Member(t.in.id, k.Event, t.Fold, k.Limit))
}

// leaveGates takes tickets of a turn out of their gates. What is lost on the way is found by the gate's sweep.
func (a *admission) leaveGates(in *instance, t *turn, which func(history.Ticket) bool) {
	var calls gateCalls
	t.tickets = slices.DeleteFunc(t.tickets, func(k history.Ticket) bool {
		if which(k) {
			calls.at(k.Limit.Name).leave(t, k)
			return true
		}
		return false
	})
	for _, c := range calls.all {
		c.why, c.in = LeaveGate, in
		a.admit(c)
	}
}

func allTickets(history.Ticket) bool { return true }

// admit calls a gate.
func (a *admission) admit(c *gateCall) {
	n := a.owner.nextNumber()
	a.calls[n] = c
	a.owner.emit(Effect{Kind: CallGate, Number: n, Why: c.why, Call: &c.call})
}

// gateAnswered passes on what follows from a call for others, and goes on with the instance that has made it.
func (a *admission) gateAnswered(number uint64, got limit.AdmitReply, err error) {
	c := a.calls[number]
	delete(a.calls, number)
	a.passOn(c.call.Limit, got, err)
	switch c.why {
	case EnterTurn:
		a.turnEntered(c.turn, c, got, err)
	case EnterStart:
		a.startEntered(c.in, c.entries[0].gate, got, err)
	case LeaveGate:
		if err != nil {
			reportFailure(a.owner.log, "slot not released, swept later", err, "instance", c.in.id, "gate", c.call.Limit)
		}
	case AskGate:
		a.askedGate(c.in.id, c, got, err)
	}
}

// turnEntered applies the verdicts of a gate on what a turn has scheduled.
func (a *admission) turnEntered(t *turn, c *gateCall, got limit.AdmitReply, err error) {
	for i, e := range c.entries {
		v := verdict(got, i, err)
		away := a.applyVerdict(t.in, e.gate, got.Now, v)
		t.Fold.SetLimit(e.event, e.gate)
		if away {
			t.refused = append(t.refused, a.rejectedActivity(e.event, e.gate.Name, v.Kind, v.Until))
		}
	}
	if t.calls--; t.calls == 0 {
		a.owner.to(t.in, idle)
		a.commitEntered(t.in, t)
	}
}

// unanswered is the verdict if the gate has not answered: the ticket waits, and is asked for again.
const unanswered limit.Kind = 0

func verdict(got limit.AdmitReply, i int, err error) limit.Verdict {
	if err != nil || i >= len(got.Verdicts) {
		return limit.Verdict{Kind: unanswered}
	}
	return got.Verdicts[i]
}

// applyVerdict writes the verdict of a gate on an entry of the instance into the note of it. away: it was rejected.
func (a *admission) applyVerdict(in *instance, g *history.Limit, now int64, v limit.Verdict) (away bool) {
	g.Waiting = v.Kind != limit.Admitted
	switch v.Kind {
	case limit.Admitted:
	case limit.Waiting:
		g.WaitingSince = now
		a.owner.countLimit(limit.Action(g.Name), LimitCount{What: LimitWaited, N: 1})
	case unanswered:
		in.gateAt = a.owner.clock.now() + askSilentGate.Milliseconds()
	default:
		in.gateAt = a.owner.clock.now() + askSilentGate.Milliseconds() // only memory has it until it is committed
		return true
	}
	return false
}

// passOn notifies the waiters that a call has admitted besides, and has the gate swept if the answer requires it.
func (a *admission) passOn(name string, got limit.AdmitReply, err error) {
	if err != nil { // a release is repeated by the sweep
		return
	}
	a.owner.notices.notify(name, got.Granted, limit.Admitted, got.Now)
	if got.SweepNow {
		a.owner.emit(Effect{Kind: WakeGate, ID: name})
	}
}

// askGates asks again for every ticket that is required: a gate may have forgotten its waiters and its holders.
func (a *admission) askGates(in *instance) {
	now := a.owner.clock.now()
	if in.state == nil || in.state.TicketLen() == 0 || in.gateAt > now {
		return
	}
	in.gateAt = now + a.gatePause(in, now)
	var calls gateCalls
	for _, k := range in.state.Tickets() {
		c := calls.at(k.Limit.Name)
		if len(c.since) == 0 {
			c.call.InForce, _ = a.policies.Resolve(limit.Action(k.Limit.Name), k.Limit.Declared)
			c.call.InForce.Version = 0 // for a gate that has forgotten everything
		}
		c.ask(in, k)
	}
	for _, c := range calls.all {
		a.askCall(in, c)
	}
}

// ask has a ticket asked about in this call.
func (c *gateCall) ask(in *instance, k history.Ticket) {
	m := Member(in.id, k.Event, in.state, k.Limit)
	c.call.Enter = append(c.call.Enter, limit.Entry{Member: m, Active: !k.Waiting})
	c.since = append(c.since, k.Limit.WaitingSince)
}

func (a *admission) askCall(in *instance, c *gateCall) {
	a.owner.met[CountGateAsks]++
	in.gateRequests++
	c.why, c.in = AskGate, in
	a.admit(c)
}

// gatePause is half as long as the youngest ticket is old, ms: it follows from history, for an instance that waits may be out of
// memory between any two reconciliations.
func (a *admission) gatePause(in *instance, now int64) int64 {
	youngest := in.state.Started.At
	for _, k := range in.state.Tickets() {
		if e := in.state.Activity(k.Event); e != nil {
			youngest = max(youngest, e.At)
		}
	}
	return min(max((now-youngest)/2, a.firstGateAsk()), lastGateAsk.Milliseconds())
}

func (a *admission) firstGateAsk() int64 {
	return gateAsks * a.owner.cfg.ReconcileInterval.Milliseconds()
}

func (a *admission) askedGate(id string, c *gateCall, got limit.AdmitReply, err error) {
	in := a.owner.instances[id]
	if in != nil && in.gateRequests > 0 {
		in.gateRequests--
	}
	if err != nil {
		if in != nil && in.state != nil { // else its next wake-up asks
			in.gateAt = a.owner.clock.now() + askSilentGate.Milliseconds()
			a.owner.outbox.retrySoon(in, askSilentGate)
		}
		reportFailure(a.owner.log, "gate request failed, retrying", err, "instance", id, "gate", c.call.Limit)
		return
	}
	for i, e := range c.call.Enter {
		if v := verdict(got, i, nil); !e.Active && v.Kind != limit.Waiting && v.Kind != unanswered {
			a.owner.notices.deliver(GateNotice{Gate: c.call.Limit, Member: e.Member, Kind: v.Kind, At: got.Now, Requested: true, Since: c.since[i]})
		}
	}
	if in != nil && in.phase == idle {
		a.owner.advance(in)
	}
}
