package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/queue"
)

// Policy limits an action. Its zero value limits nothing. Durations are rounded up to milliseconds.
type Policy struct {
	Concurrency  uint32        // holders at one time; 0: unlimited
	Rate         uint32        // admissions in any window of RateWindow; 0: unlimited; at most history.MaxRate
	RateWindow   time.Duration // of Rate
	Quota        uint64        // admissions in a window of QuotaWindow, which begins with its first admission; 0: unlimited
	QuotaWindow  time.Duration // of Quota
	Key          string        // path into the input: each of its values has a queue and limits of its own
	QueueLimit   uint32        // waiters at one time; 0: history.DefaultQueueLimit
	QueueTimeout time.Duration // maximum wait; 0: history.DefaultQueueTimeout; negative: unlimited
	Reject       bool          // callers that cannot be admitted at once are rejected
	Paused       bool          // no one is admitted, see PauseAction; it cannot be set with the rest
	PausedBy     string        // requester of the pause
	PausedFor    string        // why
	PausedAt     time.Time     // UTC, by the clock of an orchestrator
}

// Limits reports whether the policy limits anything.
func (p Policy) Limits() bool { return p.stored().Limits() }

// Validate returns a *history.PolicyError for limits that contradict each other or exceed the maximum.
func (p Policy) Validate() error {
	stored := p.stored()
	return stored.Validate()
}

func (p Policy) stored() history.Policy {
	out := history.Policy{
		Concurrency: p.Concurrency, Rate: p.Rate, RateWindow: history.Millis(p.RateWindow), Quota: p.Quota, QuotaWindow: history.Millis(p.QuotaWindow),
		Key: p.Key, QueueLimit: p.QueueLimit, QueueTimeout: history.Millis(p.QueueTimeout), Reject: p.Reject, Paused: p.Paused,
		PausedBy: p.PausedBy, PausedFor: p.PausedFor,
	}
	if !p.PausedAt.IsZero() {
		out.PausedAt = p.PausedAt.UnixMilli()
	}
	if p.QueueTimeout < 0 {
		out.QueueTimeout = -1
	}
	return out
}

// PolicyOf is a policy in the form of this package.
func PolicyOf(p history.Policy) Policy {
	return Policy{
		Concurrency: p.Concurrency, Rate: p.Rate, RateWindow: time.Duration(p.RateWindow) * time.Millisecond,
		Quota: p.Quota, QuotaWindow: time.Duration(p.QuotaWindow) * time.Millisecond,
		Key: p.Key, QueueLimit: p.QueueLimit, QueueTimeout: time.Duration(p.QueueTimeout) * time.Millisecond, Reject: p.Reject, Paused: p.Paused,
		PausedBy: p.PausedBy, PausedFor: p.PausedFor, PausedAt: timeOf(p.PausedAt),
	}
}

// LevelPolicy is a policy that was set at run time.
type LevelPolicy struct {
	Level  string // action:NAME, group:NAME, global, or pause:NAME of a paused action
	Policy Policy
}

// QueueInfo describes a limit. Counters cover its whole life; a limit with a key is forgotten an hour after its last use.
// Times are by the clock of the limit, UTC; zero: none.
type QueueInfo struct {
	Action string
	Key    string // of the input; empty: the action has no key
	Keys   int    // number of limits that the numbers are the sum of; 0: it is one limit

	Waiting        uint64
	Active         uint64    // holders
	OldestEnqueued time.Time // when the first waiter was enqueued
	Enqueued       uint64    // admitted at once or enqueued, without the rejected ones
	Completed      uint64    // were admitted, and have ended
	Rejected       uint64    // on arrival: the queue was full, or the policy rejects; a repeated attempt counts again
	TimedOut       uint64
	Withdrawn      uint64    // cancelled while they waited
	Cleared        uint64    // rejected by ClearQueue
	LimitedUntil   time.Time // no admission before, by rate or quota
	Deadlocked     bool      // every holder waits for a waiter of this limit
	Policy         Policy    // in force
}

// Waiter is a waiter or a holder at a limit.
type Waiter struct {
	Position  uint64 // from 1; 0: a holder
	Instance  string
	Execution uint64
	Event     uint64    // id of the history event that scheduled the activity; 1: the start of the instance; 0: a call that keeps its slot between attempts
	Since     time.Time // zero for a holder
}

func queueOf(s request.LimitStats) QueueInfo {
	return QueueInfo{
		Action: s.Action, Key: s.Key, Waiting: s.Waiting, Active: s.Active, OldestEnqueued: timeOf(s.OldestEnqueued),
		Enqueued: s.Enqueued, Completed: s.Completed, Rejected: s.Rejected, TimedOut: s.TimedOut, Withdrawn: s.Withdrawn, Cleared: s.Cleared,
		LimitedUntil: timeOf(s.LimitedUntil), Deadlocked: s.Deadlocked, Policy: PolicyOf(s.Policy),
	}
}

func waiterOf(w request.Waiter) Waiter {
	return Waiter{Position: w.Position, Instance: w.Instance, Execution: w.Execution, Event: w.Event, Since: timeOf(w.Since)}
}

func convert[A, B any](from []A, one func(A) B) []B {
	to := make([]B, len(from))
	for i, a := range from {
		to[i] = one(a)
	}
	return to
}

// policyPartition is the partition whose owner serves policies, so that two that are set at the same time are ordered.
const policyPartition = 0

// Policies returns the policies that were set at run time, by level, without those that the code declares: QueueStats returns the
// policy in force. Errors: ErrNoOwner, queue.ErrTimeout.
func (c policies) Policies(ctx context.Context) ([]LevelPolicy, error) {
	var r request.PolicyList
	err := c.client.request(ctx, policyPartition, new(request.Policies), &r)
	return convert(r.Policies, func(l request.LevelPolicy) LevelPolicy {
		return LevelPolicy{Level: l.Level, Policy: PolicyOf(l.Policy)}
	}), err
}

// Orchestrations returns the names of the orchestrations that the owners of partitions register, sorted. Errors: ErrNoOwner, queue.ErrTimeout;
// if some partitions do not answer, the names of the others come with it.
func (c policies) Orchestrations(ctx context.Context) ([]string, error) {
	all, err := c.registered(ctx, "")
	var names []string
	for _, r := range all {
		names = append(names, r.Orchestrations...)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// InputExample returns the zero value of the input of an orchestration, as JSON: what a form may begin with. It is empty if no owner of a
// partition registers the orchestration. Errors: those of Orchestrations.
func (c *Client) InputExample(ctx context.Context, orchestration string) (json.RawMessage, error) {
	all, err := c.registered(ctx, orchestration)
	for _, r := range all {
		if r.Example != "" {
			return json.RawMessage(r.Example), nil
		}
	}
	return nil, err
}

// registered requests from every owner what its process registers: they may have different code.
func (c policies) registered(ctx context.Context, example string) (all []request.PolicyList, err error) {
	sources := openAll(ctx, c.client.partitions(), func(ctx context.Context, partition int, _ string) ([]request.PolicyList, string, error) {
		var r request.PolicyList
		err := c.client.request(ctx, partition, &request.Policies{Example: example}, &r)
		return []request.PolicyList{r}, "", err
	})
	for _, s := range sources {
		all = append(all, s.rows...)
	}
	return all, missing(sources, c.client.partitions())
}

// SetPolicy sets the policy of a level: "action:NAME", "group:NAME" or "global". It replaces the one that was set before, overrides
// what the code declares for that level and for less specific ones, and is in force everywhere within a second, also for waiters.
// The zero Policy makes the actions of the level unlimited. Holders keep their slots. The orchestrator logs the requester and the reason.
//
// Errors: queue.ErrBadName for the level; a *history.PolicyError for limits that are not valid; ErrNoOwner; queue.ErrTimeout, after
// which it may have been set, and may be set again.
func (c policies) SetPolicy(ctx context.Context, level string, p Policy, opts ...PolicyOption) error {
	err := queue.CheckLevel(level)
	if err == nil {
		err = cmp.Or(p.Validate(), limit.CheckPolicy(level, p.stored()))
	}
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	by, why := c.attribution(opts)
	return c.client.request(ctx, policyPartition, &request.SetPolicy{Level: level, Policy: p.stored(), By: by, Text: why}, new(request.Done))
}

// PauseAction has no call of an activity, or start of an orchestration, admitted until ResumeAction; it is in force everywhere within a
// second. What has been admitted goes on. Callers wait at the limit of the action, in their order: the maximum wait and number of waiters
// of its policy apply, one hour and 10,000 without one, and with Reject they are rejected. The requester, the reason (cut at 1 KiB) and
// the time are part of the policy in force. Errors: those of SetPolicy.
func (c policies) PauseAction(ctx context.Context, name string, opts ...PolicyOption) error {
	return c.SetPolicy(ctx, limit.PauseLevel+name, Policy{Paused: true}, opts...)
}

// ResumeAction ends the pause of an action; its waiters are admitted as its policy allows. Errors: those of DeletePolicy.
func (c policies) ResumeAction(ctx context.Context, name string, opts ...PolicyOption) error {
	return c.DeletePolicy(ctx, limit.PauseLevel+name, opts...)
}

// DeletePolicy deletes what SetPolicy has set: what the code declares, or a less specific level, is in force again. Errors: those of
// SetPolicy, and ErrNotFound if there is none.
func (c policies) DeletePolicy(ctx context.Context, level string, opts ...PolicyOption) error {
	if err := queue.CheckLevel(level); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	by, why := c.attribution(opts)
	return c.client.request(ctx, policyPartition, &request.DeletePolicy{Level: level, By: by, Text: why}, new(request.Done))
}

// attribution returns the requester of a change of a policy, and the reason.
func (c policies) attribution(opts []PolicyOption) (by, why string) {
	in := queue.OutInput{By: c.client.opts.By}
	for _, o := range opts {
		o.apply(&in)
	}
	return in.By, in.Text
}

// QueueStats describes the limit of an action (an activity or an orchestration, by name) for one value of its key. With an empty
// key it is the limit of the action itself or, if the policy in force has a key or all inputs had one, the sum of the limits that
// Queues lists and that of the inputs without a key: then Keys is their number, Policy is that of each, OldestEnqueued is the oldest
// of all, and LimitedUntil the first to pass.
//
// Errors: ErrNotFound if the limit was never used (with a key: in the last hour), for example because the action is not limited;
// ErrNoOwner, queue.ErrTimeout.
func (c policies) QueueStats(ctx context.Context, action, key string) (QueueInfo, error) {
	var r request.LimitPage
	err := c.client.requestLimit(ctx, action, key, &request.Limit{Action: action, Key: key}, &r)
	own := convert(r.Limits, queueOf)
	switch {
	case key == "" && (errors.Is(err, ErrNotFound) || err == nil && len(own) > 0 && (own[0].Policy.Key != "" || unused(own[0]))):
		sum, some, failed := sumOf(own, c.Queues(ctx, action))
		if some || failed != nil {
			return sum, failed
		}
		return QueueInfo{}, err
	case err != nil:
		return QueueInfo{}, err
	case len(own) == 0:
		return QueueInfo{}, fmt.Errorf("client: the reply does not describe the limit of %s", action)
	}
	return own[0], nil
}

// unused reports that the limit has had no caller: it is known because all inputs had a key.
func unused(q QueueInfo) bool { return q.Enqueued+q.Rejected+q.Waiting+q.Active == 0 }

// sumOf adds up the limits of one action: its own, which may be idle, and those in use.
func sumOf(own []QueueInfo, used iter.Seq2[QueueInfo, error]) (sum QueueInfo, some bool, _ error) {
	all := slices.Clone(own)
	for q, err := range used {
		if err != nil {
			return QueueInfo{}, false, err
		}
		if len(own) == 0 || q.Key != own[0].Key {
			all = append(all, q)
		}
	}
	switch {
	case len(all) == 0:
		return QueueInfo{}, false, nil
	case len(all) == len(own):
		return own[0], true, nil
	case len(own) > 0 && unused(own[0]):
		all = all[1:]
	}
	sum = QueueInfo{Action: all[0].Action, Policy: all[0].Policy}
	for _, q := range all {
		sum.Keys++
		sum.Waiting += q.Waiting
		sum.Active += q.Active
		sum.Enqueued += q.Enqueued
		sum.Completed += q.Completed
		sum.Rejected += q.Rejected
		sum.TimedOut += q.TimedOut
		sum.Withdrawn += q.Withdrawn
		sum.Cleared += q.Cleared
		sum.OldestEnqueued = earlier(sum.OldestEnqueued, q.OldestEnqueued)
		sum.LimitedUntil = earlier(sum.LimitedUntil, q.LimitedUntil)
		sum.Deadlocked = sum.Deadlocked || q.Deadlocked
	}
	return sum, true, nil
}

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Queues iterates over the limits in use, those of one action or (action empty) all, in no order: those that have waiters or
// holders, or had some a few seconds ago. All partitions are requested, and an incomplete list ends with an error, as with List. It
// is not a snapshot.
func (c policies) Queues(ctx context.Context, action string) iter.Seq2[QueueInfo, error] {
	return func(yield func(QueueInfo, error) bool) {
		if err := checkAction(action); action != "" && err != nil {
			yield(QueueInfo{}, err)
			return
		}
		page := func(ctx context.Context, partition int, cursor string) ([]QueueInfo, string, error) {
			var r request.LimitPage
			err := c.client.requestWithin(ctx, c.client.opts.OwnerTimeout, partition, &request.Limits{Action: action, Cursor: cursor, Limit: pageSize}, &r)
			return convert(r.Limits, queueOf), r.Cursor, err
		}
		sources := openAll(ctx, c.client.partitions(), page)
		for _, s := range sources {
			for ; len(s.rows) > 0; s.fill(ctx) {
				for _, row := range s.rows {
					if !yield(row, nil) {
						return
					}
				}
				s.rows = nil
			}
		}
		if err := missing(sources, c.client.partitions()); err != nil {
			yield(QueueInfo{}, err)
		}
	}
}

// Waiters iterates over the waiters of a limit, in order, and reads them page by page. It is not a snapshot: when a waiter is
// admitted or leaves, the later ones move forward, so one may be missing. Errors, in the last pair: those of QueueStats;
// ErrNotFound also for an action whose limits have keys, unless one is given.
func (c policies) Waiters(ctx context.Context, action, key string) iter.Seq2[Waiter, error] {
	return func(yield func(Waiter, error) bool) {
		q := &request.Waiters{Action: action, Key: key, Limit: 5 * pageSize}
		for {
			var r request.WaiterPage
			if err := c.client.requestLimit(ctx, action, key, q, &r); err != nil {
				yield(Waiter{}, err)
				return
			}
			for _, w := range r.Waiters {
				if !yield(waiterOf(w), nil) {
					return
				}
			}
			if q.Cursor = r.Cursor; q.Cursor == "" {
				return
			}
		}
	}
}

// Holders returns holders of a limit, at most limit (0: as many as fit into a reply), in no order. Errors: those of Waiters.
func (c policies) Holders(ctx context.Context, action, key string, limit int) ([]Waiter, error) {
	var r request.WaiterPage
	err := c.client.requestLimit(ctx, action, key, &request.Holders{Action: action, Key: key, Limit: limit}, &r)
	return convert(r.Waiters, waiterOf), err
}

// ClearQueue rejects all waiters of a limit and returns their number. An activity that waited fails with pawl.ErrQueueCleared; an
// instance that waited for its first turn is cancelled, with ErrQueueCleared as its failure. Holders are not affected. Errors:
// those of Waiters; after queue.ErrTimeout the queue may have been cleared.
func (c policies) ClearQueue(ctx context.Context, action, key string) (int, error) {
	var r request.Cleared
	err := c.client.requestLimit(ctx, action, key, &request.Clear{Action: action, Key: key}, &r)
	return r.Count, err
}

// requestLimit makes a request about a limit. Any owner can answer; it is the same one for the same limit.
func (c *requester) requestLimit(ctx context.Context, action, key string, q request.Request, r request.Reply) error {
	if err := checkAction(action); err != nil {
		return err
	}
	return c.request(ctx, c.conn.PartitionOf(action+"/"+key), q, r)
}

func checkAction(name string) error {
	if err := pawl.ValidateName(name); err != nil {
		return fmt.Errorf("client: action: %w", err)
	}
	return nil
}
