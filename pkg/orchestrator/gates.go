package orchestrator

import (
	"strings"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/gate"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// The instance's side of the gates: see docs/decisions/0014. What the fold of its history wants, is wanted:
//
//	turn ──enter──▶ gate ──let in──▶ commit, with the lease     ──task──▶ …
//	                 └──waits──▶ commit, without ──word──▶ Granted: commit, with the lease ──task──▶ …
//	                                               └─────▶ turned away: a failure
//	… ──answered, cancelled, ended──▶ commit ──leave──▶ gate
//
// Crash points: between enter and commit, commit and leave, a word and the commit of what it says. In all of them the gate
// has a ticket that the history wants, or not: it says its word again until one of the two agrees with the other.

const (
	askSilentGate = 2 * time.Second // after a gate did not answer
	gateAsks      = 3               // looks, before a ticket is asked for again
	lastGateAsk   = 5 * time.Minute // the pause grows up to this
)

// word is what a gate has said about a ticket: LetIn, or why not.
type word struct {
	gate   string
	member gate.Member
	kind   gate.Kind
}

// entry is a schedule, or a start, in front of a gate.
type entry struct {
	event   uint64
	gate    *history.Gate
	member  gate.Member
	inForce gate.InForce
}

// inForce finds the policy for an action; false: it has none. Only who enters anew brings one; all others leave the gate's own.
func (a *actor) inForce(action string, d history.Declared) (gate.InForce, bool) {
	if len(a.policies.now().Policies) == 0 && a.global == nil && d == (history.Declared{}) { // as most
		return gate.InForce{}, false
	}
	return a.resolve(action, d)
}

// resolve gives the policy that is in force now; one that limits nothing, if there is none.
func (a *actor) resolve(action string, d history.Declared) (gate.InForce, bool) {
	o := a.policies.now()
	f, ok := o.Resolve(action, d, a.global)
	f.Version, f.Declared = o.Version+1, d // 0 is for who has none
	if !ok {
		f.Level = "none"
	}
	return f, ok
}

// enter takes what a turn has scheduled through its gates, and commits.
func (a *actor) enter(in *instance, t *turn) {
	entries := a.entries(in, t)
	t.tickets = t.fold.Left()
	if len(entries) == 0 {
		a.commitEntered(in, t)
		return
	}
	calls := t.calls(entries)
	pending := len(calls)
	for _, c := range calls {
		a.admit(c.call, func(got gate.Admitted, err error) {
			failpoint.Here("orchestrator.entered")
			for i, e := range c.entries {
				a.entered(in, t, e, verdict(got, i, err))
			}
			if pending--; pending == 0 {
				a.commitEntered(in, t)
			}
		})
	}
}

// unanswered is what a gate says that does not answer: who enters waits, and asks again.
const unanswered gate.Kind = 0

func verdict(got gate.Admitted, i int, err error) gate.Verdict {
	if err != nil || i >= len(got.Verdicts) {
		return gate.Verdict{Kind: unanswered}
	}
	return got.Verdicts[i]
}

// entries are the activities of the turn that must pass a gate. What passes none says nothing of gates.
func (a *actor) entries(in *instance, t *turn) []entry {
	var out []entry
	for _, ev := range t.events {
		e, ok := ev.(*history.ActivityScheduled)
		if !ok {
			continue
		}
		said := history.Gate{}
		if e.Gate != nil {
			said = *e.Gate
			e.Gate, t.stamped = nil, true
		}
		if t.fold.Activity(e.ID) == nil { // cancelled in the same turn
			continue
		}
		ticket := e.Effect
		if said.Keep {
			ticket = e.CallKey()
		}
		if kept, ok := t.fold.Kept(ticket); ok {
			t.fold.Enter(e.ID, &kept)
			t.stamped = true
			continue
		}
		f, ok := a.inForce(e.Name, said.Declared)
		if !ok {
			continue
		}
		g := &history.Gate{Name: gate.Name(e.Name, gate.KeyAt(f.Policy.Key, e.Payload)), Ticket: ticket, Keep: said.Keep, Declared: said.Declared}
		g.Under = under(g.Name, t.fold.Started)
		out = append(out, entry{event: e.ID, gate: g, member: member(in.id, in.executionOf(t), e.ID, t.fold.Started, g), inForce: f})
	}
	return out
}

// executionOf is that of the record, or of the turn that makes it.
func (in *instance) executionOf(t *turn) uint64 {
	if in.rec == nil && t.fold.Started != nil {
		return t.fold.Started.Execution
	}
	return in.execution()
}

// member is how a gate knows a ticket.
func member(instance string, execution, event uint64, s *history.Started, g *history.Gate) gate.Member {
	m := gate.Member{Ticket: g.Ticket, Instance: instance, Under: g.Under}
	switch {
	case event == 1:
		m.Place = gate.StartPlace(s.Born)
	case g.Keep:
		m.Place = gate.KeptPlace
	default:
		m.Place = gate.ActivityPlace(execution, event)
	}
	return m
}

// under finds who of the ancestors, or the instance itself, holds the gate.
func under(name string, s *history.Started) string {
	for _, held := range strings.Fields(holds(s)) {
		if g, ticket, _ := strings.Cut(held, "="); g == name {
			return ticket
		}
	}
	return ""
}

// holds lists the gates that an instance and its ancestors hold, for its children.
func holds(s *history.Started) string {
	var all []string
	if s.Gate != nil {
		all = append(all, s.Gate.Name+"="+s.Gate.Ticket)
	}
	if s.Parent != nil && s.Parent.Holds != "" {
		all = append(all, s.Parent.Holds)
	}
	return strings.Join(all, " ")
}

// gateCall is one call, and who is in it.
type gateCall struct {
	call    gate.Call
	entries []entry
}

// calls groups the entries by gate. What has ended in the same turn leaves in the same call, if it was its worker that
// ended it, or if its ticket enters again; all others leave after the commit.
func (t *turn) calls(entries []entry) []*gateCall {
	var out []*gateCall
	of := make(map[string]*gateCall)
	again := make(map[string]bool)
	for _, e := range entries {
		c := of[e.gate.Name]
		if c == nil {
			c = &gateCall{call: gate.Call{Gate: e.gate.Name, InForce: e.inForce}}
			of[e.gate.Name] = c
			out = append(out, c)
		}
		c.entries = append(c.entries, e)
		c.call.Enter = append(c.call.Enter, gate.Entry{Member: e.member})
		again[e.gate.Ticket] = true
	}
	ended := t.endedByWorkers()
	later := t.tickets[:0]
	for _, k := range t.tickets {
		if c := of[k.Gate.Name]; c != nil && (ended[k.Event] || again[k.ID]) {
			c.call.Leave = append(c.call.Leave, member(t.in.id, t.in.executionOf(t), k.Event, t.fold.Started, k.Gate))
		} else {
			later = append(later, k)
		}
	}
	t.tickets = later
	return out
}

func (t *turn) endedByWorkers() map[uint64]bool {
	ended := make(map[uint64]bool)
	for _, ev := range t.events {
		switch e := ev.(type) {
		case *history.ActivityCompleted:
			ended[e.Scheduled] = true
		case *history.ActivityFailed:
			ended[e.Scheduled] = e.Failure.Code != history.CodePoison
		}
	}
	return ended
}

// entered takes what a gate says to a schedule of the turn.
func (a *actor) entered(in *instance, t *turn, e entry, v gate.Verdict) {
	e.gate.Waits = v.Kind != gate.LetIn
	t.fold.Enter(e.event, e.gate)
	t.stamped = true
	switch v.Kind {
	case gate.LetIn:
	case gate.Waits:
		a.met.waited.WithLabelValues(gate.Action(e.gate.Name)).Inc()
	case unanswered:
		in.gateAt = a.clock.now() + askSilentGate.Milliseconds()
	default:
		t.refused = append(t.refused, a.turnedAway(e.event, e.gate.Name, v.Kind, v.Until))
	}
}

func (a *actor) commitEntered(in *instance, t *turn) {
	if t.stamped {
		if err := t.encodeAgain(); err != nil {
			a.end(in)
			a.stall(in, stallUnreadable, err.Error())
			return
		}
	}
	a.commit(in, t)
}

// encodeAgain encodes the schedules whose gates have been noted since they were recorded.
func (t *turn) encodeAgain() error {
	for i, ev := range t.events {
		if _, ok := ev.(*history.ActivityScheduled); !ok {
			continue
		}
		b, err := history.Encode(ev)
		if err != nil {
			return err
		}
		t.size += len(b) - len(t.encoded[i])
		t.encoded[i] = b
	}
	return nil
}

// turnedAway is the failure of an activity that a gate did not let in.
func (a *actor) turnedAway(event uint64, name string, why gate.Kind, until int64) *history.ActivityFailed {
	failed := &history.ActivityFailed{Scheduled: event, Failure: refusedAt(name, why, until)}
	failed.At = a.clock.now()
	a.met.refusedAt.WithLabelValues(gate.Action(name), failed.Failure.Code).Inc()
	return failed
}

func refusedAt(name string, why gate.Kind, until int64) history.Failure {
	what := "action " + gate.Action(name)
	if key := gate.Key(name); key != "" {
		what += " (key " + key + ")"
	}
	f := history.Failure{}
	switch why {
	case gate.Full:
		f.Code, f.Message = history.CodeQueueFull, what+": as many wait already as its queue limit allows"
	case gate.TimedOut:
		f.Code, f.Message = history.CodeQueueTimeout, what+": it was not let in within the queue timeout"
	case gate.Cleared:
		f.Code, f.Message = history.CodeQueueCleared, what+": its queue was cleared"
	default:
		f.Code, f.Message = history.CodeLimited, what+": its limit is reached, and its policy is to refuse"
		if until > 0 {
			f.Message += "; there is room again at " + time.UnixMilli(until).UTC().Format(time.RFC3339Nano)
		}
	}
	return f
}

// mustKnock reports a start that has not been at its gate. The next execution of an instance has: it holds its slot.
func (a *actor) mustKnock(in *instance) bool {
	if in.knocked || len(in.unread) == 0 || in.state != nil && in.state.Len > 0 {
		return false
	}
	s, ok := in.unread[0].ev.(*history.Started)
	return ok && s.Gate == nil && (in.rec == nil || in.rec.Created == s.At)
}

// knock takes a start to its gate, before its code has run.
func (a *actor) knock(in *instance) {
	b, ok := a.binding(in)
	if !ok {
		a.stall(in, stallUnregistered, a.lack(in))
		return
	}
	s := in.unread[0].ev.(*history.Started) //nolint:forcetypeassert // mustKnock looks
	d := b.Declared()
	f, ok := a.inForce(s.Name, d)
	if !ok {
		in.knocked = true
		a.advance(in)
		return
	}
	g := &history.Gate{Name: gate.Name(s.Name, gate.KeyAt(f.Policy.Key, s.Payload)), Ticket: gate.StartTicket(in.id, s.Born), Declared: d}
	if s.Parent != nil {
		g.Under = under(g.Name, &history.Started{Parent: s.Parent})
	}
	a.begin(in)
	c := gate.Call{Gate: g.Name, InForce: f, Enter: []gate.Entry{{Member: member(in.id, 1, 1, s, g)}}}
	a.admit(c, func(got gate.Admitted, err error) {
		failpoint.Here("orchestrator.entered")
		a.end(in)
		v := verdict(got, 0, err)
		g.Waits = v.Kind != gate.LetIn
		in.knocked, in.startGate = true, g
		switch v.Kind {
		case gate.LetIn:
		case gate.Waits:
			a.met.waited.WithLabelValues(s.Name).Inc()
		case unanswered:
			in.gateAt = a.clock.now() + askSilentGate.Milliseconds()
		default:
			in.away = v
			in.away.Until = max(v.Until, 0)
		}
		a.catchUp(in)
		a.advance(in)
	})
}

// passGate writes into a start that is about to be turned what its gate has said.
func (in *instance) passGate() {
	if s, ok := in.unread[0].ev.(*history.Started); ok && in.startGate != nil {
		s.Gate = in.startGate
	}
}

// refuse ends an instance that its gate has turned away; its code has not run.
func (a *actor) refuse(in *instance) {
	name, why := "", in.away
	switch {
	case in.startGate != nil:
		name = in.startGate.Name
		in.passGate()
	default:
		name = in.state.Started.Gate.Name
	}
	in.away = gate.Verdict{}
	a.unwindCode(in)
	f := refusedAt(name, why.Kind, why.Until)
	a.met.refusedAt.WithLabelValues(gate.Action(name), f.Code).Inc()
	f.Message = "instance " + in.id + ": " + f.Message
	if why.Kind != gate.Cleared {
		a.endByName(in, &cancel.Cancelled{Reason: cancel.OrchestrationFailed}, &history.Failed{Failure: f}, 0)
		return
	}
	c := &cancel.Cancelled{Reason: cancel.Requested, Text: f.Message, At: time.UnixMilli(a.clock.now()).UTC()}
	failure := *pawl.ToFailure(c)
	failure.Also = append(failure.Also, f.Code)
	a.endByName(in, c, &history.Cancelled{Failure: failure, Text: c.Text}, 0)
}

// worded takes the words that gates have for instances of this partition, and for the gates of it.
func (a *actor) worded(ws []queue.Word) {
	for _, w := range ws {
		if w.Kind == queue.WordLook {
			a.lookGate(w.Gate)
			continue
		}
		m, err := gate.ParseMember(w.Member)
		if err != nil {
			a.log.Debug("a word of a gate names nobody", "gate", w.Gate, "error", err)
			continue
		}
		a.tellInstance(word{gate: w.Gate, member: m, kind: saidBy(w.Kind)})
	}
}

func saidBy(k queue.WordKind) gate.Kind {
	switch k {
	case queue.WordTimedOut:
		return gate.TimedOut
	case queue.WordCleared:
		return gate.Cleared
	default:
		return gate.LetIn
	}
}

func (a *actor) tellInstance(w word) {
	in := a.instance(w.member.Instance)
	if in.words == nil {
		in.words = make(map[string]word)
	}
	in.words[w.member.Ticket] = w
	a.advance(in)
}

// hear makes inputs of the words about tickets that are wanted. The others are kept: what is unread may want them still,
// as the turn did that was decided before a crash, and entered the gate.
func (a *actor) hear(in *instance) {
	if len(in.words) == 0 || in.state == nil || in.status().Ended() {
		return
	}
	for _, k := range in.state.Tickets() {
		w, ok := in.words[k.ID]
		if !ok {
			continue
		}
		delete(in.words, k.ID)
		if k.Waits && w.gate == k.Gate.Name {
			a.heed(in, k, w)
		}
	}
}

func (a *actor) heed(in *instance, k history.Ticket, w word) {
	switch {
	case w.kind == gate.LetIn:
		ev := &history.Granted{Scheduled: k.Event}
		ev.At = a.clock.now()
		in.poison = append(in.poison, ev)
	case k.Event == 1:
		in.away = gate.Verdict{Kind: w.kind}
	default:
		in.poison = append(in.poison, a.turnedAway(k.Event, w.gate, w.kind, 0))
	}
}

// leaveUnknown takes out of their gates the tickets that nothing in the instance wants, and nothing unread will.
func (a *actor) leaveUnknown(in *instance) {
	for id, w := range in.words {
		delete(in.words, id)
		a.met.orphans.Inc()
		a.admit(gate.Call{Gate: w.gate, Leave: []gate.Member{w.member}}, func(gate.Admitted, error) {})
	}
}

// leaveGates takes the tickets of a turn out of their gates. What is lost on the way is found by the gate's sweep.
func (a *actor) leaveGates(in *instance, t *turn) {
	if len(t.tickets) == 0 {
		return
	}
	of := make(map[string]*gate.Call)
	var calls []*gate.Call
	for _, k := range t.tickets {
		c := of[k.Gate.Name]
		if c == nil {
			c = &gate.Call{Gate: k.Gate.Name}
			of[k.Gate.Name] = c
			calls = append(calls, c)
		}
		c.Leave = append(c.Leave, member(in.id, t.execution, k.Event, t.fold.Started, k.Gate))
	}
	for _, c := range calls {
		a.admit(*c, func(_ gate.Admitted, err error) {
			failpoint.Here("orchestrator.left")
			if err != nil {
				a.log.Warn("a slot could not be given back; the sweep of its gate does", "instance", in.id, "gate", c.Gate, "error", err)
			}
		})
	}
}

// askGates asks again for every ticket that is wanted: a gate may have forgotten who waits, and who is in.
func (a *actor) askGates(in *instance) {
	now := a.clock.now()
	if in.state == nil || in.state.TicketLen() == 0 || in.gateAt > now {
		return
	}
	in.gateAt = now + a.gatePause(in, now)
	of := make(map[string]*gate.Call)
	waiting := make(map[string][]string) // tickets, by gate
	for _, k := range in.state.Tickets() {
		c := of[k.Gate.Name]
		if c == nil {
			f, _ := a.resolve(gate.Action(k.Gate.Name), k.Gate.Declared)
			f.Version = 0 // for a gate that has forgotten everything
			c = &gate.Call{Gate: k.Gate.Name, InForce: f}
			of[k.Gate.Name] = c
		}
		c.Enter = append(c.Enter, gate.Entry{Member: member(in.id, in.execution(), k.Event, in.state.Started, k.Gate), In: !k.Waits})
		waiting[k.Gate.Name] = append(waiting[k.Gate.Name], k.ID)
	}
	for name, c := range of {
		a.met.gateAsks.Inc()
		a.admit(*c, func(got gate.Admitted, err error) { a.askedGate(in.id, name, c.Enter, got, err) })
	}
}

// gatePause is half as long as the youngest ticket is old, ms: it follows from history, for an instance that waits may be out of
// memory between any two looks.
func (a *actor) gatePause(in *instance, now int64) int64 {
	youngest := in.state.Started.At
	for _, k := range in.state.Tickets() {
		if e := in.state.Activity(k.Event); e != nil {
			youngest = max(youngest, e.At)
		}
	}
	return min(max((now-youngest)/2, a.firstGateAsk()), lastGateAsk.Milliseconds())
}

func (a *actor) firstGateAsk() int64 { return gateAsks * a.cfg.Look.Milliseconds() }

func (a *actor) askedGate(id, name string, asked []gate.Entry, got gate.Admitted, err error) {
	if err != nil {
		if in := a.instance(id); in.loaded {
			in.gateAt = a.clock.now() + askSilentGate.Milliseconds()
		}
		a.log.Warn("a gate does not answer; asking again", "instance", id, "gate", name, "error", err)
		return
	}
	for i, v := range got.Verdicts {
		if !asked[i].In && v.Kind != gate.Waits {
			a.tellInstance(word{gate: name, member: asked[i].Member, kind: v.Kind})
		}
	}
}

// admit calls a gate; then runs on the actor. Whom the call has let in besides is told.
func (a *actor) admit(c gate.Call, then func(gate.Admitted, error)) {
	a.gates.Admit(c, func(got gate.Admitted, err error) {
		a.box.post(func() {
			if err == nil {
				a.spread(c.Gate, got.Granted, queue.WordGranted)
				if got.First {
					a.sendWord(a.conn.PartitionOf(c.Gate), []queue.Word{{Kind: queue.WordLook, Gate: c.Gate}})
				}
			}
			then(got, err)
		})
	})
}

// spread tells instances what a gate has for them.
func (a *actor) spread(name string, ms []gate.Member, kind queue.WordKind) {
	if len(ms) == 0 {
		return
	}
	to := make(map[int][]queue.Word)
	for _, m := range ms {
		p := a.conn.PartitionOf(m.Instance)
		to[p] = append(to[p], queue.Word{Kind: kind, Gate: name, Member: m.String()})
	}
	for p, ws := range to {
		a.sendWord(p, ws)
	}
}

func (a *actor) sendWord(p int, ws []queue.Word) {
	if p == a.st.Part {
		a.box.post(func() { a.worded(ws) }) // not at once: an instance may be in the middle of something
		return
	}
	if err := a.conn.SendWords(p, ws); err != nil {
		a.log.Debug("a gate's words could not be sent; its sweep says them again", "partition", p, "error", err)
	}
}

// settled reports an input of the owner's own that came from a gate, and whose ticket has been answered otherwise since.
func (t *turn) settled(ev history.Event) bool {
	switch e := ev.(type) {
	case *history.Granted:
		return !t.fold.Waits(e.Scheduled)
	case *history.ActivityFailed:
		switch e.Failure.Code {
		case history.CodeQueueFull, history.CodeQueueTimeout, history.CodeQueueCleared, history.CodeLimited:
			return !t.fold.Waits(e.Scheduled)
		}
	}
	return false
}
