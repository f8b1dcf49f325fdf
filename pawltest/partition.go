package pawltest

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/memlimit"
	"github.com/pawlrun/pawl/internal/memstore"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/turn"
)

// never is how far ahead of time is what is not waited for: claims of workers expire, and what nothing has lost is reconciled, behind it.
const (
	never      = 20 * 365 * 24 * time.Hour
	inputsKept = int(record.InboxBound)
	dedupKept  = time.Hour // for so long the id of a message is remembered
)

// partition is the one partition of an Env: the owner of production, on a store in memory, and what it has around it. See the package's
// comment for the order in which things happen.
type partition struct {
	memstore.Shell

	env      *world
	owner    *memstore.Tenure
	tenures  int
	ingested int                  // inputs of the stream
	mailbox  []core.Message       // to the owner
	read     int                  // of the mailbox
	turns    []core.Effect        // that are to run
	delays   []int64              // when delayed starts are due
	resident map[string]turn.Code // also of the owner before: brought back from the history already
	behind   map[string]uint64    // instances whose code polls: that is complete behind the work up to this number
	stalled  map[string]string    // instances whose code is not there, and why, as the store has it
}

func newPartition(e *world) *partition {
	rules := memstore.Rules{
		Soon: core.FirstPause.Milliseconds(), LeaseTTL: 2 * never.Milliseconds(), OwnerTTL: 2 * never.Milliseconds(), Claims: 3, Inbox: inputsKept,
		Seen: dedupKept.Milliseconds(), Seal: ".test",
	}
	p := &partition{
		Shell: memstore.Shell{Store: memstore.NewStore(rules), Now: epoch().UnixMilli(), Limits: memstore.Limits{Rules: memlimit.Rules{Stale: never.Milliseconds()}}}, env: e,
		resident: make(map[string]turn.Code), behind: make(map[string]uint64), stalled: make(map[string]string),
	}
	return p
}

// acquire begins the tenure of another owner, with the code that is bound now. What the one before has not done is left to it.
func (p *partition) acquire() {
	p.tenures++
	clear(p.behind)
	cfg := core.Config{
		ReconcileInterval: never, MaxClaims: 3, Parked: 1 << 30, Retention: core.Retention{Completed: -1, Failed: -1, Cancelled: -1}, Programs: p.env.code.registry,
	}
	with := core.Takeover{Stalls: maps.Clone(p.stalled), Policies: p.env.policies}
	owner, applied, first := memstore.Begin(&p.Shell, "owner-"+strconv.Itoa(p.tenures), cfg, 5*never.Milliseconds(), with)
	p.owner, p.ingested, p.mailbox, p.read, p.turns = owner, int(applied.Seq), []core.Message{first}, 0, nil //nolint:gosec // a length
	p.ingest()                                                                                               // before anything is repeated that it may have ended
}

func (p *partition) post(m core.Message) {
	if p.read == len(p.mailbox) {
		p.mailbox, p.read = p.mailbox[:0], 0
	}
	p.mailbox = append(p.mailbox, m)
}

// handle gives the owner its next message, and carries out what that leads to. It reports false if there is none.
func (p *partition) handle() bool {
	if p.read == len(p.mailbox) {
		return false
	}
	m := &p.mailbox[p.read]
	p.read++
	owner, effects := p.owner, p.owner.Core.Step(time.UnixMilli(p.Now), m)
	for i := range effects {
		if p.do(&effects[i]); p.owner != owner {
			return true // it has died
		}
	}
	if err := p.owner.Core.Err(); err != nil {
		p.env.fatalf("the owner of the instances has failed: %v", err)
	}
	return true
}

// do carries out an effect of the owner.
func (p *partition) do(e *core.Effect) {
	switch e.Kind {
	case core.RunTurn:
		p.turns = append(p.turns, *e)
	case core.EvictCode:
		if err := p.evict(e.ID); err != nil {
			p.env.failf(e.ID, "%v", err)
		}
	case core.CommitTurn:
		m := p.Answer(e, p.owner.Token)
		p.post(*m)
		if m.Err == nil {
			p.env.committed(e.ID, e.Commit, e.Decided)
		}
	case core.PublishTask:
		p.env.work.dispatch(e)
		p.post(core.Message{Kind: core.TaskPublished, ID: e.ID, Event: e.Activity.ID})
	case core.PublishMessage:
		p.env.send(e.Input)
		p.post(core.Message{Kind: core.MessagePublished, Number: e.Number})
	case core.AnswerClients:
		p.env.operated(e.Body.(*core.ClientAnswer))
	default:
		p.request(e)
	}
}

// request carries out an effect that the store or a limit answers; any other is logged, counted, or sent to a watcher.
func (p *partition) request(e *core.Effect) {
	m := p.owner.CarryOut(&p.Shell, e)
	if m != nil {
		p.post(*m)
	}
	switch {
	case e.Kind == core.ReconcileWith && e.Recon.Stalled == record.NotStalled:
		delete(p.stalled, e.ID)
	case e.Kind == core.ReconcileWith && e.Recon.Stalled != "" && e.Recon.InboxHold == record.HoldAll:
		p.stalled[e.ID] = e.Recon.Stalled
		p.env.stalled(e.ID, core.ParseStall(e.Recon.Stalled))
	case e.Kind == core.RemoveInstance && m.Err == nil:
		p.env.purged(e.ID)
	}
}

// ingest has the owner take what is in the stream. It reports false if there is nothing.
func (p *partition) ingest() bool {
	n := len(p.Stream)
	if p.ingested == n {
		return false
	}
	b, err := p.Ingest(p.owner.Token, p.ingested, n)
	if err != nil {
		p.env.fatalf("an input cannot be taken: %v", err)
	}
	p.ingested = n
	p.post(core.Message{Kind: core.InputsIngested, Body: b})
	return true
}

// wake has the owner do what is due. It reports false if nothing is.
func (p *partition) wake() bool {
	if m := p.owner.Due(&p.Shell); m != nil {
		p.post(*m)
		return true
	}
	if p.due() <= p.Now {
		p.post(core.Message{Kind: core.WakeupsDue})
		return true
	}
	return false
}

// due is when the store has an instance or a limit woken next; math.MaxInt64: never.
func (p *partition) due() int64 {
	at := int64(math.MaxInt64)
	for _, list := range []map[string]int64{p.Store.Agenda, p.Store.Gates} {
		for _, t := range list {
			at = min(at, t)
		}
	}
	return at
}

// expected is when a limit, a delayed start, or a pause of the owner, goes on with something that is waited for; math.MaxInt64: never.
func (p *partition) expected() int64 {
	at := int64(math.MaxInt64)
	for _, x := range p.owner.Timers {
		at = min(at, x.At)
	}
	for _, t := range p.delays {
		if t > p.Now {
			at = min(at, t)
		}
	}
	for name, t := range p.Store.Gates {
		if p.Limits.Waiting(name) > 0 && t < p.Now+never.Milliseconds()/2 {
			at = min(at, t)
		}
	}
	return at
}

// turn runs the first turn that may: one whose code polls is put off until what is due at this instant has come. It reports false if
// there is none.
func (p *partition) turn() bool {
	for i := range p.turns {
		e := p.turns[i]
		behind, polls := p.behind[e.ID]
		if !polls {
			behind = p.env.work.number
		}
		arrived := p.env.arrived(behind)
		if polls && !arrived {
			continue
		}
		p.turns = slices.Delete(p.turns, i, i+1)
		e.Given.Behind = !arrived
		d := p.decide(e.ID, e.Given)
		if d.Early {
			p.behind[e.ID] = behind
		}
		p.post(core.Message{Kind: core.TurnDone, ID: e.ID, Decided: d})
		return true
	}
	return false
}

// decide runs a turn: one input, however many there are.
func (p *partition) decide(id string, g *core.Given) *core.Decided {
	e := p.env
	code, resident := p.resident[id]
	resident = resident && (g.Resident || code.Exec == nil || !code.Exec.Ended()) // else another execution begins
	first(g)
	g.More = g.More || len(p.Store.Get(id).Inbox) > len(g.Inputs)
	var d *core.Decided
	blocked := e.guard.run(func() {
		if !resident {
			var err error
			if code, err = turn.Replay(g, replay.New(g.Identity, g.Program, strict())); err != nil {
				d = &core.Decided{Err: err}
				return
			}
		}
		d = turn.Decide(g, code)
	})
	switch {
	case blocked != nil && code.Exec != nil:
		code.Exec.GiveUp()
		delete(p.resident, id) // its goroutine still uses it
		e.failf(id, "%v", blocked)
	case d.Err != nil:
		p.resident[id] = code
		e.failf(id, "%v", d.Err)
	}
	p.resident[id] = code
	return d
}

// first leaves a turn the first of its inputs.
func first(g *core.Given) {
	if len(g.Inputs) > 1 {
		g.Inputs, g.More, g.Part = g.Inputs[:1], true, true
	}
}

// evict takes the code of an instance out of memory.
func (p *partition) evict(id string) error {
	c := p.resident[id]
	delete(p.resident, id)
	if c.Exec == nil || c.Exec.Ended() {
		return nil
	}
	return c.Exec.Evict()
}

// clear takes all code out of memory at the end of the test.
func (p *partition) clear() {
	for id := range p.resident {
		if err := p.evict(id); err != nil {
			p.env.tb.Errorf("evict %s: %v", id, err)
		}
	}
}

// accept puts a message into the stream.
func (p *partition) accept(out *message.OutInput) {
	in := message.Input{
		Instance: out.Instance, Sender: out.Sender, Kind: out.Kind, Name: out.Name, Payload: out.Payload, ID: out.ID, Reply: out.Reply, Headers: out.Headers,
		By: out.By, Text: out.Text, Force: out.Force, Operate: out.Operate, Version: out.Version, Attrs: out.Attrs, Parent: out.Parent, Event: out.Event,
		Of: out.Of, Reason: out.Reason, Done: out.Done, Timeout: out.Timeout, Reuse: out.Reuse, StartAt: p.delay(out),
	}
	if out.Deadline > 0 {
		in.Deadline = p.Now + out.Deadline.Milliseconds()
	}
	p.Accept(in)
}
