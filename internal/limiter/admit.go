package limiter

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/redisx"
)

const (
	maxAdmit     = 500             // leaves and entries of one script
	admitTimeout = 2 * time.Second // without an answer: ErrSlow
	scheduledFor = 3 * time.Second // for so long a gate that this process has put on the list is believed to be there
	idleFor      = scheduledFor    // a gate that was not used for so long may have been taken off the list just now
)

// ErrSlow answers an Admit that Redis has not answered within two seconds. It may be carried out all the same: ask again,
// in the same words.
var ErrTimeout = errors.New("the gate does not answer")

// Entry is one that wants to be let in.
type Entry struct {
	Member Member
	Active bool // it has been let in, as its history says: the gate is told, and asks nothing
}

// Call is what one caller has to say to a gate. Leaves come before entries.
type AdmitRequest struct {
	Limit   string
	InForce InForce // the zero value: what the gate has stands
	Leave   []Member
	Enter   []Entry
}

// Kind is what became of an entry.
type Kind uint8

// The kinds.
const (
	Admitted  Kind = 1 // it is in: now, or since before
	Waiting   Kind = 2 // it waits
	QueueFull Kind = 3 // it was refused, for as many wait as may: nothing is remembered
	Limited   Kind = 4 // it was refused, for there is no room and the policy rejects: nothing is remembered
	TimedOut  Kind = 5 // it was turned away, after it had waited for as long as the queue timeout: remembered until it leaves
	Cleared   Kind = 6 // it was turned away, for somebody has cleared the queue: remembered until it leaves
)

var kindNames = [...]string{Admitted: "let in", Waiting: "waits", QueueFull: "queue full", Limited: "limited", TimedOut: "timed out", Cleared: "cleared"}

// String names the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "kind-" + strconv.Itoa(int(k))
}

// Verdict is what became of an entry.
type Verdict struct {
	Kind     Kind
	Position int   // Waits: from 1
	Until    int64 // Waits: when it is turned away; Limited: when rate and quota allow the next one. Unix ms; 0: never, or not for them
}

// Admitted is the answer to a Call.
type AdmitReply struct {
	Now      int64     // Redis TIME, Unix ms
	Verdicts []Verdict // one for each of Enter
	Granted  []Member  // who waited and was let in by this: to be sent word. Of calls that were carried out together only one has them

	Waiting, Holding int
	LimitedUntil     int64 // Unix ms; 0: rate and quota allow the next one
	SweepNow         bool  // the owner of the gate's partition is to visit it now, for the time of its next visit may be too late
}

// line is what waits for a gate's script under way to be answered.
type pipeline struct{ pending []*request }

// ask is a call, which may take several scripts. Its fields are guarded by Gates.mu, but while it is under way only its script's
// answer changes got, left and entered.
type request struct {
	call          AdmitRequest
	reply         func(AdmitReply, error)
	timer         *time.Timer
	replied       bool
	left, entered int // how many of Leave and Enter have been put into a script
	got           AdmitReply
}

// Admit tells a gate who leaves and who enters, and answers what became of them.
//
// A gate that this process has not listed in the last three seconds is first put on the list of its partition. One script of
// this process is under way for a gate; what is called meanwhile goes, in order, into the next. then is called exactly once,
// with ErrSlow after two seconds.
func (g *Limiter) Admit(c AdmitRequest, then func(AdmitReply, error)) {
	a := &request{call: c, reply: then}
	g.mu.Lock()
	a.timer = time.AfterFunc(admitTimeout, func() {
		g.answer(a, AdmitReply{}, fmt.Errorf("gate %s: %w after %v", c.Limit, ErrTimeout, admitTimeout))
	})
	l, busy := g.pipelines[c.Limit]
	if !busy {
		l = &pipeline{}
		g.pipelines[c.Limit] = l
	}
	l.pending = append(l.pending, a)
	g.mu.Unlock()
	if !busy {
		g.next(c.Limit)
	}
}

// answer answers an ask, unless it has been.
func (g *Limiter) answer(a *request, got AdmitReply, err error) {
	g.mu.Lock()
	first := !a.replied
	a.replied = true
	g.mu.Unlock()
	if first {
		a.timer.Stop()
		a.reply(got, err)
	}
}

// share is the part of an ask that one script takes.
type share struct {
	request *request
	entries int
	last    bool // nothing of it is left for another script
}

// batch is what one script takes.
type batch struct {
	gate    string
	force   InForce
	leaves  []any
	entries []any
	shares  []share
}

// next sends what is at hand for a gate, or ends its line.
func (g *Limiter) next(gate string) {
	g.mu.Lock()
	b := g.take(gate)
	if b == nil {
		delete(g.pipelines, gate)
		g.mu.Unlock()
		return
	}
	at, ok := g.scheduled[gate]
	known := ok && time.Since(at) < scheduledFor
	g.mu.Unlock()
	if known {
		g.send(b)
		return
	}
	g.schedule(gate, func(err error) {
		if err != nil {
			g.fail(b, err)
			return
		}
		failpoint.Here("gate.listed")
		g.send(b)
	})
}

// take makes a batch of the asks that wait, in order. A call that takes out of the gate who enters with the same batch waits for the
// next, for within one the leaves come first. It is called under the lock.
func (g *Limiter) take(gate string) *batch {
	l := g.pipelines[gate]
	b := &batch{gate: gate}
	entered := make(map[string]struct{})
	for len(l.pending) > 0 && len(b.leaves)+len(b.entries) < maxAdmit {
		a := l.pending[0]
		if a.replied { // it was answered with ErrSlow
			l.pending = l.pending[1:]
			continue
		}
		if len(b.shares) > 0 && a.leavesEntered(entered) {
			break
		}
		if f := a.call.InForce; f.Level != "" && (b.force.Level == "" || f.Version >= b.force.Version) {
			b.force = f
		}
		s := a.share(b, entered)
		if s.last {
			l.pending = l.pending[1:]
		}
		b.shares = append(b.shares, s)
	}
	if len(b.shares) == 0 {
		return nil
	}
	return b
}

// crosses tells whether somebody leaves who has entered.
func (a *request) leavesEntered(entered map[string]struct{}) bool {
	for _, m := range a.call.Leave[a.left:] {
		if _, ok := entered[m.String()]; ok {
			return true
		}
	}
	return false
}

// share puts as much of the ask into the batch as there is room for.
func (a *request) share(b *batch, entered map[string]struct{}) share {
	for a.left < len(a.call.Leave) && len(b.leaves)+len(b.entries) < maxAdmit {
		b.leaves = append(b.leaves, a.call.Leave[a.left].String())
		a.left++
	}
	s := share{request: a}
	for a.entered < len(a.call.Enter) && len(b.leaves)+len(b.entries) < maxAdmit {
		e := a.call.Enter[a.entered]
		m, sign := e.Member.String(), "+"
		if e.Active {
			sign = "="
		}
		entered[m] = struct{}{}
		b.entries = append(b.entries, sign+m)
		a.entered++
		s.entries++
	}
	s.last = a.left == len(a.call.Leave) && a.entered == len(a.call.Enter)
	return s
}

// args are those that admit and sweep begin with.
func (f InForce) args(gate string) ([]any, error) {
	keyed := "0"
	if Key(gate) != "" {
		keyed = "1"
	}
	if f.Level == "" {
		return []any{"", "", "", keyed}, nil
	}
	policy, err := json.Marshal(f.Policy)
	if err != nil {
		return nil, fmt.Errorf("gate %s: the policy: %w", gate, err)
	}
	return []any{strconv.FormatUint(f.Version, 10), policy, f.Declared.Encode(), keyed}, nil
}

func (g *Limiter) send(b *batch) {
	args, err := b.force.args(b.gate)
	if err != nil {
		g.fail(b, err)
		return
	}
	args = append(args, len(b.leaves))
	args = append(append(args, b.leaves...), b.entries...)
	g.run.Go(redisx.Call{Script: g.script.admit, Keys: g.keys(b.gate), Args: args}, func(reply any, err error) {
		var got AdmitReply
		var rested int64
		if err == nil {
			got, rested, err = readAdmitted(reply, len(b.entries))
		}
		if err != nil {
			g.fail(b, fmt.Errorf("gate %s: %w", b.gate, err))
			return
		}
		if rested < 0 {
			g.register(b)
		}
		if rested < 0 || rested > idleFor.Milliseconds() {
			// Between the listing and the entering a visitor may have found it idle, and have taken it off.
			g.schedule(b.gate, func(err error) {
				if err != nil {
					g.forgetScheduled(b.gate)
				}
			})
		}
		g.deliver(b, got)
	})
}

// makeKnown makes the own gate of an action known as it is of its first key, once. What is lost only leaves it unknown while it is idle.
func (g *Limiter) register(b *batch) {
	action := Action(b.gate)
	if action == b.gate || b.force.Level == "" {
		return
	}
	g.mu.Lock()
	_, done := g.registered[action]
	g.registered[action] = struct{}{}
	g.mu.Unlock()
	if done {
		return
	}
	args, err := b.force.args(action)
	if err != nil {
		return
	}
	g.run.Go(redisx.Call{Script: g.script.register, Keys: g.keys(action), Args: args[:3]}, func(_ any, err error) {
		if err != nil {
			g.mu.Lock()
			delete(g.registered, action)
			g.mu.Unlock()
		}
	})
}

// fail answers all whose calls were in the batch, and goes on.
func (g *Limiter) fail(b *batch, err error) {
	g.forgetScheduled(b.gate)
	for _, s := range b.shares {
		g.answer(s.request, AdmitReply{}, err)
	}
	g.next(b.gate)
}

// hand gives each its part of the answer, and goes on.
func (g *Limiter) deliver(b *batch, got AdmitReply) {
	verdicts, granted, look := got.Verdicts, got.Granted, got.SweepNow
	type due struct {
		ask *request
		got AdmitReply
	}
	var ready []due
	g.mu.Lock()
	for _, s := range b.shares {
		a := s.request
		mine := got
		mine.Verdicts = slices.Concat(a.got.Verdicts, verdicts[:s.entries])
		mine.Granted = a.got.Granted
		mine.SweepNow = a.got.SweepNow
		verdicts = verdicts[s.entries:]
		if !a.replied { // else nobody takes them: the sweep says it again
			mine.Granted = append(mine.Granted, granted...)
			mine.SweepNow = mine.SweepNow || look
			granted, look = nil, false
		}
		a.got = mine
		if s.last {
			ready = append(ready, due{a, mine})
		}
	}
	g.mu.Unlock()
	for _, d := range ready {
		g.answer(d.ask, d.got, nil)
	}
	g.next(b.gate)
}

func readAdmitted(reply any, entries int) (a AdmitReply, rested int64, err error) {
	r := redisx.NewReply(reply)
	a.Now, a.Waiting, a.Holding, a.LimitedUntil, a.SweepNow = r.Int(0), int(r.Int(1)), int(r.Int(2)), r.Int(3), r.Str(4) == "1"
	rested = r.Int(5)
	if a.Granted, err = members(r.Strs(6)); err != nil {
		return a, rested, err
	}
	said := r.Strs(7)
	if err = r.Err(); err != nil {
		return a, rested, err
	}
	if len(said) != entries {
		return a, rested, fmt.Errorf("%w: %d verdicts on %d entries", redisx.ErrReply, len(said), entries)
	}
	a.Verdicts = make([]Verdict, entries)
	for i, s := range said {
		if a.Verdicts[i], err = readVerdict(s); err != nil {
			return a, rested, err
		}
	}
	return a, rested, nil
}

var verdictKinds = map[string]Kind{"I": Admitted, "W": Waiting, "F": QueueFull, "L": Limited, "T": TimedOut, "C": Cleared}

func readVerdict(said string) (v Verdict, err error) {
	f := strings.Fields(said)
	if len(f) == 0 || verdictKinds[f[0]] == 0 {
		return v, fmt.Errorf("%w: verdict %q", redisx.ErrReply, said)
	}
	v.Kind = verdictKinds[f[0]]
	switch {
	case v.Kind == Waiting && len(f) == 3:
		if v.Position, err = strconv.Atoi(f[1]); err == nil {
			v.Until, err = strconv.ParseInt(f[2], 10, 64)
		}
	case v.Kind == Limited && len(f) == 2:
		v.Until, err = strconv.ParseInt(f[1], 10, 64)
	case len(f) != 1 || v.Kind == Waiting || v.Kind == Limited:
		err = redisx.ErrReply
	}
	if err != nil {
		return v, fmt.Errorf("verdict %q: %w", said, err)
	}
	return v, nil
}
