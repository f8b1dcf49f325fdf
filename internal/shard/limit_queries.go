package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	limitPage    = 100 // default number of limits or waiters in a reply
	limitReaders = 16  // limits that one request reads concurrently
)

// limitsListed lists the limits in use that belong to the partition, by name; the cursor is the last name of the previous page.
func (qs *queries) limitsListed(ctx context.Context, q *request.Limits) (request.Reply, error) {
	names, err := qs.process.limits.Scheduled(ctx, qs.shell.st.Part)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name <= q.Cursor || q.Action != "" && limit.Action(name) != q.Action })
	slices.Sort(names)
	r := new(request.LimitPage)
	if n := pageSize(q.Limit); len(names) > n {
		names = names[:n]
		r.Cursor = names[n-1]
	}
	all := make([]*request.LimitStats, len(names))
	err = concurrently(len(names), func(i int) error {
		s, ok, err := qs.statsInForce(ctx, names[i])
		if err == nil && ok { // otherwise the first caller of the limit has not entered yet
			stats := asStats(s)
			all[i] = &stats
		}
		return err
	})
	for _, s := range all {
		if s != nil {
			r.Limits = append(r.Limits, *s)
		}
	}
	return r, err
}

// statsInForce reads the state of a limit under the policy in force, even if the limit has not applied that policy yet.
func (qs *queries) statsInForce(ctx context.Context, name string) (limiter.Stats, bool, error) {
	return qs.process.limits.StatsInForce(ctx, name, func(has limit.InForce) *limit.InForce {
		return qs.process.policies.now().Newer(name, has.Version, has.Declared)
	})
}

// pageSize returns the number of rows for a limit that a client requests; 0 or less means the default.
func pageSize(requested int) int {
	if requested <= 0 {
		return limitPage
	}
	return min(requested, request.MaxLimitRows)
}

// concurrently calls do for 0 to n-1, limitReaders at a time, and returns the first error.
func concurrently(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(limitReaders)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

func asStats(s limiter.Stats) request.LimitStats {
	return request.LimitStats{
		Action: s.Action, Key: s.Key, Waiting: length(s.QueueLength), Active: length(s.Active), OldestEnqueued: s.OldestEnqueuedAt, Enqueued: s.TotalEnqueued, Completed: s.TotalCompleted, Rejected: s.Rejected, TimedOut: s.TimedOut,
		Withdrawn: s.Withdrawn, Cleared: s.Cleared, LimitedUntil: s.LimitedUntil, Deadlocked: s.Deadlocked, Policy: s.Policy,
	}
}

func length(n int) uint64 { return uint64(max(n, 0)) }

// isHashed reports whether a key has the form in which the name of a limit contains a key that it cannot contain verbatim.
func isHashed(key string) bool {
	head, sum, ok := strings.Cut(key, "~")
	return ok && len(sum) == 22 && limit.Name("", head+sum) == "/"+head+sum
}

// findLimit returns the name and the state of the limit that a request names. A key may be given verbatim, or in the hashed form in which
// lists show a key that the name of its limit cannot contain.
func (qs *queries) findLimit(ctx context.Context, action, key string) (name string, s limiter.Stats, _ error) {
	if err := transport.CheckName(action); err != nil {
		return "", s, &request.Problem{Code: request.ProblemBadRequest, Message: err.Error()}
	}
	names := []string{limit.Name(action, key)}
	if isHashed(key) {
		names = append(names, action+"/"+key)
	}
	for _, name := range names {
		if s, ok, err := qs.statsInForce(ctx, name); ok || err != nil {
			return name, s, err
		}
	}
	msg := action + " has no limit in use: no call has arrived while it was limited"
	if key != "" {
		msg = fmt.Sprintf("%s has no limit in use for key %q: no call with that key has arrived in the last hour, while it was limited", action, key)
	}
	return "", s, &request.Problem{Code: request.ProblemNotFound, Message: msg}
}

func (qs *queries) limitStats(ctx context.Context, q *request.Limit) (request.Reply, error) {
	_, s, err := qs.findLimit(ctx, q.Action, q.Key)
	if err != nil {
		return nil, err
	}
	return &request.LimitPage{Limits: []request.LimitStats{asStats(s)}}, nil
}

func (qs *queries) limitHolders(ctx context.Context, q *request.Holders) (request.Reply, error) {
	name, _, err := qs.findLimit(ctx, q.Action, q.Key)
	if err != nil {
		return nil, err
	}
	n := request.MaxLimitRows
	if q.Limit > 0 {
		n = min(q.Limit, n)
	}
	holders, err := qs.process.limits.Holders(ctx, name, n)
	r := new(request.WaiterPage)
	for _, m := range holders {
		r.Waiters = append(r.Waiters, asWaiter(m))
	}
	return r, err
}

func (qs *queries) limitWaiters(ctx context.Context, q *request.Waiters) (request.Reply, error) {
	name, _, err := qs.findLimit(ctx, q.Action, q.Key)
	if err != nil {
		return nil, err
	}
	from := 0
	if q.Cursor != "" {
		if from, err = strconv.Atoi(q.Cursor); err != nil || from < 0 {
			return nil, &request.Problem{Code: request.ProblemBadRequest, Message: fmt.Sprintf("cursor %q is not a position in a queue", q.Cursor)}
		}
	}
	n := pageSize(q.Limit)
	all, err := qs.process.limits.Waiters(ctx, name, from, n)
	r := new(request.WaiterPage)
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

// asWaiter describes a member of a limit: the start of an instance, or an activity.
func asWaiter(m limit.Member) request.Waiter {
	w := request.Waiter{Instance: m.Instance}
	if _, start := m.Origin(); start {
		w.Execution, w.Event = 1, 1
	} else {
		w.Execution, w.Event, _ = m.Activity() // zero for a retained slot, and for a member of a kind that a newer build added
	}
	return w
}

// clearLimit rejects the waiters, and has the owner of the limit notify them at once.
func (qs *queries) clearLimit(ctx context.Context, q *request.Clear) (request.Reply, error) {
	name, _, err := qs.findLimit(ctx, q.Action, q.Key)
	if err != nil {
		return nil, err
	}
	n, err := qs.process.limits.Clear(ctx, name)
	if n > 0 {
		qs.shell.log.Info("waiters of limit rejected by operator", "limit", name, "waiters", n)
		qs.shell.wakeLimit(name)
	}
	return &request.Cleared{Count: n}, err
}

const maxExample = 8 << 10 // bytes of the example of an input

// policiesSet reads the policies from Redis: those of the cache may be a second old.
func (qs *queries) policiesSet(ctx context.Context, q *request.Policies) (request.Reply, error) {
	o, err := qs.process.limits.Overrides(ctx)
	if err != nil {
		return nil, err
	}
	r := &request.PolicyList{Orchestrations: qs.process.cfg.Programs.Orchestrations()}
	if example := qs.process.cfg.Programs.Example(q.Example); len(example) <= maxExample {
		r.Example = string(example)
	}
	for level, p := range o.Policies {
		r.Policies = append(r.Policies, request.LevelPolicy{Level: level, Policy: p})
	}
	slices.SortFunc(r.Policies, func(x, y request.LevelPolicy) int { return cmp.Compare(x.Level, y.Level) })
	return r, nil
}

func (qs *queries) setPolicy(ctx context.Context, q *request.SetPolicy) (request.Reply, error) {
	if err := transport.CheckLevel(q.Level); err != nil {
		return nil, &request.Problem{Code: request.ProblemRefused, Message: err.Error()}
	}
	p := q.Policy
	if p.Paused {
		p.PausedBy, p.PausedFor, p.PausedAt = text.Cut(q.By, history.MaxPausedFor), text.Cut(q.Text, history.MaxPausedFor), time.Now().UnixMilli()
	}
	version, err := qs.process.limits.SetPolicy(ctx, q.Level, p)
	if _, bad := errors.AsType[*history.PolicyError](err); bad {
		return nil, &request.Problem{Code: request.ProblemRefused, Message: "the policy of " + q.Level + ": " + err.Error()}
	}
	if err != nil {
		return nil, err
	}
	qs.shell.log.Info("policy set", "level", q.Level, "by", q.By, "reason", q.Text, "version", version, "policy", p)
	qs.policyChanged(ctx)
	return new(request.Done), nil
}

func (qs *queries) deletePolicy(ctx context.Context, q *request.DeletePolicy) (request.Reply, error) {
	if err := transport.CheckLevel(q.Level); err != nil {
		return nil, &request.Problem{Code: request.ProblemRefused, Message: err.Error()}
	}
	existed, version, err := qs.process.limits.DeletePolicy(ctx, q.Level)
	if err == nil && !existed {
		msg := "no policy was set for " + q.Level
		if action, ok := strings.CutPrefix(q.Level, limit.PauseLevel); ok {
			msg = action + " is not paused"
		}
		err = &request.Problem{Code: request.ProblemNotFound, Message: msg}
	}
	if err != nil {
		return nil, err
	}
	qs.shell.log.Info("policy deleted", "level", q.Level, "by", q.By, "reason", q.Text, "version", version)
	qs.policyChanged(ctx)
	return new(request.Done), nil
}

// policyChanged puts a stored change into force. If it fails, the periodic read does so within a second.
func (qs *queries) policyChanged(ctx context.Context) {
	if err := qs.process.policies.changed(ctx); err != nil {
		logFailure(qs.shell.log, "changed policy not read, retrying", err)
	}
}

// limitWaits describes what an instance waits for at limits, in the order of its events, at most maxOutstanding rows. A limit that cannot be read
// is listed without a position.
func (qs *queries) limitWaits(ctx context.Context, id string, s *fold.State) []request.LimitWait {
	if s.WaitingLen() == 0 {
		return nil
	}
	tickets := slices.DeleteFunc(s.Tickets(), func(k fold.Ticket) bool { return !k.Waiting })
	tickets = tickets[:min(len(tickets), maxOutstanding)]
	out := make([]request.LimitWait, len(tickets))
	err := concurrently(len(tickets), func(i int) error {
		k, w := tickets[i], &out[i]
		name := k.Limit.Name
		*w = request.LimitWait{Event: k.Event, Action: limit.Action(name), Key: limit.Key(name)}
		p, ok, err := qs.process.limits.Place(ctx, name, core.Member(id, k.Event, s, k.Limit))
		if err != nil || !ok {
			return err
		}
		w.Position, w.Admitted, w.Since = length(p.Position), p.Position == 0, p.Since
		w.QueueLength, w.Active, w.Policy = length(p.Waiting), length(p.Holding), p.Policy
		w.LimitedUntil, w.Deadlocked = p.LimitedUntil, p.Deadlocked
		return nil
	})
	if err != nil {
		logFailure(qs.shell.log, "limit not read, describing without its place", err, "instance", id)
	}
	return out
}
