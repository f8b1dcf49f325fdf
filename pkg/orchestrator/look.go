package orchestrator

import (
	"context"
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
	a.begin(in)
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
	a.looking(in, l, func(got store.Reconciled) {
		delete(a.stalls, in.id)
		in.said(l.Published)
		a.found(in, got)
		if rest := ids[len(now):]; len(rest) > 0 {
			a.lookChunk(in, rest)
			return
		}
		a.end(in)
		in.read = in.read || in.missed || got.Unread > len(in.unread)
		a.catchUp(in)
		a.advance(in)
	})
}

// looking sends a look. The instance is busy, and still is when then is called.
func (a *actor) looking(in *instance, l *store.Reconciliation, then func(store.Reconciled)) {
	a.met.looks.Inc()
	a.store.Reconcile(a.st, l, func(got store.Reconciled, err error) {
		a.box.post(func() {
			if err == nil {
				a.heard(got.Now)
				if l.Wakeup != 0 {
					a.pollBy(time.Now().Add(time.Duration(l.Wakeup-got.Now) * time.Millisecond))
				}
				then(got)
				return
			}
			a.end(in)
			a.unwind(in)
			if errors.Is(err, store.ErrConflict) { // memory was wrong
				a.met.conflicts.Inc()
				a.doubt()
				a.lookAt(in.id)
				return
			}
			a.failed("look at "+in.id, err) // the agenda still has it, two seconds from now at the latest
			delete(a.instances, in.id)
		})
	})
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
		if err := a.conn.SendHints(worker, claims); err != nil {
			a.log.Debug("worker not asked about its claims", "worker", worker, "error", err)
		}
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
	a.oldest.ask(a.life, queue, func(at time.Time, some bool, err error) {
		a.box.post(func() {
			if err != nil {
				logFailure(a.log, "queue not inspected, retrying", err, "queue", queue)
				return
			}
			for i, e := range unsure {
				ended := in.loaded && !in.busy && in.state != nil && in.state.Activity(e.ID) == nil // while it is busy, its claim tells
				if !ended && (!some || at.UnixMilli() > sent[i]+sentSlack) {
					a.met.resent.Inc()
					a.publish(in.id, rec, e)
				}
			}
		})
	})
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
	a.begin(in)
	a.looking(in, l, func(got store.Reconciled) {
		delete(a.stalls, in.id)
		in.said(l.Published)
		a.end(in)
		in.read = in.missed || got.Unread > 0
		a.catchUp(in)
		if in.read || len(in.unread) > 0 {
			a.advance(in)
			return
		}
		a.rest(in)
	})
}

// stall keeps an instance from being turned for a while, and says why.
func (a *actor) stall(in *instance, kind stallKind, why string) {
	if kind == stallUnreadable {
		a.wipeOr(in, func() { a.putOff(in, kind, why) })
		return
	}
	if _, purge := in.forcedPurge(); purge != nil || a.forced[in.id] {
		a.purgeStalled(in, func() { a.putOff(in, kind, why) })
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
func (a *actor) hold(in *instance, s *stall, idle map[string]word) {
	a.unwindCode(in)
	a.begin(in)
	send := func(head string) {
		l := &store.Reconciliation{Instance: in.id, Head: head, Wakeup: s.until, InboxHold: store.HoldAll, Stalled: s.encode(), Published: in.sent}
		a.looking(in, l, func(store.Reconciled) {
			a.end(in)
			a.disownNow(idle)
			a.held(in, s, l.Published)
		})
	}
	if in.loaded {
		send(in.head())
		return
	}
	// Not even the record may be readable: the head alone is enough to hold it.
	off(a, func(ctx context.Context) (string, error) { return a.store.Head(ctx, a.st.Part, in.id) },
		func(head string, err error) {
			if err != nil {
				a.end(in)
				a.failed("look at "+in.id, err)
				delete(a.instances, in.id)
				return
			}
			send(head)
		})
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
	a.begin(in)
	l := &store.Reconciliation{Instance: in.id, Head: in.head(), Wakeup: a.notBefore(drop), InboxHold: store.HoldEarly, Stalled: s.encode()}
	a.looking(in, l, func(store.Reconciled) {
		a.end(in)
		came := len(in.late) > 0 || in.missed // perhaps the start
		in.late = nil
		if came {
			a.keepWords(in, words)
			in.read = true
			a.advance(in)
			return
		}
		a.disownNow(words)
		if len(in.words) > 0 { // they came behind the look, which does not speak for them
			a.advance(in)
			return
		}
		delete(a.instances, in.id)
	})
}

func (a *actor) discardEarly(in *instance, n int) {
	a.stalls[in.id] = &stall{Kind: stallEarly} // so that the listing is taken back
	a.takeOut(in, n)
}
