package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlrun/pawl"
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
		Key: p.Key, QueueLimit: p.QueueLimit, QueueTimeout: history.Millis(p.QueueTimeout), Reject: p.Reject,
	}
	if p.QueueTimeout < 0 {
		out.QueueTimeout = -1
	}
	return out
}

func policyOf(p history.Policy) Policy {
	return Policy{
		Concurrency: p.Concurrency, Rate: p.Rate, RateWindow: time.Duration(p.RateWindow) * time.Millisecond,
		Quota: p.Quota, QuotaWindow: time.Duration(p.QuotaWindow) * time.Millisecond,
		Key: p.Key, QueueLimit: p.QueueLimit, QueueTimeout: time.Duration(p.QueueTimeout) * time.Millisecond, Reject: p.Reject,
	}
}

// LevelPolicy is a policy that was set at run time.
type LevelPolicy struct {
	Level  string // action:NAME, group:NAME or global
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

func queueOf(g queue.GateStats) QueueInfo {
	return QueueInfo{
		Action: g.Action, Key: g.Key, Keys: g.Keys, Waiting: g.Waiting, Active: g.Holding, OldestEnqueued: timeOf(g.Oldest),
		Enqueued: g.Entered, Completed: g.Completed, Rejected: g.Rejected, TimedOut: g.TimedOut, Withdrawn: g.Withdrawn, Cleared: g.Cleared,
		LimitedUntil: timeOf(g.LimitedUntil), Deadlocked: g.Deadlocked, Policy: policyOf(g.Policy),
	}
}

func queuesOf(r queue.Reply) []QueueInfo { return convert(r.Gates, queueOf) }

func waitersOf(r queue.Reply) []Waiter {
	return convert(r.Waiters, func(w queue.GateWaiter) Waiter {
		return Waiter{Position: w.Position, Instance: w.Instance, Execution: w.Execution, Event: w.Event, Since: timeOf(w.Since)}
	})
}

func convert[A, B any](from []A, one func(A) B) []B {
	to := make([]B, len(from))
	for i, a := range from {
		to[i] = one(a)
	}
	return to
}

// policyPartition is whose owner is asked about policies, so that two that are set at once do not pass each other.
const policyPartition = 0

// Policies gives the policies that were set at run time, by level. What the code declares is
// not among them: QueueStats tells what is in force. Errors: ErrNoOwner, queue.ErrTimeout.
func (c *Client) Policies(ctx context.Context) ([]LevelPolicy, error) {
	r, err := c.ask(ctx, policyPartition, queue.Ask{Op: queue.OpPolicies})
	return convert(r.Policies, func(l queue.LevelPolicy) LevelPolicy { return LevelPolicy{Level: l.Level, Policy: policyOf(l.Policy)} }), err
}

// SetPolicy sets the policy of a level: "action:NAME", "group:NAME" or "global". It stands
// above what the code declares for that level and for less specific ones, is in force everywhere
// within a second, also for those who wait, and replaces the one that was set before. One that
// limits nothing (the zero Policy) makes the level's actions unlimited, whatever the levels
// below it say. Nobody who has been let in is thrown out.
//
// Errors: queue.ErrBadName for the level; a *history.PolicyError for limits that make no sense;
// ErrNoOwner; queue.ErrTimeout: then it may have been set, and may be set again.
func (c *Client) SetPolicy(ctx context.Context, level string, p Policy) error {
	err := queue.CheckLevel(level)
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	stored := p.stored()
	_, err = c.ask(ctx, policyPartition, queue.Ask{Op: queue.OpSetPolicy, Level: level, Policy: &stored})
	return err
}

// DeletePolicy takes back what SetPolicy has set: what the code declares, or a less specific
// level, is in force again. Errors: as SetPolicy, and ErrNotFound if there is none.
func (c *Client) DeletePolicy(ctx context.Context, level string) error {
	if err := queue.CheckLevel(level); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	_, err := c.ask(ctx, policyPartition, queue.Ask{Op: queue.OpDeletePolicy, Level: level})
	return err
}

// QueueStats tells about the gate of an action, an activity or an orchestration by name, for
// one value of its key. With no key it is the gate of the action itself or, if the policy in force
// has a key or all inputs have had one, the sum over the gates that Queues lists and that of the inputs without a key: then
// Keys is how many they are, Policy and MaxConcurrent are those of each, Oldest is the oldest of
// all, and LimitedUntil the first to pass.
//
// Errors: ErrNotFound if nobody has ever come to a gate of that action (or, of a key, in the
// last hour), which may well be because it has no limits; ErrNoOwner, queue.ErrTimeout.
func (c *Client) QueueStats(ctx context.Context, action, key string) (QueueInfo, error) {
	r, err := c.askGate(ctx, queue.Ask{Op: queue.OpGate, Gate: action, Key: key})
	own := queuesOf(r)
	switch {
	case key == "" && (errors.Is(err, ErrNotFound) || err == nil && len(own) > 0 && (own[0].Policy.Key != "" || untouched(own[0]))):
		sum, some, failed := sumOf(own, c.Queues(ctx, action))
		if some || failed != nil {
			return sum, failed
		}
		return QueueInfo{}, err
	case err != nil:
		return QueueInfo{}, err
	case len(own) == 0:
		return QueueInfo{}, fmt.Errorf("client: the owner told nothing about the gate of %s", action)
	}
	return own[0], nil
}

// untouched reports that nobody has ever come to the gate: it is known because all inputs have had a key.
func untouched(g QueueInfo) bool { return g.Enqueued+g.Rejected+g.Waiting+g.Active == 0 }

// sumOf adds up the gates of one action: its own, which may be idle, and those in use.
func sumOf(own []QueueInfo, used iter.Seq2[QueueInfo, error]) (sum QueueInfo, some bool, _ error) {
	gates := slices.Clone(own)
	for g, err := range used {
		if err != nil {
			return QueueInfo{}, false, err
		}
		if len(own) == 0 || g.Key != own[0].Key {
			gates = append(gates, g)
		}
	}
	switch {
	case len(gates) == 0:
		return QueueInfo{}, false, nil
	case len(gates) == len(own):
		return own[0], true, nil
	case len(own) > 0 && untouched(own[0]):
		gates = gates[1:]
	}
	sum = QueueInfo{Action: gates[0].Action, Policy: gates[0].Policy}
	for _, g := range gates {
		sum.Keys++
		sum.Waiting += g.Waiting
		sum.Active += g.Active
		sum.Enqueued += g.Enqueued
		sum.Completed += g.Completed
		sum.Rejected += g.Rejected
		sum.TimedOut += g.TimedOut
		sum.Withdrawn += g.Withdrawn
		sum.Cleared += g.Cleared
		sum.OldestEnqueued = earlier(sum.OldestEnqueued, g.OldestEnqueued)
		sum.LimitedUntil = earlier(sum.LimitedUntil, g.LimitedUntil)
		sum.Deadlocked = sum.Deadlocked || g.Deadlocked
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

// Queues gives the gates in use, those of one action or (action empty) all, in no order: where
// somebody waits or holds, or did so a few seconds ago. All partitions are asked, and what they
// could not tell is the error of the last pair, as with List. It is no snapshot.
func (c *Client) Queues(ctx context.Context, action string) iter.Seq2[QueueInfo, error] {
	return func(yield func(QueueInfo, error) bool) {
		if err := checkAction(action); action != "" && err != nil {
			yield(QueueInfo{}, err)
			return
		}
		each(ctx, c, queue.Ask{Op: queue.OpGates, Gate: action, Limit: pageSize}, queuesOf, yield)
	}
}

// Waiters gives those who wait at a gate, in their order, reading on as they are taken. It is
// no snapshot: who is let in or leaves meanwhile moves the others forward, and so one may be left
// out. Errors, in the last pair: those of QueueStats; ErrNotFound also for an action whose gates
// have keys, unless one is given.
func (c *Client) Waiters(ctx context.Context, action, key string) iter.Seq2[Waiter, error] {
	return func(yield func(Waiter, error) bool) {
		ask := queue.Ask{Op: queue.OpWaiters, Gate: action, Key: key, Limit: 5 * pageSize}
		for {
			r, err := c.askGate(ctx, ask)
			if err != nil {
				yield(Waiter{}, err)
				return
			}
			for _, w := range waitersOf(r) {
				if !yield(w, nil) {
					return
				}
			}
			if ask.Cursor = r.Cursor; ask.Cursor == "" {
				return
			}
		}
	}
}

// Holders gives those who have been let in at a gate and have not left, at most so many (0: what
// fits into a reply), in no order. Errors: as Waiters.
func (c *Client) Holders(ctx context.Context, action, key string, most int) ([]Waiter, error) {
	r, err := c.askGate(ctx, queue.Ask{Op: queue.OpWaiters, Gate: action, Key: key, Status: queue.StatusHolding, Limit: most})
	return waitersOf(r), err
}

// ClearQueue turns away everybody who waits at a gate, and gives how many they were. An
// activity of theirs fails with pawl.ErrQueueCleared; an instance that was not let in is cancelled, and its failure is
// ErrQueueCleared, too. Who has been let in goes on.
// Errors: as Waiters. If the answer is lost (queue.ErrTimeout), it may have been done.
func (c *Client) ClearQueue(ctx context.Context, action, key string) (int, error) {
	r, err := c.askGate(ctx, queue.Ask{Op: queue.OpClear, Gate: action, Key: key})
	return r.Cleared, err
}

// askGate asks any owner: what a gate is, is in no partition's keys. Which one is the same for the same gate.
func (c *Client) askGate(ctx context.Context, a queue.Ask) (queue.Reply, error) {
	if err := checkAction(a.Gate); err != nil {
		return queue.Reply{}, err
	}
	return c.ask(ctx, c.conn.PartitionOf(a.Gate+"/"+a.Key), a)
}

func checkAction(name string) error {
	if err := pawl.ValidateName(name); err != nil {
		return fmt.Errorf("client: action: %w", err)
	}
	return nil
}
