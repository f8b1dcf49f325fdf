package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	gatePage    = 100 // gates, or waiters, of one reply, if the client does not say
	gateReaders = 16  // gates that are read at a time for one request
)

// askGate answers what is asked about gates and policies. A gate is in no partition's keys: it is read, and cleared, by
// whoever is asked.
func (qs *queries) askGate(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	switch q.Op {
	case queue.OpGates:
		return qs.gatesListed(ctx, q)
	case queue.OpGate:
		return qs.gateStats(ctx, q)
	case queue.OpWaiters:
		return qs.gateWaiters(ctx, q)
	case queue.OpClear:
		return qs.clearGate(ctx, q)
	case queue.OpPolicies:
		return qs.policiesSet(ctx)
	case queue.OpSetPolicy:
		return qs.setPolicy(ctx, q)
	default: // OpDeletePolicy, by who calls
		return qs.deletePolicy(ctx, q.Level)
	}
}

// gatesListed tells about the gates that are in use and fall into the partition, by name; the cursor is the last one of the
// page before.
func (qs *queries) gatesListed(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	names, err := qs.gates.Scheduled(ctx, qs.st.Part)
	if err != nil {
		return queue.Reply{}, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name <= q.Cursor || q.Gate != "" && limiter.Action(name) != q.Gate })
	slices.Sort(names)
	var r queue.Reply
	if limit := pageOf(q.Limit); len(names) > limit {
		names = names[:limit]
		r.Cursor = names[limit-1]
	}
	all := make([]*queue.GateStats, len(names))
	err = atOnce(len(names), func(i int) error {
		s, ok, err := qs.statsInForce(ctx, names[i])
		if err == nil && ok { // else somebody put it on the list and has not come yet
			all[i] = asStats(names[i], s)
		}
		return err
	})
	for _, s := range all {
		if s != nil {
			r.Gates = append(r.Gates, *s)
		}
	}
	return r, err
}

// statsInForce reads how a gate stands by the policy that is in force, whether or not the gate has been given it.
func (qs *queries) statsInForce(ctx context.Context, name string) (limiter.Stats, bool, error) {
	return qs.gates.StatsInForce(ctx, name, func(has limiter.InForce) *limiter.InForce { return qs.policies.newer(name, has.Version, has.Declared) })
}

func pageOf(limit int) int {
	if limit <= 0 {
		return gatePage
	}
	return min(limit, queue.MaxGateRows)
}

// atOnce does n things, several at a time, and gives the first error.
func atOnce(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(gateReaders)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

func asStats(name string, s limiter.Stats) *queue.GateStats {
	return &queue.GateStats{
		Gate: name, Action: s.Action, Key: s.Key, Waiting: length(s.QueueLength), Holding: length(s.Active), MaxConcurrent: length(s.MaxConcurrent),
		Oldest: s.OldestEnqueuedAt, Entered: s.TotalEnqueued, Completed: s.TotalCompleted, Rejected: s.Rejected, TimedOut: s.TimedOut,
		Withdrawn: s.Withdrawn, Cleared: s.Cleared, LimitedUntil: s.LimitedUntil, Deadlocked: s.Deadlocked, Policy: s.Policy,
	}
}

func length(n int) uint64 { return uint64(max(n, 0)) }

// isHashed reports whether a key is one as a gate's name has it when it could not stand there as it is.
func isHashed(key string) bool {
	head, sum, ok := strings.Cut(key, "~")
	return ok && len(sum) == 22 && limiter.Name("", head+sum) == "/"+head+sum
}

// findGate gives the gate that a request names, and how it stands. A key may be named as it is or, if its gate's name has
// only a hash of it, as listings show it.
func (qs *queries) findGate(ctx context.Context, q queue.Ask) (name string, s limiter.Stats, _ error) {
	if err := queue.CheckName(q.Gate); err != nil {
		return "", s, &queue.Problem{Code: queue.ProblemBadAsk, Message: err.Error()}
	}
	names := []string{limiter.Name(q.Gate, q.Key)}
	if isHashed(q.Key) {
		names = append(names, q.Gate+"/"+q.Key)
	}
	for _, name := range names {
		if s, ok, err := qs.statsInForce(ctx, name); ok || err != nil {
			return name, s, err
		}
	}
	text := "action " + q.Gate + " has no queue: nobody has called it while it was limited"
	if q.Key != "" {
		text = fmt.Sprintf("action %s has no queue for key %q: nobody has called it with that key in the last hour, while it was limited", q.Gate, q.Key)
	}
	return "", s, &queue.Problem{Code: queue.ProblemNotFound, Message: text}
}

func (qs *queries) gateStats(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	name, s, err := qs.findGate(ctx, q)
	if err != nil {
		return queue.Reply{}, err
	}
	return queue.Reply{Gates: []queue.GateStats{*asStats(name, s)}}, nil
}

func (qs *queries) gateWaiters(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	name, _, err := qs.findGate(ctx, q)
	if err != nil {
		return queue.Reply{}, err
	}
	var r queue.Reply
	if q.Status == queue.StatusHolding {
		n := queue.MaxGateRows
		if q.Limit > 0 {
			n = min(q.Limit, queue.MaxGateRows)
		}
		in, err := qs.gates.Holders(ctx, name, n)
		for _, m := range in {
			r.Waiters = append(r.Waiters, asWaiter(m))
		}
		return r, err
	}
	from := 0
	if q.Cursor != "" {
		if from, err = strconv.Atoi(q.Cursor); err != nil || from < 0 {
			return r, &queue.Problem{Code: queue.ProblemBadAsk, Message: fmt.Sprintf("cursor %q is no place in a queue", q.Cursor)}
		}
	}
	n := pageOf(q.Limit)
	all, err := qs.gates.Waiters(ctx, name, from, n)
	for _, w := range all {
		x := asWaiter(w.Member)
		x.Position, x.Since = length(w.Position), w.Since
		r.Waiters = append(r.Waiters, x)
	}
	if len(all) == n {
		r.Cursor = strconv.Itoa(from + n)
	}
	return r, err
}

// asWaiter tells of a member which part of its instance it is, as far as its place says so.
func asWaiter(m limiter.Member) queue.GateWaiter {
	w := queue.GateWaiter{Instance: m.Instance}
	if _, start := m.Origin(); start {
		w.Execution, w.Event = 1, 1
	} else {
		w.Execution, w.Event, _ = m.Activity() // of a kept slot, or a newer build's: not known
	}
	return w
}

// clearGate turns away who waits, and has the gate's owner tell them now.
func (qs *queries) clearGate(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	name, _, err := qs.findGate(ctx, q)
	if err != nil {
		return queue.Reply{}, err
	}
	n, err := qs.gates.Clear(ctx, name)
	if n > 0 {
		qs.log.Info("a queue was cleared", "gate", name, "waiters", n)
		qs.wakeGate(name)
	}
	return queue.Reply{Cleared: n}, err
}

// policiesSet reads them, for what this process knows may be a second old.
func (qs *queries) policiesSet(ctx context.Context) (queue.Reply, error) {
	o, err := qs.gates.Overrides(ctx)
	if err != nil {
		return queue.Reply{}, err
	}
	var r queue.Reply
	for level, p := range o.Policies {
		r.Policies = append(r.Policies, queue.LevelPolicy{Level: level, Policy: p})
	}
	slices.SortFunc(r.Policies, func(x, y queue.LevelPolicy) int { return cmp.Compare(x.Level, y.Level) })
	return r, nil
}

func (qs *queries) setPolicy(ctx context.Context, q queue.Ask) (queue.Reply, error) {
	if q.Policy == nil {
		return queue.Reply{}, &queue.Problem{Code: queue.ProblemBadAsk, Message: "there is no policy in the request"}
	}
	if err := queue.CheckLevel(q.Level); err != nil {
		return queue.Reply{}, &queue.Problem{Code: queue.ProblemRefused, Message: err.Error()}
	}
	version, err := qs.gates.SetPolicy(ctx, q.Level, *q.Policy)
	if _, bad := errors.AsType[*history.PolicyError](err); bad {
		return queue.Reply{}, &queue.Problem{Code: queue.ProblemRefused, Message: "the policy of " + q.Level + ": " + err.Error()}
	}
	if err != nil {
		return queue.Reply{}, err
	}
	qs.log.Info("a policy was set", "level", q.Level, "version", version, "policy", *q.Policy)
	qs.policyChanged(ctx)
	return queue.Reply{}, nil
}

func (qs *queries) deletePolicy(ctx context.Context, level string) (queue.Reply, error) {
	if err := queue.CheckLevel(level); err != nil {
		return queue.Reply{}, &queue.Problem{Code: queue.ProblemRefused, Message: err.Error()}
	}
	existed, version, err := qs.gates.DeletePolicy(ctx, level)
	if err == nil && !existed {
		err = &queue.Problem{Code: queue.ProblemNotFound, Message: "no policy was set for " + level}
	}
	if err != nil {
		return queue.Reply{}, err
	}
	qs.log.Info("a policy was deleted", "level", level, "version", version)
	qs.policyChanged(ctx)
	return queue.Reply{}, nil
}

// policyChanged brings a change into force. It is stored: what fails here is made good within a second.
func (qs *queries) policyChanged(ctx context.Context) {
	if err := qs.policies.changed(ctx); err != nil {
		logFailure(qs.log, "changed policy not read, retrying", err)
	}
}

// gateWaits tells what of an instance waits at gates, by event, at most maxOutstanding of it. A gate that does not answer is
// named without a place.
func (qs *queries) gateWaits(ctx context.Context, id string, s *history.State) []queue.GateWait {
	if s.WaitingLen() == 0 {
		return nil
	}
	tickets := slices.DeleteFunc(s.Tickets(), func(k history.Ticket) bool { return !k.Waiting })
	tickets = tickets[:min(len(tickets), maxOutstanding)]
	out := make([]queue.GateWait, len(tickets))
	err := atOnce(len(tickets), func(i int) error {
		k, w := tickets[i], &out[i]
		name := k.Limit.Name
		*w = queue.GateWait{Event: k.Event, Gate: name, Action: limiter.Action(name), Key: limiter.Key(name)}
		p, ok, err := qs.gates.Place(ctx, name, member(id, k.Event, s.Started, k.Limit))
		if err != nil || !ok {
			return err
		}
		w.Position, w.In, w.Since = length(p.Position), p.Position == 0, p.Since
		w.Length, w.Holding, w.Policy = length(p.Waiting), length(p.Holding), p.Policy
		w.LimitedUntil, w.Deadlocked = p.LimitedUntil, p.Deadlocked
		return nil
	})
	if err != nil {
		logFailure(qs.log, "gate not read, describing without its place", err, "instance", id)
	}
	return out
}
