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
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redisx"
)

const (
	maxAdmit     = 500             // leaves and entries of one script
	admitTimeout = 2 * time.Second // without a reply: ErrTimeout
	scheduledFor = 3 * time.Second // the wakeup that this process has set is assumed to exist for so long
	idleFor      = scheduledFor    // the wakeup of a limit that was not used for so long may just have been removed
)

// ErrTimeout is the error of an Admit without a reply within two seconds. It may have taken effect nevertheless: repeat the same
// request.
var ErrTimeout = errors.New("no reply of the limit")

// pipeline has the requests that wait for the outstanding script of a limit.
type pipeline struct{ pending []*request }

// request is an AdmitRequest, which may take several scripts. Limiter.mu guards its fields; during a script only its reply
// changes got, left and entered.
type request struct {
	call          AdmitRequest
	reply         func(AdmitReply, error)
	timer         *time.Timer
	replied       bool
	left, entered int // how many of Leave and Enter are in a script
	got           AdmitReply
}

// Admit sends leaves and entries to a limit, and returns the outcomes.
//
// The wakeup of a limit that this process has not set in the last three seconds is set first. One script of this process is
// outstanding for each limit; requests in the meantime go, in order, into the next one. then is called exactly once, with
// ErrTimeout after two seconds.
func (g *Limiter) Admit(c AdmitRequest, then func(AdmitReply, error)) {
	a := &request{call: c, reply: then}
	g.mu.Lock()
	a.timer = time.AfterFunc(admitTimeout, func() {
		g.answer(a, AdmitReply{}, fmt.Errorf("limit %s: %w after %v", c.Limit, ErrTimeout, admitTimeout))
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

// answer answers a request once.
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

// share is the part of a request in one script.
type share struct {
	request *request
	entries int
	last    bool // it completes the request
}

// batch has the content of one script.
type batch struct {
	gate    string
	force   InForce
	leaves  []any
	entries []any
	shares  []share
}

// next sends the pending requests of a limit, or ends its pipeline.
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

// take makes a batch of the pending requests, in order. A request with the leave of a member that enters with the same batch
// waits for the next, because the leaves of a batch come first. The lock is held.
func (g *Limiter) take(gate string) *batch {
	l := g.pipelines[gate]
	b := &batch{gate: gate}
	entered := make(map[string]struct{})
	for len(l.pending) > 0 && len(b.leaves)+len(b.entries) < maxAdmit {
		a := l.pending[0]
		if a.replied { // answered with ErrTimeout
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

// leavesEntered reports whether a member leaves that has entered.
func (a *request) leavesEntered(entered map[string]struct{}) bool {
	for _, m := range a.call.Leave[a.left:] {
		if _, ok := entered[m.String()]; ok {
			return true
		}
	}
	return false
}

// share puts as much of the request into the batch as there is room for.
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

// policyArgs returns the first arguments of admit and sweep.
func policyArgs(f InForce, gate string) ([]any, error) {
	keyed := "0"
	if limit.Key(gate) != "" {
		keyed = "1"
	}
	if f.Level == "" {
		return []any{"", "", "", keyed}, nil
	}
	policy, err := json.Marshal(f.Policy)
	if err != nil {
		return nil, fmt.Errorf("limit %s: the policy: %w", gate, err)
	}
	return []any{strconv.FormatUint(f.Version, 10), policy, f.Declared.Encode(), keyed}, nil
}

func (g *Limiter) send(b *batch) {
	args, err := policyArgs(b.force, b.gate)
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
			g.fail(b, fmt.Errorf("limit %s: %w", b.gate, err))
			return
		}
		if rested < 0 {
			g.register(b)
		}
		if rested < 0 || rested > idleFor.Milliseconds() {
			// Between the wakeup and the entry a sweep may have found the limit idle, and have removed the wakeup.
			g.schedule(b.gate, func(err error) {
				if err != nil {
					g.forgetScheduled(b.gate)
				}
			})
		}
		g.deliver(b, got)
	})
}

// register registers the own limit of an action with the first of its keys, once. If that fails, the action is only unknown while
// its limits are idle.
func (g *Limiter) register(b *batch) {
	action := limit.Action(b.gate)
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
	args, err := policyArgs(b.force, action)
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

// fail answers the requests of the batch with an error, and continues.
func (g *Limiter) fail(b *batch, err error) {
	g.forgetScheduled(b.gate)
	for _, s := range b.shares {
		g.answer(s.request, AdmitReply{}, err)
	}
	g.next(b.gate)
}

// deliver answers the requests of the batch, and continues.
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
		if !a.replied { // otherwise the next sweep reports them again
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
	verdicts := r.Strs(7)
	if err = r.Err(); err != nil {
		return a, rested, err
	}
	if len(verdicts) != entries {
		return a, rested, fmt.Errorf("%w: %d verdicts on %d entries", redisx.ErrReply, len(verdicts), entries)
	}
	a.Verdicts = make([]Verdict, entries)
	for i, s := range verdicts {
		if a.Verdicts[i], err = readVerdict(s); err != nil {
			return a, rested, err
		}
	}
	return a, rested, nil
}

var verdictKinds = map[string]Kind{"I": Admitted, "W": Waiting, "F": QueueFull, "L": Limited, "T": TimedOut, "C": Cleared}

func readVerdict(encoded string) (v Verdict, err error) {
	f := strings.Fields(encoded)
	if len(f) == 0 || verdictKinds[f[0]] == 0 {
		return v, fmt.Errorf("%w: verdict %q", redisx.ErrReply, encoded)
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
		return v, fmt.Errorf("verdict %q: %w", encoded, err)
	}
	return v, nil
}
