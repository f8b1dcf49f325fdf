package limiter

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/redisx"
)

const (
	maxAdmit     = 500             // maximum number of leaves and entries of one script
	admitTimeout = 2 * time.Second // after which a request fails with ErrTimeout
	scheduledFor = 3 * time.Second // for which a wakeup that this process has set is assumed to exist
	idleFor      = scheduledFor    // after which a sweep may just have removed the wakeup of an unused limit
)

// ErrTimeout is the error of an Admit that received no reply within two seconds. The request may have taken effect: repeat the same
// request.
var ErrTimeout = errors.New("no reply from the limit")

// pipeline holds the requests that wait for the outstanding script of a limit.
type pipeline struct{ pending []*request }

// request is an AdmitRequest, which may take several scripts. Limiter.mu guards its fields. While a script is outstanding, only its reply
// changes got, left and entered.
type request struct {
	call          limit.AdmitRequest
	reply         func(limit.AdmitReply, error)
	timer         *time.Timer
	replied       bool
	left, entered int              // number of Leave and of Enter that are in a script already
	got           limit.AdmitReply // outcomes of the scripts so far
}

// Admit sends leaves and entries to a limit, and passes the outcomes to then.
//
// If this process has not set the wakeup of the limit in the last three seconds, Admit sets it first. For each limit, at most one script
// of this process is outstanding; requests that arrive in the meantime go into the next one, in order. then is called exactly once, after
// two seconds with ErrTimeout.
func (g *Limiter) Admit(c limit.AdmitRequest, then func(limit.AdmitReply, error)) {
	a := &request{call: c, reply: then}
	g.mu.Lock()
	a.timer = time.AfterFunc(admitTimeout, func() {
		g.answer(a, limit.AdmitReply{}, fmt.Errorf("limit %s: %w after %v", c.Limit, ErrTimeout, admitTimeout))
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

// answer calls the callback of a request, unless it has been called.
func (g *Limiter) answer(a *request, got limit.AdmitReply, err error) {
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
	last    bool // the script completes the request
}

// batch is the content of one script.
type batch struct {
	limit   string
	force   limit.InForce
	leaves  []any
	entries []any
	shares  []share
}

// next sends the pending requests of a limit, or ends its pipeline.
func (g *Limiter) next(name string) {
	g.mu.Lock()
	b := g.take(name)
	if b == nil {
		delete(g.pipelines, name)
		g.mu.Unlock()
		return
	}
	at, ok := g.scheduled[name]
	known := ok && time.Since(at) < scheduledFor
	g.mu.Unlock()
	if known {
		g.send(b)
		return
	}
	g.schedule(name, func(err error) {
		if err != nil {
			g.fail(b, err)
			return
		}
		failpoint.Here("limit.listed")
		g.send(b)
	})
}

// take moves pending requests into a batch, in order. The leaves of a batch are processed first, so a request in which a member leaves
// that enters in the same batch waits for the next one. The caller holds the lock.
func (g *Limiter) take(name string) *batch {
	l := g.pipelines[name]
	b := &batch{limit: name}
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

// leavesEntered reports whether a member that leaves with the request is in entered.
func (a *request) leavesEntered(entered map[string]struct{}) bool {
	for _, m := range a.call.Leave[a.left:] {
		if _, ok := entered[m.String()]; ok {
			return true
		}
	}
	return false
}

// share moves as much of the request into the batch as fits, and adds its members to entered.
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

// policyArgs returns the policy arguments of admit and sweep: version, policy, declared, keyed.
func policyArgs(f limit.InForce, name string) ([]any, error) {
	keyed := "0"
	if limit.Key(name) != "" {
		keyed = "1"
	}
	if f.Level == "" {
		return []any{"", "", "", keyed}, nil
	}
	policy, err := json.Marshal(f.Policy)
	if err != nil {
		return nil, fmt.Errorf("limit %s: the policy: %w", name, err)
	}
	return []any{strconv.FormatUint(f.Version, 10), policy, eventcodec.EncodeDeclared(f.Declared), keyed}, nil
}

// send sends the script of a batch.
func (g *Limiter) send(b *batch) {
	args, err := policyArgs(b.force, b.limit)
	if err != nil {
		g.fail(b, err)
		return
	}
	args = append(args, len(b.leaves))
	args = append(append(args, b.leaves...), b.entries...)
	g.run.Go(redisx.Call{Script: g.script.admit, Keys: g.keys(b.limit), Args: args}, func(reply any, err error) {
		var got limit.AdmitReply
		var rested int64
		if err == nil {
			got, rested, err = readAdmitted(reply, len(b.entries))
		}
		if err != nil {
			g.fail(b, fmt.Errorf("limit %s: %w", b.limit, err))
			return
		}
		if rested < 0 {
			g.register(b)
		}
		if rested < 0 || rested > idleFor.Milliseconds() {
			// A sweep between the wakeup and the entry may have found the limit idle and removed the wakeup.
			g.schedule(b.limit, func(err error) {
				if err != nil {
					g.forgetScheduled(b.limit)
				}
			})
		}
		g.deliver(b, got)
	})
}

// register creates the limit of the action itself when the first limit of one of its keys is created, once per process. If that fails,
// the action is not listed while the limits of its keys are idle.
func (g *Limiter) register(b *batch) {
	action := limit.Action(b.limit)
	if action == b.limit || b.force.Level == "" {
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

// fail answers the requests of the batch with an error, and sends the next batch.
func (g *Limiter) fail(b *batch, err error) {
	g.forgetScheduled(b.limit)
	for _, s := range b.shares {
		g.answer(s.request, limit.AdmitReply{}, err)
	}
	g.next(b.limit)
}

// deliver answers the requests that the batch completes, and sends the next batch.
func (g *Limiter) deliver(b *batch, got limit.AdmitReply) {
	verdicts, granted, sweep := got.Verdicts, got.Granted, got.SweepNow
	var completed []*request
	g.mu.Lock()
	for _, s := range b.shares {
		a := s.request
		own := got
		own.Verdicts = slices.Concat(a.got.Verdicts, verdicts[:s.entries])
		own.Granted = a.got.Granted
		own.SweepNow = a.got.SweepNow
		verdicts = verdicts[s.entries:]
		if !a.replied { // if no request receives the grants, the next sweep reports them again
			own.Granted = append(own.Granted, granted...)
			own.SweepNow = own.SweepNow || sweep
			granted, sweep = nil, false
		}
		a.got = own
		if s.last {
			completed = append(completed, a)
		}
	}
	g.mu.Unlock()
	for _, a := range completed {
		g.answer(a, a.got, nil)
	}
	g.next(b.limit)
}

// readAdmitted parses a reply of admit. rested is the time since the last use of the limit, ms; -1: the limit is new.
func readAdmitted(reply any, entries int) (a limit.AdmitReply, rested int64, err error) {
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
	a.Verdicts = make([]limit.Verdict, entries)
	for i, s := range verdicts {
		if a.Verdicts[i], err = readVerdict(s); err != nil {
			return a, rested, err
		}
	}
	return a, rested, nil
}

var verdictKinds = map[string]limit.Kind{"I": limit.Admitted, "W": limit.Waiting, "F": limit.QueueFull, "L": limit.Limited, "T": limit.TimedOut, "C": limit.Cleared}

func readVerdict(encoded string) (v limit.Verdict, err error) {
	f := strings.Fields(encoded)
	if len(f) == 0 || verdictKinds[f[0]] == 0 {
		return v, fmt.Errorf("%w: verdict %q", redisx.ErrReply, encoded)
	}
	v.Kind = verdictKinds[f[0]]
	switch {
	case v.Kind == limit.Waiting && len(f) == 3:
		if v.Position, err = strconv.Atoi(f[1]); err == nil {
			v.Until, err = strconv.ParseInt(f[2], 10, 64)
		}
	case v.Kind == limit.Limited && len(f) == 2:
		v.Until, err = strconv.ParseInt(f[1], 10, 64)
	case len(f) != 1 || v.Kind == limit.Waiting || v.Kind == limit.Limited:
		err = redisx.ErrReply
	}
	if err != nil {
		return v, fmt.Errorf("verdict %q: %w", encoded, err)
	}
	return v, nil
}
