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
	maxLeases = 1000 // maximum number of leases in one reconciliation
	// sentSlack is the maximum by which the time of a task in its queue, by the server's clock, may exceed the time of its
	// sending by the owner's clock, ms. Without it, the oldest task of a queue could seem younger than its own sending.
	sentSlack = 1000
)

// leases reconciles dispatched activities, and instances that have no turn to take.
type leases struct {
	owner    *Owner
	unserved map[string]bool       // instances that are listed because no worker can take one of their activities
	reads    map[uint64]*unclaimed // outstanding ReadQueueAge and ReadFleet, by number of the effect
	lost     time.Time             // tasks published before it are lost; zero: none are known to be
	doubted  int64                 // the store may have lost the ends of claims made or renewed before it, Unix ms; see doubt
}

// reconcileLeases reconciles an instance that has no turn to take.
func (l *leases) reconcileLeases(in *instance) {
	in.wakeupDue = false
	l.owner.outbox.repeatChildStarts(in)
	l.owner.admission.repeatLimitRequests(in)
	var ids []uint64
	if in.state != nil {
		ids = in.state.Admitted()
	}
	l.reconcileChunk(in, ids)
}

// reconcileChunk reconciles the leases of the first maxLeases activities; the answer continues with the rest.
func (l *leases) reconcileChunk(in *instance, ids []uint64) {
	now := ids[:min(len(ids), maxLeases)]
	recon := &record.Reconciliation{
		Head: in.head(), MaxClaims: l.owner.cfg.MaxClaims, Wakeup: l.owner.commits.nextWakeup(in, in.state), Leases: make([]record.Lease, len(now)),
	}
	if in.paused() || in.delayed() != nil {
		recon.Deferral = record.DeferSeen(max(len(in.unread), l.owner.operators.held[in.id].known)) // not of later inputs: one may be a request, which the next owner must find if this one dies
	}
	if l.owner.removals.stalls[in.id] != nil {
		recon.Stalled = record.NotStalled // an instance that is reconciled is not stalled
	}
	for i, id := range now {
		recon.Leases[i] = record.Lease{Activity: id, Effect: in.state.Activity(id).Effect}
	}
	l.reconcileAs(in, reconciling, outstanding{recon: recon, rest: ids[len(now):]})
}

// reconcileAs sends a reconciliation. The phase determines how its answer is handled.
func (l *leases) reconcileAs(in *instance, p Phase, req outstanding) {
	l.owner.met[CountReconciliations]++
	req.recon.Instance, req.recon.Execution, req.recon.Published = in.id, in.execution(), in.sent
	l.owner.request(in, p, req, Effect{Kind: ReconcileWith, phase: p, Recon: req.recon})
}

// reconciled handles the answer to a reconciliation.
func (l *leases) reconciled(in *instance, req outstanding, got record.Reconciled, err error) {
	if err != nil {
		l.notReconciled(in, err)
		return
	}
	l.owner.clock.set(got.Now)
	if req.recon.Wakeup != 0 {
		l.owner.schedule.pollBy(l.owner.clock.wall.Add(time.Duration(req.recon.Wakeup-got.Now) * time.Millisecond))
	}
	if in.rec != nil && req.recon.Published != (record.Watermark{}) {
		in.rec.Published = req.recon.Published
	}
	switch req.phase {
	case reconciling:
		delete(l.owner.removals.stalls, in.id)
		l.found(in, got)
		if len(req.rest) > 0 {
			l.reconcileChunk(in, req.rest)
			return
		}
		if l.owner.operators.seenHeld(in, got.Unread) {
			l.owner.resume(in, sawNothing)
			return
		}
	case settling:
		delete(l.owner.removals.stalls, in.id)
	case suspending:
		l.owner.notices.releaseOrphans(req.notices)
		l.owner.removals.suspended(in, req.stall, req.recon.Published)
		return
	case keepingEarly:
		l.keptEarly(in, req.notices)
		return
	default: // releasing
		if got.Unread > 0 || in.pending.some() { // the unread inputs may use the tickets
			l.owner.notices.keepNotices(in, req.notices)
		} else {
			l.owner.notices.releaseOrphans(req.notices)
		}
	}
	l.owner.resume(in, sight(got.Unread))
}

func (l *leases) notReconciled(in *instance, err error) {
	if errors.Is(err, record.ErrConflict) { // the in-memory state was outdated
		l.owner.met[CountConflicts]++
		l.doubt()
		l.owner.unload(in)
		l.owner.schedule.wake(in.id)
		return
	}
	l.owner.dropFailed(in, "reconcile", err)
}

// found acts on the reported state of the leases.
func (l *leases) found(in *instance, got record.Reconciled) {
	waiting := make(map[string][]*history.ActivityScheduled)
	var doubts hints
	for _, lease := range got.Leases {
		e := in.state.Activity(lease.Activity)
		switch lease.Status {
		case record.LeaseUnclaimed:
			switch {
			case lease.ReturnedAt > got.Now: // returned with a delay
			case lease.ReturnedAt > l.owner.commits.sent[sending{in.id, e.ID}]: // returned since its last sending: its task is not in the queue
				l.owner.commits.publish(in.id, in.rec, e)
			default:
				waiting[e.Queue] = append(waiting[e.Queue], e)
			}
		case record.LeaseClaimed:
			l.owner.schedule.pollBy(l.owner.clock.wall.Add(time.Duration(lease.Until+1-got.Now) * time.Millisecond))
			if lease.Until-lease.Span < l.doubted {
				doubts.add(lease.Worker, message.Hint{Instance: in.id, Execution: in.execution(), Activity: lease.Activity, Effect: lease.Effect, Token: lease.Token})
			}
		case record.ClaimExpired:
			l.owner.met[CountExpired]++
			l.owner.log.Info("claim expired, dispatching again", "instance", in.id, "activity", e.Name, "event", e.ID, "claims", lease.Claims)
			l.owner.commits.publish(in.id, in.rec, e)
		case record.LeaseRecreated:
			l.owner.met[CountRestored]++
			l.owner.log.Warn("lease lost by redis, created again", "instance", in.id, "activity", e.Name, "event", e.ID)
			l.owner.commits.publish(in.id, in.rec, e)
		case record.ClaimsExhausted:
			l.exhausted(in, e, lease.Claims, got.Now)
		case record.LeaseMissing:
			in.needsInboxRead = true
		}
	}
	for _, q := range sorted(waiting) {
		l.resendIfLost(in, q, waiting[q])
	}
	l.owner.sendHints(doubts)
	l.findUnserved(in, got)
}

// exhausted fails an activity that was claimed MaxClaims times and never ended. Time decides that, so the failure is overdue.
func (l *leases) exhausted(in *instance, e *history.ActivityScheduled, claims int, now int64) {
	if slices.ContainsFunc(in.overdue, func(ev history.Event) bool {
		f, ok := ev.(*history.ActivityFailed)
		return ok && f.Scheduled == e.ID
	}) {
		return // the failure waits already
	}
	l.owner.met[CountPoisoned]++
	ev := &history.ActivityFailed{Scheduled: e.ID, Claims: uint32(claims), Failure: history.Failure{ //nolint:gosec // at most MaxClaims
		Code: history.CodePoison, Permanent: true,
		Message: fmt.Sprintf("activity %s was claimed %d times and never ended: its workers died, or lost their leases", e.Name, claims),
	}}
	ev.At = now
	l.owner.log.Error("activity poisoned", "instance", in.id, "activity", e.Name, "event", e.ID, "claims", claims)
	in.overdue = append(in.overdue, ev)
}

// settle records that nothing of the instance is due except its outbox, and then parks the instance.
func (l *leases) settle(in *instance) {
	if !in.wakeupDue && l.owner.removals.stalls[in.id] == nil {
		l.owner.park(in)
		return
	}
	in.wakeupDue = false
	l.owner.outbox.flushOutbox(in)
	recon := &record.Reconciliation{Head: in.head(), Wakeup: l.owner.commits.nextWakeup(in, in.state)}
	if l.owner.removals.stalls[in.id] != nil {
		recon.Stalled = record.NotStalled
	}
	l.reconcileAs(in, settling, outstanding{recon: recon})
}
