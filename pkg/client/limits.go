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
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/internal/timers"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/history"
)

// Policy limits an action. The zero value limits nothing. Durations are rounded up to milliseconds.
type Policy struct {
	Concurrency  uint32        // maximum number of holders; 0: unlimited
	Rate         uint32        // maximum number of admissions in any window of RateWindow, at most history.MaxRate; 0: unlimited
	RateWindow   time.Duration // window of Rate
	Quota        uint64        // maximum number of admissions in a window of QuotaWindow, which starts with its first admission; 0: unlimited
	QuotaWindow  time.Duration // window of Quota
	Key          string        // path in the input: each of its values has its own limit; empty: none
	QueueLimit   uint32        // maximum number of waiters; 0: history.DefaultQueueLimit
	QueueTimeout time.Duration // maximum wait; 0: history.DefaultQueueTimeout; negative: unlimited
	Reject       bool          // reject callers that cannot be admitted at once
	Paused       bool          // admit no callers, see PauseAction; cannot be combined with the fields above
	PausedBy     string        // requester of the pause
	PausedFor    string        // reason for the pause
	PausedAt     time.Time     // time of the pause, UTC, by the clock of an orchestrator; zero: not paused
}

// Limits reports whether the policy limits anything.
func (p Policy) Limits() bool { return p.stored().Limits() }

// Validate returns a *history.PolicyError if fields contradict each other or exceed their maximum.
func (p Policy) Validate() error {
	stored := p.stored()
	return stored.Validate()
}

func (p Policy) stored() history.Policy {
	out := history.Policy{
		Concurrency: p.Concurrency, Rate: p.Rate, RateWindow: timers.Millis(p.RateWindow), Quota: p.Quota, QuotaWindow: timers.Millis(p.QuotaWindow),
		Key: p.Key, QueueLimit: p.QueueLimit, QueueTimeout: timers.Millis(p.QueueTimeout), Reject: p.Reject, Paused: p.Paused,
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

// PolicyOf converts a recorded policy to a Policy.
func PolicyOf(p history.Policy) Policy {
	return Policy{
		Concurrency: p.Concurrency, Rate: p.Rate, RateWindow: time.Duration(p.RateWindow) * time.Millisecond,
		Quota: p.Quota, QuotaWindow: time.Duration(p.QuotaWindow) * time.Millisecond,
		Key: p.Key, QueueLimit: p.QueueLimit, QueueTimeout: time.Duration(p.QueueTimeout) * time.Millisecond, Reject: p.Reject, Paused: p.Paused,
		PausedBy: p.PausedBy, PausedFor: p.PausedFor, PausedAt: timeOf(p.PausedAt),
	}
}

// LevelPolicy is a policy that was set at run time, with its level.
type LevelPolicy struct {
	Level  string // action:NAME, group:NAME, global, or pause:NAME for a paused action
	Policy Policy
}

// QueueInfo describes a limit and its waiters. Counters are totals since the limit was created; the limit of one value of a key is
// removed an hour after its last use. Times are by the clock of the limit, UTC; zero: none.
type QueueInfo struct {
	Action string
	Key    string // value of the key; empty: the action has no key
	Keys   int    // number of limits that are added up in this QueueInfo; 0: it describes one limit

	Waiting        uint64    // number of waiters
	Active         uint64    // number of holders
	OldestEnqueued time.Time // time at which the first waiter entered
	Enqueued       uint64    // callers that were admitted at once or became waiters
	Completed      uint64    // callers that were admitted and have left
	Rejected       uint64    // callers that were rejected at once, by too many waiters or a policy that rejects; a repeated attempt counts again
	TimedOut       uint64    // waiters that exceeded the maximum wait
	Withdrawn      uint64    // waiters that were cancelled
	Cleared        uint64    // waiters that ClearQueue rejected
	LimitedUntil   time.Time // time until which rate or quota allow no admission
	Deadlocked     bool      // every holder has a descendant among the waiters
	Policy         Policy    // the policy in force
}

// Waiter is a waiter or a holder at a limit.
type Waiter struct {
	Position  uint64 // from 1; 0: a holder
	Instance  string
	Execution uint64
	Event     uint64    // id of the history event that scheduled the activity; 1: the start of the instance; 0: a call that retains its slot between attempts
	Since     time.Time // time at which it entered; zero for a holder
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

// policyPartition is the partition whose owner serves policies, so that concurrent changes are ordered.
const policyPartition = 0

// Policies returns the policies that were set at run time, by level. Declared policies are not included; QueueStats returns the policy in
// force. Errors: ErrNoOwner, queue.ErrTimeout.
func (c policies) Policies(ctx context.Context) ([]LevelPolicy, error) {
	var r request.PolicyList
	err := c.client.request(ctx, policyPartition, new(request.Policies), &r)
	return convert(r.Policies, func(l request.LevelPolicy) LevelPolicy {
		return LevelPolicy{Level: l.Level, Policy: PolicyOf(l.Policy)}
	}), err
}

// Orchestrations returns the names of the orchestrations that the owners of partitions register, sorted. If some partitions do not
// answer, it returns the names of the others together with an error. Errors: ErrNoOwner, queue.ErrTimeout.
func (c policies) Orchestrations(ctx context.Context) ([]string, error) {
	all, err := c.registered(ctx, "")
	var names []string
	for _, r := range all {
		names = append(names, r.Orchestrations...)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// InputExample returns the zero value of the input of an orchestration as JSON, as a template for a form. It is nil if no owner of a
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

// registered returns what the process of every owner registers. Their code may differ.
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

// SetPolicy sets the policy of a level: "action:NAME", "group:NAME" or "global". It replaces the policy set before, overrides the
// declared policies of this level and of less specific levels, and is in force everywhere within a second, for waiters, too. The zero
// Policy makes the actions of the level unlimited. Holders keep their slots. The orchestrator logs the requester and the reason.
//
// Errors: queue.ErrBadName for the level; a *history.PolicyError for an invalid policy; ErrNoOwner; queue.ErrTimeout, after which the
// policy may have been set; setting it again is harmless.
func (c policies) SetPolicy(ctx context.Context, level string, p Policy, opts ...PolicyOption) error {
	err := transport.CheckLevel(level)
	if err == nil {
		err = cmp.Or(p.Validate(), limit.CheckPolicy(level, p.stored()))
	}
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	by, reason := c.attribution(opts)
	return c.client.request(ctx, policyPartition, &request.SetPolicy{Level: level, Policy: p.stored(), By: by, Text: reason}, new(request.Done))
}

// PauseAction pauses an action until ResumeAction: no call of the activity, or start of the orchestration, is admitted. It is in force
// everywhere within a second. Holders continue. New callers wait at the limit of the action, in FIFO order: the maximum wait and number
// of waiters of its policy apply, by default one hour and 10,000, and if the policy rejects, they are rejected. The requester, the reason
// (cut at 1 KiB) and the time are part of the policy in force. Errors: those of SetPolicy.
func (c policies) PauseAction(ctx context.Context, name string, opts ...PolicyOption) error {
	return c.SetPolicy(ctx, limit.PauseLevel+name, Policy{Paused: true}, opts...)
}

// ResumeAction ends the pause of an action. Its waiters are admitted as its policy allows. Errors: those of DeletePolicy.
func (c policies) ResumeAction(ctx context.Context, name string, opts ...PolicyOption) error {
	return c.DeletePolicy(ctx, limit.PauseLevel+name, opts...)
}

// DeletePolicy deletes the policy that SetPolicy has set for the level, so that a declared policy or that of a less specific level is in
// force again. Errors: those of SetPolicy, and ErrNotFound if no policy was set.
func (c policies) DeletePolicy(ctx context.Context, level string, opts ...PolicyOption) error {
	if err := transport.CheckLevel(level); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	by, reason := c.attribution(opts)
	return c.client.request(ctx, policyPartition, &request.DeletePolicy{Level: level, By: by, Text: reason}, new(request.Done))
}

// attribution returns the requester of a policy change, and the reason.
func (c policies) attribution(opts []PolicyOption) (by, reason string) {
	in := message.OutInput{By: c.client.opts.By}
	for _, o := range opts {
		o.apply(&in)
	}
	return in.By, in.Text
}

// QueueStats describes the limit of an action (an activity or an orchestration, by name) for one value of its key. With an empty key it
// describes the limit of the action itself. If the policy in force has a key, or all inputs had one, it returns the sum of the limits
// that Queues lists and of the limit of inputs without a key: Keys is their number, Policy is that of each, OldestEnqueued is the
// earliest of all, and LimitedUntil the earliest time that is set.
//
// Errors: ErrNotFound if the limit was never used (with a key: not in the last hour), for example because the action is not limited;
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

// unused reports whether the limit has had no callers: it exists only because inputs with a key have registered it.
func unused(q QueueInfo) bool { return q.Enqueued+q.Rejected+q.Waiting+q.Active == 0 }

// sumOf adds up the limits of one action: own, its own limit, which may be idle, and those in use. some is false if there are none.
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

// earlier returns the earlier of two times; zero means not set.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Queues iterates over the limits in use, those that have or had waiters or holders within the last few seconds, of one action or, if
// action is empty, of all, in no particular order. All partitions are requested. If some do not answer, the last pair contains the error,
// as for List. The listing is not a snapshot.
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

// Waiters iterates over the waiters of a limit in FIFO order, and reads them page by page. The listing is not a snapshot: when a waiter
// is admitted or leaves, the later ones advance, so one may be missed. Errors, in the last pair: those of QueueStats; ErrNotFound also
// for an action whose limits have keys if key is empty.
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

// Holders returns at most limit holders of a limit (0: as many as fit into a reply), in no particular order. Errors: those of Waiters.
func (c policies) Holders(ctx context.Context, action, key string, limit int) ([]Waiter, error) {
	var r request.WaiterPage
	err := c.client.requestLimit(ctx, action, key, &request.Holders{Action: action, Key: key, Limit: limit}, &r)
	return convert(r.Waiters, waiterOf), err
}

// ClearQueue rejects all waiters of a limit and returns their number. A waiting activity fails with pawl.ErrQueueCleared; an instance
// that waits to start is cancelled, with ErrQueueCleared as its failure. Holders are not affected. Errors: those of Waiters; after
// queue.ErrTimeout the waiters may have been rejected.
func (c policies) ClearQueue(ctx context.Context, action, key string) (int, error) {
	var r request.Cleared
	err := c.client.requestLimit(ctx, action, key, &request.Clear{Action: action, Key: key}, &r)
	return r.Count, err
}

// requestLimit sends a request about a limit. Any owner can answer it; requests about the same limit go to the same owner.
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
