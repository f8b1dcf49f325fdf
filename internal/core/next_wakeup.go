package core

import (
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// wakeupAfter returns when the instance must be reconciled if nothing happens after the turn. What the turn sends to other
// instances must be reconciled within one interval: that is how far a takeover looks back.
func (c *commits) wakeupAfter(in *instance, t *turn) int64 {
	s := in.state
	if t.Fold != nil {
		s = t.Fold
	}
	at := c.nextWakeup(in, s)
	if len(t.messages) > 0 || slices.ContainsFunc(t.Events, startsChild) {
		return sooner(at, c.owner.clock.now()+c.owner.cfg.ReconcileInterval.Milliseconds())
	}
	return at
}

func startsChild(e history.Event) bool { return e.Kind() == history.KindChildScheduled }

// nextWakeup returns when the instance must be reconciled if nothing happens before; 0: nothing is due.
func (c *commits) nextWakeup(in *instance, s *history.State) int64 {
	var at int64
	soon := c.owner.clock.now() + c.owner.cfg.ReconcileInterval.Milliseconds()
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
		ask := in.gateAt
		if ask == 0 {
			ask = c.owner.clock.now() + c.owner.admission.firstGateAsk()
		}
		at = sooner(at, ask)
	}
	if s.ChildLen() > 0 {
		ask := in.repeatStartsAt
		if ask == 0 || in.startsInFlight > 0 { // the stream may lack one: the next owner of the partition must find that
			ask = soon
		}
		at = sooner(at, ask)
	}
	if due, ok := NextDue(s, in.overdue); ok && s.PausedBy() == nil {
		at = sooner(at, c.owner.schedule.notBefore(due))
	}
	return at
}

// sooner is the earlier of two times, of which zero is none.
func sooner(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// notBefore gives the time at which an instance must be reconciled for what is due then: if that is over and waits for inputs,
// within the time for which a due instance is put off.
func (s *schedule) notBefore(at int64) int64 {
	if now := s.owner.clock.now(); at != 0 && at <= now && at > s.horizon.reached {
		return now + FirstPause.Milliseconds()
	}
	return at
}

// keptUntil is when the record may be removed, Unix ms; 0: never, or not yet known.
func (r *removals) keptUntil(rec *record.Record) int64 {
	if rec == nil || !rec.Status.Ended() {
		return 0
	}
	d, ok := r.owner.cfg.Retention.of(rec.Status)
	if !ok {
		return 0
	}
	if rec.Parent != nil { // which may still have the end before it, in its stream, and ask for it meanwhile
		d = max(d, childIntervals*r.owner.cfg.ReconcileInterval)
	}
	return rec.Ended + d.Milliseconds()
}

// Retention is how long instances are kept that have ended. Zero is the default, 72 hours; less than zero is forever.
type Retention struct{ Completed, Failed, Cancelled time.Duration }

const defaultRetention = 72 * time.Hour

// childIntervals is for how many reconcile intervals a child is kept at the least, so that its parent does not find it gone.
const childIntervals = 6

// of gives the time for a status; ok is false for one that is kept forever, or has not ended.
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

// delayed is the start at the head of the inbox whose time is yet to come, or has just come; nil: there is none.
func (in *instance) delayed() *history.Started {
	s, ok := in.unread0().(*history.Started)
	if !ok || s.StartAt == 0 || in.state != nil && in.state.Len > 0 || in.status().Ended() {
		return nil
	}
	return s
}

// deadline is when the run times out: by its state, or by the start that is to begin it; 0: never.
func (in *instance) deadline(s *history.State) int64 {
	if s != nil && s.Len > 0 {
		return s.Deadline()
	}
	if start, ok := in.unread0().(*history.Started); ok {
		return start.Deadline
	}
	return 0
}

// NextDue is when time decides next about an execution: its first timer, or a failure that waits. ok: something is set.
func NextDue(s *history.State, overdue []history.Event) (at int64, ok bool) {
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
