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

// never is how far in the future work is scheduled that tests do not wait for, such as the expiry of claims and reconciliation.
const (
	never      = 20 * 365 * 24 * time.Hour
	inputsKept = int(record.InboxBound)
	dedupKept  = time.Hour // how long message ids are remembered for deduplication
)

// partition is the one partition of an Env: the production owner, its in-memory store and its surroundings. The package comment describes
// the order in which things happen.
type partition struct {
	memstore.Shell

	env      *world
	owner    *memstore.Tenure
	tenures  int
	ingested int                  // number of inputs ingested from the stream
	mailbox  []core.Message       // messages to the owner
	read     int                  // number of messages in mailbox already handled
	turns    []core.Effect        // turns that have not run yet
	delays   []int64              // when delayed starts are due
	resident map[string]turn.Code // code in memory; it outlives the owner, because it was already restored from the history
	lastRun  map[string]uint64    // for each instance that polls: the number of the last run that the poll must see
	stalled  map[string]string    // stalled instances, with the stored reason
}

func newPartition(e *world) *partition {
	rules := memstore.Rules{
		Soon: core.FirstPause.Milliseconds(), LeaseTTL: 2 * never.Milliseconds(), OwnerTTL: 2 * never.Milliseconds(), Claims: 3, Inbox: inputsKept,
		Seen: dedupKept.Milliseconds(), Seal: ".test",
	}
	p := &partition{
		Shell: memstore.Shell{Store: memstore.NewStore(rules), Now: epoch().UnixMilli(), Limits: memstore.Limits{Rules: memlimit.Rules{Stale: never.Milliseconds()}}}, env: e,
		resident: make(map[string]turn.Code), lastRun: make(map[string]uint64), stalled: make(map[string]string),
	}
	return p
}

// acquire begins the tenure of another owner, with the code that is bound now. The new owner completes what the previous one has not
// done.
func (p *partition) acquire() {
	p.tenures++
	clear(p.lastRun)
	cfg := core.Config{
		ReconcileInterval: never, MaxClaims: 3, Parked: 1 << 30, Retention: core.Retention{Completed: -1, Failed: -1, Cancelled: -1}, Programs: p.env.code.registry,
	}
	with := core.Takeover{Stalls: maps.Clone(p.stalled), Policies: p.env.policies}
	owner, applied, first := memstore.Begin(&p.Shell, "owner-"+strconv.Itoa(p.tenures), cfg, 5*never.Milliseconds(), with)
	p.owner, p.ingested, p.mailbox, p.read, p.turns = owner, int(applied.Seq), []core.Message{first}, 0, nil //nolint:gosec // a length
	p.ingest()                                                                                               // first, because an input may end work that would be repeated
}

func (p *partition) post(m core.Message) {
	if p.read == len(p.mailbox) {
		p.mailbox, p.read = p.mailbox[:0], 0
	}
	p.mailbox = append(p.mailbox, m)
}

// handle passes the owner its next message and carries out the effects. It reports whether there was one.
func (p *partition) handle() bool {
	if p.read == len(p.mailbox) {
		return false
	}
	m := &p.mailbox[p.read]
	p.read++
	owner, effects := p.owner, p.owner.Core.Step(time.UnixMilli(p.Now), m)
	for i := range effects {
		if p.do(&effects[i]); p.owner != owner {
			return true // the owner has died
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

// request carries out an effect that the store or a limit answers. Other effects, which production logs, counts or sends to a watcher,
// are ignored.
func (p *partition) request(e *core.Effect) {
	m := p.owner.CarryOut(&p.Shell, e)
	if m != nil {
		p.post(*m)
	}
	switch {
	case e.Kind == core.ReconcileWith && e.Recon.Stalled == record.NotStalled:
		delete(p.stalled, e.ID)
	case e.Kind == core.ReconcileWith && e.Recon.Stalled != "" && e.Recon.Deferral == record.DeferAll:
		p.stalled[e.ID] = e.Recon.Stalled
		p.env.stalled(e.ID, core.ParseStall(e.Recon.Stalled))
	case e.Kind == core.RemoveInstance && m.Err == nil:
		p.env.purged(e.ID)
	}
}

// ingest passes new inputs of the stream to the owner. It reports whether there were any.
func (p *partition) ingest() bool {
	n := len(p.Stream)
	if p.ingested == n {
		return false
	}
	b, err := p.Ingest(p.owner.Token, p.ingested, n)
	if err != nil {
		p.env.fatalf("an input cannot be ingested: %v", err)
	}
	p.ingested = n
	p.post(core.Message{Kind: core.InputsIngested, Body: b})
	return true
}

// wake passes the owner what is due. It reports whether anything was.
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

// due returns the time of the next wakeup of an instance or a limit, or math.MaxInt64 if there is none.
func (p *partition) due() int64 {
	at := int64(math.MaxInt64)
	for _, list := range []map[string]int64{p.Store.Wakeups, p.Store.Limits} {
		for _, t := range list {
			at = min(at, t)
		}
	}
	return at
}

// expected returns when a limit, a delayed start or a retry of the owner next continues something that the test waits for, or
// math.MaxInt64.
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
	for name, t := range p.Store.Limits {
		if p.Limits.Waiting(name) > 0 && t < p.Now+never.Milliseconds()/2 {
			at = min(at, t)
		}
	}
	return at
}

// turn runs the first turn that may run. A turn of an instance that polls is deferred until everything due at this instant has arrived.
// It reports whether one ran.
func (p *partition) turn() bool {
	for i := range p.turns {
		e := p.turns[i]
		lastRun, polls := p.lastRun[e.ID]
		if !polls {
			lastRun = p.env.work.number
		}
		arrived := p.env.pollMayComplete(lastRun)
		if polls && !arrived {
			continue
		}
		p.turns = slices.Delete(p.turns, i, i+1)
		e.Given.CatchingUp = !arrived
		d := p.decide(e.ID, e.Given)
		if d.Early {
			p.lastRun[e.ID] = lastRun
		}
		p.post(core.Message{Kind: core.TurnDone, ID: e.ID, Decided: d})
		return true
	}
	return false
}

// decide runs a turn with a single input, however many there are.
func (p *partition) decide(id string, g *core.Given) *core.Decided {
	e := p.env
	code, resident := p.resident[id]
	resident = resident && (g.Resident || code.Exec == nil || !code.Exec.Ended()) // otherwise another execution begins
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
		delete(p.resident, id) // the abandoned goroutine still uses it
		e.failf(id, "%v", blocked)
	case d.Err != nil:
		p.resident[id] = code
		e.failf(id, "%v", d.Err)
	}
	p.resident[id] = code
	return d
}

// first limits a turn to the first of its inputs.
func first(g *core.Given) {
	if len(g.Inputs) > 1 {
		g.Inputs, g.More, g.Part = g.Inputs[:1], true, true
	}
}

// evict removes the code of an instance from memory.
func (p *partition) evict(id string) error {
	c := p.resident[id]
	delete(p.resident, id)
	if c.Exec == nil || c.Exec.Ended() {
		return nil
	}
	return c.Exec.Evict()
}

// clear evicts all code at the end of the test.
func (p *partition) clear() {
	for id := range p.resident {
		if err := p.evict(id); err != nil {
			p.env.tb.Errorf("evict %s: %v", id, err)
		}
	}
}

// accept appends a message to the stream.
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
