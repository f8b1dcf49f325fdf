package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	maxLeases = 1000 // leases of one reconciliation
	// sentSlack is how much later than its sending, by our clock, a task may have reached its
	// queue by the server's, ms: else the oldest task of a queue seems younger than itself.
	sentSlack = 1000
)

// leases has what is dispatched and does not end, and instances that have nothing to turn.
type leases struct {
	owner    *Owner
	unserved map[string]bool       // instances that are listed, because no worker can take one of their activities
	asked    map[uint64]*unclaimed // by the number of the question to their queue, or to the workers
	lost     time.Time             // tasks that were published before it are gone; zero: none are known to be
	doubted  int64                 // the store may have forgotten the ends of claims that were made or renewed before it, Unix ms; see doubt
}

// reconcileLeases is the reconciliation at an instance that has nothing to turn.
func (a *leases) reconcileLeases(in *instance) {
	in.wakeupDue = false
	a.owner.outbox.repeatChildStarts(in)
	a.owner.admission.askGates(in)
	var ids []uint64
	if in.state != nil {
		ids = in.state.Admitted()
	}
	a.reconcileChunk(in, ids)
}

func (a *leases) reconcileChunk(in *instance, ids []uint64) {
	now := ids[:min(len(ids), maxLeases)]
	l := &record.Reconciliation{
		Head: in.head(), MaxClaims: a.owner.cfg.MaxClaims, Wakeup: a.owner.commits.nextWakeup(in, in.state), Leases: make([]record.Lease, len(now)),
	}
	if in.paused() || in.delayed() != nil {
		l.InboxHold = record.HoldKnown(a.owner.operators.knownInputs(in)) // a request may have come behind them, and this owner may die
	}
	if a.owner.removals.stalls[in.id] != nil {
		l.Stalled = record.NotStalled // it has come as far as a reconciliation
	}
	for i, id := range now {
		l.Leases[i] = record.Lease{Activity: id, Effect: in.state.Activity(id).Effect}
	}
	a.reconcileAs(in, reconciling, outstanding{recon: l, rest: ids[len(now):]})
}

// reconcileAs sends a reconciliation for the purpose that the phase stands for.
func (a *leases) reconcileAs(in *instance, p Phase, o outstanding) {
	a.owner.met[CountLooks]++
	o.recon.Instance, o.recon.Execution, o.recon.Published = in.id, in.execution(), in.sent
	a.owner.request(in, p, o, Effect{Kind: ReconcileWith, phase: p, Recon: o.recon})
}

// reconciled takes the answer of a reconciliation.
func (a *leases) reconciled(in *instance, o outstanding, got record.Reconciled, err error) {
	if err != nil {
		a.notReconciled(in, err)
		return
	}
	a.owner.clock.set(got.Now)
	if o.recon.Wakeup != 0 {
		a.owner.schedule.pollBy(a.owner.clock.wall.Add(time.Duration(o.recon.Wakeup-got.Now) * time.Millisecond))
	}
	if in.rec != nil && o.recon.Published != (record.Watermark{}) {
		in.rec.Published = o.recon.Published
	}
	switch o.phase {
	case reconciling:
		delete(a.owner.removals.stalls, in.id)
		a.found(in, got)
		if len(o.rest) > 0 {
			a.reconcileChunk(in, o.rest)
			return
		}
		if a.owner.operators.seenHeld(in, got.Unread) {
			a.owner.resume(in, sawNothing)
			return
		}
	case settling:
		delete(a.owner.removals.stalls, in.id)
	case suspending:
		a.owner.notices.releaseOrphans(o.notices)
		a.owner.removals.suspended(in, o.stall, o.recon.Published)
		return
	case keepingEarly:
		a.keptEarly(in, o.notices)
		return
	default: // releasing
		if got.Unread > 0 || in.pending.some() { // they may want them
			a.owner.notices.keepNotices(in, o.notices)
		} else {
			a.owner.notices.releaseOrphans(o.notices)
		}
	}
	a.owner.resume(in, sight(got.Unread))
}

func (a *leases) notReconciled(in *instance, err error) {
	if errors.Is(err, record.ErrConflict) { // memory was wrong
		a.owner.met[CountConflicts]++
		a.doubt()
		a.owner.unload(in)
		a.owner.schedule.wake(in.id)
		return
	}
	a.owner.forgetFailed(in, "reconcile", err)
}

// found acts on the state of the leases.
func (a *leases) found(in *instance, got record.Reconciled) {
	waiting := make(map[string][]*history.ActivityScheduled)
	var doubts hints
	for _, l := range got.Leases {
		e := in.state.Activity(l.Activity)
		switch l.Status {
		case record.LeaseUnclaimed:
			switch {
			case l.ReturnedAt > got.Now: // returned for later
			case l.ReturnedAt > a.owner.commits.sent[sending{in.id, e.ID}]: // returned since: its task is not in the queue
				a.owner.commits.publish(in.id, in.rec, e)
			default:
				waiting[e.Queue] = append(waiting[e.Queue], e)
			}
		case record.LeaseClaimed:
			a.owner.schedule.pollBy(a.owner.clock.wall.Add(time.Duration(l.Until+1-got.Now) * time.Millisecond))
			if l.Until-l.Span < a.doubted {
				doubts.add(l.Worker, message.Hint{Instance: in.id, Execution: in.execution(), Activity: l.Activity, Effect: l.Effect, Token: l.Token})
			}
		case record.ClaimExpired:
			a.owner.met[CountExpired]++
			a.owner.log.Info("claim expired, dispatching again", "instance", in.id, "activity", e.Name, "event", e.ID, "claims", l.Claims)
			a.owner.commits.publish(in.id, in.rec, e)
		case record.LeaseRecreated:
			a.owner.met[CountRestored]++
			a.owner.log.Warn("lease lost by redis, created again", "instance", in.id, "activity", e.Name, "event", e.ID)
			a.owner.commits.publish(in.id, in.rec, e)
		case record.ClaimsExhausted:
			a.exhausted(in, e, l.Claims, got.Now)
		case record.LeaseMissing:
			in.needsInboxRead = true
		}
	}
	for _, q := range sorted(waiting) {
		a.resendIfLost(in, q, waiting[q])
	}
	a.owner.sendHints(doubts)
	a.findUnserved(in, got)
}

// exhausted makes a failure of an activity that was claimed as often as allowed and never ended.
func (a *leases) exhausted(in *instance, e *history.ActivityScheduled, claims int, now int64) {
	if slices.ContainsFunc(in.overdue, func(ev history.Event) bool {
		f, ok := ev.(*history.ActivityFailed)
		return ok && f.Scheduled == e.ID
	}) {
		return // it waits already
	}
	a.owner.met[CountPoisoned]++
	ev := &history.ActivityFailed{Scheduled: e.ID, Claims: uint32(claims), Failure: history.Failure{ //nolint:gosec // at most MaxClaims
		Code: history.CodePoison, Permanent: true,
		Message: fmt.Sprintf("activity %s was claimed %d times and never ended: its workers died, or lost their leases", e.Name, claims),
	}}
	ev.At = now
	a.owner.log.Error("activity poisoned", "instance", in.id, "activity", e.Name, "event", e.ID, "claims", claims)
	in.overdue = append(in.overdue, ev)
}

// settle records that nothing is due but what is still in the outbox, and forgets the instance.
func (a *leases) settle(in *instance) {
	if !in.wakeupDue && a.owner.removals.stalls[in.id] == nil {
		a.owner.park(in)
		return
	}
	in.wakeupDue = false
	a.owner.outbox.flushOutbox(in)
	l := &record.Reconciliation{Head: in.head(), Wakeup: a.owner.commits.nextWakeup(in, in.state)}
	if a.owner.removals.stalls[in.id] != nil {
		l.Stalled = record.NotStalled
	}
	a.reconcileAs(in, settling, outstanding{recon: l})
}
