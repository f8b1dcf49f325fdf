package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/text"
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

// resendIfLost finds the tasks that no worker has claimed and that cannot be in their queue
// any more: those sent before the stream has lost its content are not. Of the others: queues are first in, first out, and
// as long as the oldest task in the queue is older than the last sending, ours may be behind it.
//
// The instance may have been parked or forgotten before the queue has answered, so what is needed of it is kept here.
func (a *leases) resendIfLost(in *instance, queue string, es []*history.ActivityScheduled) {
	rec, lost := in.rec, a.lostBefore()
	var unsure []*history.ActivityScheduled
	var sent []int64
	for _, e := range es {
		at, known := a.owner.commits.sent[sending{in.id, e.ID}]
		if !known {
			at = e.At // not sent before that; and a copy too many is dropped by its claim
		}
		if at < lost {
			a.owner.met[CountResent]++
			a.owner.commits.publish(in.id, rec, e)
			continue
		}
		unsure, sent = append(unsure, e), append(sent, at)
	}
	if len(unsure) == 0 {
		return
	}
	a.ask(Effect{Kind: ReadQueueAge, ID: queue}, &unclaimed{instance: in.id, rec: rec, queue: queue, activities: unsure, sent: sent})
}

// unclaimed are activities of an instance that no worker has claimed. Their queue may have lost their tasks, or no worker may have them.
type unclaimed struct {
	instance   string
	activities []*history.ActivityScheduled
	rec        *record.Record // of a question to the queue, and the rest
	queue      string
	sent       []int64 // when, Unix ms
}

// ask asks a queue or the workers about activities.
func (a *leases) ask(e Effect, about *unclaimed) {
	e.Number = a.owner.nextNumber()
	a.asked[e.Number] = about
	a.owner.emit(e)
}

// lostBefore is the time before which all tasks are lost, Unix ms by the clock; 0: none are.
func (a *leases) lostBefore() int64 {
	if a.lost.IsZero() {
		return 0
	}
	return a.owner.clock.now() - a.owner.clock.wall.Sub(a.lost).Milliseconds() + sentSlack
}

// queueAgeRead publishes again what cannot be in the queue any more.
func (a *leases) queueAgeRead(number uint64, got QueueAge, err error) {
	q := a.asked[number]
	delete(a.asked, number)
	if err != nil {
		reportFailure(a.owner.log, "queue not inspected, retrying", err, "queue", q.queue)
		return
	}
	in := a.owner.instances[q.instance] // nil: parked or forgotten since
	for i, e := range q.activities {
		ended := in != nil && in.phase == idle && in.state != nil && in.state.Activity(e.ID) == nil // while it is busy, the claim of the task decides
		if !ended && (!got.Some || got.At.UnixMilli() > q.sent[i]+sentSlack) {
			a.owner.met[CountResent]++
			a.owner.commits.publish(q.instance, q.rec, e)
		}
	}
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

// stall keeps an instance from being turned for a while, and records why.
func (a *removals) stall(in *instance, kind stallKind, why string) {
	if kind == stallUnreadable {
		a.wipeOr(in, &Stall{Kind: kind, Why: why})
		return
	}
	_, purge := in.forcedPurge()
	_, urgent := in.urgent()
	if purge != nil || urgent != nil || a.forced[in.id] {
		delete(a.forced, in.id)
		a.owner.unloadCode(in)
		a.owner.inbox.search(in, outstanding{goal: toPurge, stall: &Stall{Kind: kind, Why: why}}) // memory has the head of it only
		return
	}
	a.deferInstance(in, kind, why)
}

func (a *removals) deferInstance(in *instance, kind stallKind, why string) {
	s := a.stalls[in.id]
	if s == nil || s.Kind != kind {
		s = &Stall{Kind: kind, Since: a.owner.clock.now()}
		a.stalls[in.id] = s
		a.owner.met[CountStalls]++
		a.owner.log.Warn("instance stalled", "instance", in.id, "kind", kind, "why", why)
		a.owner.commits.publishChange(in, message.Change{Status: string(in.status()), Stalled: text.Shorten(why, maxWhy)}, s.Since)
	}
	pause := s.pause()
	s.Why, s.Tries, s.until = why, s.Tries+1, a.owner.clock.now()+pause.Milliseconds()
	a.suspend(in, s, nil)
}

// tryAgain ends the pause of a stalled instance, which an owner before may have recorded. Early inputs wait for a start: trying them
// again would change nothing.
func (a *removals) tryAgain(id string) {
	if s := a.stalls[id]; s != nil {
		if s.Kind == stallEarly {
			return
		}
		s.until = 0
	}
	a.owner.schedule.todo = append(a.owner.schedule.todo, id)
}

// suspend puts a stalled instance off, and takes out of their gates what it does not use there. What it has unread stays where it is.
func (a *removals) suspend(in *instance, s *Stall, unused map[string]GateNotice) {
	a.owner.unloadCode(in)
	if in.phase == Absent { // not even the record may be readable: the head alone is enough to hold it
		a.owner.request(in, fetchingHead, outstanding{stall: s, notices: unused}, Effect{Kind: FetchHead})
		return
	}
	a.suspendAt(in, in.head(), s, unused)
}

func (a *removals) suspendAt(in *instance, head string, s *Stall, unused map[string]GateNotice) {
	l := &record.Reconciliation{Head: head, Wakeup: s.until, InboxHold: record.HoldAll, Stalled: s.Encode()}
	a.owner.leases.reconcileAs(in, suspending, outstanding{recon: l, stall: s, notices: unused})
}

func (a *removals) headRead(in *instance, o outstanding, head string, err error) {
	if err != nil {
		a.owner.forgetFailed(in, "reconcile", err)
		return
	}
	a.suspendAt(in, head, o.stall, o.notices)
}

// suspended puts a stalled instance away. Only its outbox stays, until the stream has it and the store has recorded that: each try
// would send it again otherwise.
func (a *removals) suspended(in *instance, s *Stall, published record.Watermark) {
	kept, sent := in.outbox, in.sent
	a.owner.unload(in)
	in.outbox, in.sent = kept, sent
	switch {
	case len(kept) > 0: // the stream's answer has it held once more
	case sent != published, s.until == 0: // a forced purge has come meanwhile, and does not wait for the next try
		a.owner.advance(in)
	default:
		delete(a.owner.instances, in.id)
	}
}

// early keeps inputs that came before their instance was started, for a day.
func (a *leases) early(in *instance) {
	over := func(u Unread) bool {
		return u.forgotten() || !u.start() && a.owner.schedule.isDue(in.id, u.Ev.Meta().At+earlyKept.Milliseconds())
	}
	if over(in.unread[0]) {
		n := 1
		for n < len(in.unread) && over(in.unread[n]) { // the younger ones have their day still
			n++
		}
		if !in.unread[0].forgotten() {
			a.owner.log.Warn("inputs without start dropped", "instance", in.id, "inputs", n)
		}
		a.owner.removals.stalls[in.id] = &Stall{Kind: stallEarly} // so that the listing is taken back
		a.owner.commits.takeOut(in, n)
		return
	}
	oldest := in.unread[0].Ev.Meta().At
	drop := oldest + earlyKept.Milliseconds()
	s := &Stall{Kind: stallEarly, Since: oldest, Why: fmt.Sprintf("inputs came before a start of this instance; they are kept for %v", earlyKept), until: drop}
	notices := in.notices // about an earlier incarnation, or of a ticket that will enter anew
	in.notices = nil
	l := &record.Reconciliation{Head: in.head(), Wakeup: a.owner.schedule.notBefore(drop), InboxHold: record.HoldEarly, Stalled: s.Encode()}
	a.reconcileAs(in, keepingEarly, outstanding{recon: l, notices: notices})
}

// keptEarly forgets an instance that waits for its start, unless something has come meanwhile.
func (a *leases) keptEarly(in *instance, notices map[string]GateNotice) {
	came := in.pending.some() // perhaps the start
	in.pending.inputs = nil
	switch {
	case came:
		a.owner.notices.keepNotices(in, notices)
		in.needsInboxRead = true
	default:
		a.owner.notices.releaseOrphans(notices)
		if len(in.notices) == 0 {
			a.owner.forget(in)
			return
		} // else they came behind the reconciliation, which does not speak for them
	}
	a.owner.resume(in, sawNothing)
}
