package core

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// wakeupAfter returns the next wakeup of the instance after the turn, Unix ms. The messages of the turn to other
// instances must be reconciled within one interval, because a takeover reconciles only the wakeups of one interval.
func (c *commits) wakeupAfter(in *instance, t *turn) int64 {
	s := in.state
	if t.Fold != nil {
		s = t.Fold
	}
	at := c.nextWakeup(in, s)
	if len(t.messages) > 0 || slices.ContainsFunc(t.Events, func(e history.Event) bool { return e.Kind() == history.KindChildScheduled }) {
		at = sooner(at, c.owner.nextInterval())
	}
	return at
}

// nextWakeup returns the time at which an instance with this state must be reconciled next, Unix ms; 0: nothing is due.
func (c *commits) nextWakeup(in *instance, s *fold.State) int64 {
	var at int64
	soon := c.owner.nextInterval()
	if len(in.outbox) > 0 {
		at = soon
	}
	at = sooner(at, c.owner.schedule.notBefore(c.owner.removals.keptUntil(in.rec)))
	if s == nil || s.End != nil {
		return at
	}
	if start := in.delayed(); start != nil {
		at = sooner(at, c.owner.schedule.notBefore(start.StartAt))
	}
	if d := in.deadline(s); d != 0 && s.PausedBy() == nil {
		at = sooner(at, c.owner.schedule.notBefore(d))
	}
	if s.AdmittedLen() > 0 {
		at = soon
	}
	if s.TicketLen() > 0 {
		repeat := in.limitAt
		if repeat == 0 {
			repeat = c.owner.clock.now() + c.owner.admission.firstLimitRepeat()
		}
		at = sooner(at, repeat)
	}
	if s.ChildLen() > 0 {
		repeat := in.repeatStartsAt
		if repeat == 0 || in.startsInFlight > 0 { // the stream may lack a start: the next owner of the partition must find that out
			repeat = soon
		}
		at = sooner(at, repeat)
	}
	if due, ok := NextDue(s, in.overdue); ok && s.PausedBy() == nil {
		at = sooner(at, c.owner.schedule.notBefore(due))
	}
	return at
}

// sooner returns the earlier of two times; zero means none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// notBefore returns the wakeup for a due time: the time itself, or, if it has passed and the horizon has not reached it, a time at which
// to try again.
func (s *schedule) notBefore(at int64) int64 {
	if now := s.owner.clock.now(); at != 0 && at <= now && at > s.horizon.reached {
		return now + FirstPause.Milliseconds()
	}
	return at
}

// keptUntil returns the end of the retention of a record, Unix ms; 0: it is kept forever, or has not ended.
func (r *removals) keptUntil(rec *record.Record) int64 {
	if rec == nil || !rec.Status.Ended() {
		return 0
	}
	d, ok := r.owner.cfg.Retention.of(rec.Status)
	if !ok {
		return 0
	}
	if rec.Parent != nil { // the parent may not have ingested the end yet, and may repeat the start meanwhile
		d = max(d, childIntervals*r.owner.cfg.ReconcileInterval)
	}
	return rec.Ended + d.Milliseconds()
}

// Retention is the time for which ended instances are kept, by status. Zero is the default, 72 hours; a negative value is forever.
type Retention struct{ Completed, Failed, Cancelled time.Duration }

const defaultRetention = 72 * time.Hour

// childIntervals is the minimum number of reconcile intervals for which an ended child is kept, so that its parent still finds it.
const childIntervals = 6

// of returns the retention of a status; ok is false for an instance that is kept forever, or has not ended.
func (r Retention) of(s record.Status) (d time.Duration, ok bool) {
	switch s {
	case record.Completed:
		d = r.Completed
	case record.Failed:
		d = r.Failed
	case record.Cancelled:
		d = r.Cancelled
	case record.Pending, record.Running, record.Paused:
		return 0, false
	}
	if d == 0 {
		d = defaultRetention
	}
	return d, d > 0
}

// delayed returns the delayed start at the head of the inbox, if the execution has not begun; nil: there is none.
func (in *instance) delayed() *history.Started {
	s, ok := in.unread0().(*history.Started)
	if !ok || s.StartAt == 0 || in.state != nil && in.state.Len > 0 || in.status().Ended() {
		return nil
	}
	return s
}

// deadline returns the time at which the run times out, from its state or from the start at the head of the inbox, Unix ms; 0: never.
func (in *instance) deadline(s *fold.State) int64 {
	if s != nil && s.Len > 0 {
		return s.Deadline()
	}
	if start, ok := in.unread0().(*history.Started); ok {
		return start.Deadline
	}
	return 0
}

// NextDue returns the time of the next decision by time of an execution: its first timer, or an overdue failure. ok: there is one.
func NextDue(s *fold.State, overdue []history.Event) (at int64, ok bool) {
	if s == nil || s.Len == 0 {
		return 0, false
	}
	t, ok := s.NextTimer()
	if ok {
		at = t.FireAt
	}
	if len(overdue) > 0 && (!ok || overdue[0].Meta().At < at) {
		at, ok = overdue[0].Meta().At, true
	}
	return at, ok
}
