package orchestrator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	lookChunk = 1000 // leases that one look sees to
	// sentSlack is how much later than its sending, by our clock, a task may have reached its
	// queue by the server's, ms: else the oldest task of a queue seems younger than itself.
	sentSlack = 1000
)

// seeToLeases is the look at an instance that has nothing to turn.
func (a *actor) seeToLeases(in *instance) {
	in.look = false
	a.askAgain(in)
	a.askGates(in)
	var ids []uint64
	if in.state != nil {
		ids = in.state.Admitted()
	}
	a.to(in, reconciling)
	a.lookChunk(in, ids)
}

func (a *actor) lookChunk(in *instance, ids []uint64) {
	now := ids[:min(len(ids), lookChunk)]
	l := &store.Reconciliation{
		Instance: in.id, Execution: in.execution(), Head: in.head(), MaxClaims: a.cfg.MaxClaims, Wakeup: a.nextLook(in),
		Published: in.sent,
		Leases:    make([]store.Lease, len(now)),
	}
	if a.stalls[in.id] != nil {
		l.Stalled = store.NotStalled // it has come as far as a look
	}
	for i, id := range now {
		l.Leases[i] = store.Lease{Activity: id, Effect: in.state.Activity(id).Effect}
	}
	a.looking(in, &reconciliation{look: l, rest: ids[len(now):]})
}

// looking sends a look, for what the phase of the instance says.
func (a *actor) looking(in *instance, r *reconciliation) {
	a.met.looks.Inc()
	a.emit(effect{kind: reconcileWith, in: in, recon: r})
}

// reconciled takes the answer of a look.
func (a *actor) reconciled(in *instance, r *reconciliation, got store.Reconciled, err error) {
	if err != nil {
		a.notReconciled(in, err)
		return
	}
	a.heard(got.Now)
	if r.look.Wakeup != 0 {
		a.pollBy(time.Now().Add(time.Duration(r.look.Wakeup-got.Now) * time.Millisecond))
	}
	in.said(r.look.Published)
	switch in.phase {
	case reconciling:
		delete(a.stalls, in.id)
		a.found(in, got)
		if len(r.rest) > 0 {
			a.lookChunk(in, r.rest)
			return
		}
	case settling:
		delete(a.stalls, in.id)
	case suspending:
		a.to(in, idle)
		a.disownNow(r.notices)
		a.held(in, r.stall, r.look.Published)
		return
	case keepingEarly:
		a.keptEarly(in, r.notices)
		return
	default: // releasing
		if got.Unread > 0 || in.pending.stale || len(in.pending.inputs) > 0 { // they may want them
			a.keepWords(in, r.notices)
		} else {
			a.disownNow(r.notices)
		}
	}
	a.resume(in, sight(got.Unread))
}

func (a *actor) notReconciled(in *instance, err error) {
	a.to(in, idle)
	a.unwind(in)
	if errors.Is(err, store.ErrConflict) { // memory was wrong
		a.met.conflicts.Inc()
		a.doubt()
		a.lookAt(in.id)
		return
	}
	a.failed("look at "+in.id, err) // the agenda still has it, two seconds from now at the latest
	delete(a.instances, in.id)
}

// found acts on the state of the leases.
func (a *actor) found(in *instance, got store.Reconciled) {
	waiting := make(map[string][]*history.ActivityScheduled)
	var doubts map[string][]queue.Hint
	for _, l := range got.Leases {
		e := in.state.Activity(l.Activity)
		switch l.Status {
		case store.LeaseUnclaimed:
			switch {
			case l.ReturnedAt > got.Now: // given back for later
			case l.ReturnedAt > a.sent[sending{in.id, e.ID}]: // given back since: its task is not in the queue
				a.publish(in.id, in.rec, e)
			default:
				waiting[e.Queue] = append(waiting[e.Queue], e)
			}
		case store.LeaseClaimed:
			a.pollBy(time.Now().Add(time.Duration(l.Until+1-got.Now) * time.Millisecond))
			if l.Until-l.Span < a.doubted {
				doubts = a.doubtClaim(doubts, in, l)
			}
		case store.ClaimExpired:
			a.met.expired.Inc()
			a.log.Info("a claim is over; the activity is dispatched again", "instance", in.id, "activity", e.Name, "event", e.ID, "claims", l.Claims)
			a.publish(in.id, in.rec, e)
		case store.LeaseRecreated:
			a.met.restored.Inc()
			a.log.Warn("a lease was lost by the store and is made again", "instance", in.id, "activity", e.Name, "event", e.ID)
			a.publish(in.id, in.rec, e)
		case store.ClaimsExhausted:
			a.poison(in, e, l.Claims, got.Now)
		case store.LeaseMissing:
			in.read = true
		}
	}
	for q, es := range waiting {
		a.resendIfLost(in, q, es)
	}
	for worker, claims := range doubts {
		a.emit(effect{kind: sendHints, id: worker, body: claims})
	}
	a.findUnserved(in, got)
}

// poison makes a failure of an activity that was claimed as often as allowed and never ended.
func (a *actor) poison(in *instance, e *history.ActivityScheduled, claims int, now int64) {
	if slices.ContainsFunc(in.overdue, func(ev history.Event) bool {
		f, ok := ev.(*history.ActivityFailed)
		return ok && f.Scheduled == e.ID
	}) {
		return // it waits already
	}
	a.met.poisoned.Inc()
	ev := &history.ActivityFailed{Scheduled: e.ID, Claims: uint32(claims), Failure: history.Failure{ //nolint:gosec // at most MaxClaims
		Code: history.CodePoison, Permanent: true,
		Message: fmt.Sprintf("activity %s was claimed %d times and never ended: its workers died, or lost their leases", e.Name, claims),
	}}
	ev.At = now
	a.log.Error("an activity is poison", "instance", in.id, "activity", e.Name, "event", e.ID, "claims", claims)
	in.overdue = append(in.overdue, ev)
}

// resendIfLost finds the tasks that nobody has claimed and that can not be in their queue
// any more: those sent before the stream has lost its content are not. Of the others: queues are first in, first out, and
// as long as the oldest task in the queue is older than the last sending, ours may be behind it.
//
// The instance may have been put away before the queue has answered, so what is needed of it is kept here.
func (a *actor) resendIfLost(in *instance, queue string, es []*history.ActivityScheduled) {
	rec, lost := in.rec, a.lost.before(&a.clock)
	var unsure []*history.ActivityScheduled
	var sent []int64
	for _, e := range es {
		at, known := a.sent[sending{in.id, e.ID}]
		if !known {
			at = e.At // not sent before that; and a copy too many is dropped by its claim
		}
		if at < lost {
			a.met.resent.Inc()
			a.publish(in.id, rec, e)
			continue
		}
		unsure, sent = append(unsure, e), append(sent, at)
	}
	if len(unsure) == 0 {
		return
	}
	a.emit(effect{kind: readQueueAge, body: &queueAge{in: in, rec: rec, queue: queue, unsure: unsure, sent: sent}})
}

// queueAgeRead publishes again what cannot be in the queue any more.
func (a *actor) queueAgeRead(q *queueAge, err error) {
	if err != nil {
		logFailure(a.log, "queue not inspected, retrying", err, "queue", q.queue)
		return
	}
	in := q.in
	for i, e := range q.unsure {
		ended := in.phase == idle && in.state != nil && in.state.Activity(e.ID) == nil // while it is busy, its claim tells
		if !ended && (!q.some || q.at.UnixMilli() > q.sent[i]+sentSlack) {
			a.met.resent.Inc()
			a.publish(in.id, q.rec, e)
		}
	}
}

// settle says that nothing is due but what is still owed, and forgets the instance.
func (a *actor) settle(in *instance) {
	if !in.look && a.stalls[in.id] == nil {
		a.rest(in)
		return
	}
	in.look = false
	a.sendOwed(in)
	l := &store.Reconciliation{Instance: in.id, Head: in.head(), Wakeup: a.nextLook(in), Published: in.sent}
	if a.stalls[in.id] != nil {
		l.Stalled = store.NotStalled
	}
	a.to(in, settling)
	a.looking(in, &reconciliation{look: l})
}

// stall keeps an instance from being turned for a while, and says why.
func (a *actor) stall(in *instance, kind stallKind, why string) {
	if kind == stallUnreadable {
		a.wipeOr(in, operation{kind: kind, why: why})
		return
	}
	if _, purge := in.forcedPurge(); purge != nil || a.forced[in.id] {
		a.purgeStalled(in, operation{goal: toPurge, kind: kind, why: why})
		return
	}
	a.putOff(in, kind, why)
}

func (a *actor) putOff(in *instance, kind stallKind, why string) {
	s := a.stalls[in.id]
	if s == nil || s.Kind != kind {
		s = &stall{Kind: kind, Since: a.clock.now()}
		a.stalls[in.id] = s
		a.met.stalls.Inc()
		a.log.Warn("the instance is stalled", "instance", in.id, "kind", kind, "why", why)
		a.publishChange(in, queue.Change{Status: string(in.status()), Stalled: text.Shorten(why, maxWhy)}, s.Since)
	}
	pause := s.pause()
	s.Why, s.Tries, s.until = why, s.Tries+1, a.clock.now()+pause.Milliseconds()
	a.hold(in, s, nil)
}

// hold puts a stalled instance off, and takes out of their gates what it does not use there. What it has unread stays where it is.
func (a *actor) hold(in *instance, s *stall, unused map[string]word) {
	a.unwindCode(in)
	if in.phase == absent { // not even the record may be readable: the head alone is enough to hold it
		a.to(in, fetchingHead)
		in.op = operation{stall: s, words: unused}
		a.emit(effect{kind: fetchHead, in: in})
		return
	}
	a.holdAt(in, in.head(), s, unused)
}

func (a *actor) holdAt(in *instance, head string, s *stall, unused map[string]word) {
	a.to(in, suspending)
	l := &store.Reconciliation{Instance: in.id, Head: head, Wakeup: s.until, InboxHold: store.HoldAll, Stalled: s.encode(), Published: in.sent}
	a.looking(in, &reconciliation{look: l, stall: s, notices: unused})
}

func (a *actor) headRead(in *instance, head string, err error) {
	if err != nil {
		a.to(in, absent)
		a.failed("look at "+in.id, err)
		delete(a.instances, in.id)
		return
	}
	a.holdAt(in, head, in.op.stall, in.op.words)
}

// held puts a stalled instance away. Only what it owes stays, until the stream has it and the store knows that: each try
// would send it again.
func (a *actor) held(in *instance, s *stall, said store.Watermark) {
	owed, sent := in.owed, in.sent
	a.unwind(in)
	in.owed, in.sent = owed, sent
	switch {
	case len(owed) > 0: // the stream's answer has it held once more
	case sent != said, s.until == 0: // a forced purge has come meanwhile, and does not wait for the next try
		a.advance(in)
	default:
		delete(a.instances, in.id)
	}
}

// early keeps inputs that came before their instance was started, for a day.
func (a *actor) early(in *instance) {
	over := func(u unread) bool {
		return u.forgotten() || !u.start() && a.isDue(in.id, u.ev.Meta().At+earlyKept.Milliseconds())
	}
	if over(in.unread[0]) {
		n := 1
		for n < len(in.unread) && over(in.unread[n]) { // the younger ones have their day still
			n++
		}
		if !in.unread[0].forgotten() {
			a.log.Warn("inputs have waited a day for the start of their instance and are dropped", "instance", in.id, "inputs", n)
		}
		a.discardEarly(in, n)
		return
	}
	oldest := in.unread[0].ev.Meta().At
	drop := oldest + earlyKept.Milliseconds()
	s := &stall{Kind: stallEarly, Since: oldest, Why: fmt.Sprintf("inputs came before a start of this instance; they are kept for %v", earlyKept), until: drop}
	words := in.words // about somebody who had the id before, or will enter anew
	in.words = nil
	a.to(in, keepingEarly)
	l := &store.Reconciliation{Instance: in.id, Head: in.head(), Wakeup: a.notBefore(drop), InboxHold: store.HoldEarly, Stalled: s.encode()}
	a.looking(in, &reconciliation{look: l, notices: words})
}

// keptEarly forgets an instance that waits for its start, unless something has come meanwhile.
func (a *actor) keptEarly(in *instance, words map[string]word) {
	came := len(in.pending.inputs) > 0 || in.pending.stale // perhaps the start
	in.pending.inputs = nil
	switch {
	case came:
		a.keepWords(in, words)
		in.read = true
	default:
		a.disownNow(words)
		if len(in.words) == 0 {
			a.to(in, idle)
			a.forget(in)
			return
		} // else they came behind the look, which does not speak for them
	}
	a.resume(in, sawNothing)
}

func (a *actor) discardEarly(in *instance, n int) {
	a.stalls[in.id] = &stall{Kind: stallEarly} // so that the listing is taken back
	a.takeOut(in, n)
}
