package orchestrator

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/failpoint"
	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// environment is what an actor consults without an effect: settings, the code that is registered, and what the process knows of the
// fleet. None of it does I/O.
type environment struct {
	cfg         Config
	log         *slog.Logger
	met         *metrics
	programs    *author.Registry
	policies    *policies
	descendants *descendants
	lost        *tasksLoss
	watched     *watched
	partitionOf func(instance string) int
	connected   func() bool // to NATS
	newHead     func() string
	over        func() bool // the tenure is
}

// actor decides for one tenure of one partition. It does no I/O: it handles messages, one at a time, and collects effects. See the
// package's doc.
type actor struct {
	environment
	st      store.Tenure
	seal    string // of the elements that the owner makes
	effects []effect

	instances map[string]*instance
	parked    *simplelru.LRU[string, *instance] // those of instances that are idle and have their code in memory

	clock      clock
	busy       int // instances with a request or a turn outstanding
	publishing int // tasks and messages not yet acknowledged by the stream
	leaving    bool
	err        error // ends the tenure
	parts
}

// parts are the concerns of an actor. Each has the state that is its own, and decides for the others through the actor.
type parts struct {
	schedule  schedule  // what is due, and until when time may go on
	inbox     inboxes   // what arrives, and is loaded
	turns     turns     // what the code of an instance is given
	admission admission // what must pass a limit
	commits   commits   // what a turn writes, and sends then
	outbox    outbox    // what other instances are sent
	leases    leases    // what has been dispatched, and does not end
	notices   notices   // what limits report, and those of the partition
	removals  removals  // what is stalled, or purged
}

func newActor(env environment, t *partition.Tenure, now time.Time) *actor {
	a := &actor{environment: env, st: store.Tenure{Part: t.Part, Token: t.Token, Secret: t.Secret}, instances: make(map[string]*instance)}
	a.seal = a.st.Seal()
	a.clock.tick(now)
	a.clock.set(a.clock.wall.UnixMilli())
	// The size is validated by New; NewLRU refuses only sizes below one.
	a.parked, _ = simplelru.NewLRU(max(env.cfg.Parked/env.cfg.Partitions, 16), a.evicted)
	a.parts = parts{
		schedule:  schedule{actor: a, horizon: horizon{applied: t.Applied, held: make(map[string]int64)}},
		inbox:     inboxes{actor: a},
		turns:     turns{actor: a, observers: make(map[string]bool)},
		admission: admission{actor: a},
		commits: commits{
			actor: a, number: t.Commits(), sent: make(map[sending]int64), waiters: newWaiters(), watchers: newWaiters(),
			resends: resends{failed: make(map[string]struct{})},
		},
		outbox:   outbox{actor: a},
		leases:   leases{actor: a},
		notices:  notices{actor: a, visits: make(map[string]*visit)},
		removals: removals{actor: a, stalls: make(map[string]*stall), forced: make(map[string]bool)},
	}
	return a
}

// clock guesses Redis TIME from the last answer that reported it. Time moves from message to message.
type clock struct {
	wall time.Time // of the message
	at   time.Time // of the last answer, and what it reported
	ms   int64
}

func (c *clock) tick(now time.Time) { c.wall = now }
func (c *clock) set(ms int64)       { c.at, c.ms = c.wall, ms }
func (c *clock) now() int64         { return c.ms + c.wall.Sub(c.at).Milliseconds() }
func (a *actor) sawClock(ms int64)  { a.clock.set(ms) }

// step handles one message.
func (a *actor) step(now time.Time, m *message) {
	a.clock.tick(now)
	switch m.kind {
	case instanceLoaded, inboxRead, headRead, turnDone, turnBlocked, commitAnswered, commitRetryDue, reconciled, purgeAnswered, wipeFound, wiped:
		a.answered(m)
	case messagePublished, taskPublished, retryDue, resendDue, paceDue, queueAgeRead, fleetRead:
		a.published(m)
	case noticesReceived, noticesPassed, policiesChanged, gateDue, gateAnswered, ticketsReleased, gateSwept, gateRelisted, unwantedFound:
		a.admission.gateSpoke(m)
	case inputsIngested:
		a.inbox.ingested(m.body.(*ingested))
	case doorbellsReceived:
		a.inbox.onDoorbells(m.bells)
	case tenureFailed:
		a.fail(m.err)
	case endAwaited:
		a.commits.waiters.add(m.id, m.body.(string), a.clock.now())
	case statusAwaited:
		a.commits.watchers.add(m.id, m.body.(string), a.clock.now())
	case awaitedRequested:
		var names []string
		if in := a.instances[m.id]; in != nil && !in.phase.busy() && in.exec != nil {
			names = in.exec.Awaited()
		}
		a.emit(effect{kind: reportAwaited, body: &awaited{names: names, to: m.body.(chan []string)}})
	case wakeupsDue:
		a.schedule.pollAt = now.Truncate(pollEvery).Add(pollEvery) // all partitions together: one pipeline
		a.schedule.poll()
	case dueRead:
		a.schedule.dueRead(m.body.(store.DueSet), m.err)
	case tasksLost:
		a.leases.reconcile()
	case scheduleRead:
		a.leases.scheduleRead(m.body.([]string), m.err)
	case horizonAnswered:
		a.schedule.answeredHorizon(m.body, m.err)
	}
}

// answered handles the answers that end or change the phase of an instance.
func (a *actor) answered(m *message) {
	switch m.kind {
	case instanceLoaded:
		a.inbox.loaded(m.in, m.body.(store.Loaded), m.err)
	case inboxRead:
		a.inbox.inboxRead(m.in, m.body.([][]byte), m.err)
	case headRead:
		a.removals.headRead(m.in, m.body.(string), m.err)
	case turnDone:
		a.turns.turned(m.turn)
	case turnBlocked:
		a.turns.blocked(m.turn.in)
	case commitAnswered:
		a.commits.commitAnswered(m)
	case commitRetryDue:
		a.emit(effect{kind: commitTurn, in: m.in, turn: m.turn, commit: m.commit})
	case reconciled:
		a.leases.reconciled(m.in, m.recon, m.looked, m.err)
	case purgeAnswered:
		a.removals.purgeAnswered(m.in, m.body.(*removal), m.err)
	case wipeFound:
		a.removals.wipeFound(m.in, m.body.(*wipe), m.err)
	default: // wiped
		a.removals.wiped(m.in, m.body.(*wipe), m.err)
	}
}

// published handles what follows a publication, and pauses.
func (a *actor) published(m *message) {
	switch m.kind {
	case messagePublished:
		a.outbox.messagePublished(m.out, m.err)
	case taskPublished:
		a.commits.taskAnswered(m.id, m.event, m.err)
	case retryDue:
		a.outbox.retry(m.in)
	case resendDue:
		a.commits.resend()
	case paceDue:
		m.in.pacing = false
		if a.instances[m.in.id] == m.in {
			a.advance(m.in)
		}
	case queueAgeRead:
		a.leases.queueAgeRead(m.body.(*queueAge), m.err)
	default: // fleetRead
		a.leases.fleetRead(m.id, m.body.(*fleetReport))
	}
}

// fail ends the tenure: what memory believes is not what the store has.
func (a *actor) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// storeFailed sorts an error of the store: what ends the tenure, and what will pass.
func (a *actor) storeFailed(what string, err error) {
	switch {
	case errors.Is(err, store.ErrFenced):
		a.fail(fmt.Errorf("%s: %w: %w", what, err, partition.ErrLost))
	case errors.Is(err, store.ErrRolledBack):
		a.fail(fmt.Errorf("%s: %w: %w", what, err, partition.ErrRolledBack))
	case a.over():
	default:
		a.met.storeErrors.Inc()
		logFailure(a.log, "redis request failed, retrying", err, "operation", what)
	}
}

// instance gives the instance's place in memory.
func (a *actor) instance(id string) *instance {
	in, ok := a.instances[id]
	if !ok {
		in = &instance{id: id}
		a.instances[id] = in
	}
	return in
}

// park puts an idle instance away: parked if its code is in memory, else forgotten. One that would forget that the stream has
// its messages says so first: it would send them again at every look, for longer than their receivers remember.
func (a *actor) park(in *instance) {
	switch {
	case in.gateRequests > 0, in.retryScheduled: // the answer puts it away, or the reconciliation to come
	case len(in.overdue) > 0, in.rejection.Kind != 0: // only memory knows it; it waits for inputs
	case in.exec != nil && !in.status().Ended():
		in.wakeupDue = false
		a.parked.Add(in.id, in)
	case len(in.outbox) > 0: // on its way; the stream's answer puts it away
	case in.rec != nil && in.rec.Published.Before(in.sent):
		in.wakeupDue = true
		a.advance(in)
	default:
		a.forget(in)
	}
}

// evicted is called by the LRU when an instance has left it: because it is used (then it is
// busy), or because there are too many.
func (a *actor) evicted(_ string, in *instance) {
	if !in.phase.busy() {
		a.forget(in)
	}
}

// forget takes an instance out of memory.
func (a *actor) forget(in *instance) {
	delete(a.instances, in.id)
	a.unload(in)
}

// unload forgets what memory believes of an instance and ends its coroutines. The next step loads it.
func (a *actor) unload(in *instance) {
	a.unloadCode(in)
	in.memory, in.pending.inputs = memory{}, nil
	if in.phase != absent {
		a.to(in, absent)
	}
}

// unloadCode ends the coroutines of an instance that is idle.
func (a *actor) unloadCode(in *instance) {
	if exec := in.exec; exec != nil && !exec.Ended() {
		a.evict(in.id, func() *replay.Execution { return exec })
	}
	in.exec = nil
}

func (a *actor) evict(id string, which func() *replay.Execution) {
	a.emit(effect{kind: evictCode, id: id, body: which})
}

// end takes everything out of memory at the end of the tenure. A turn that is still in
// the turner's queue, or running, comes before the eviction of what it leaves.
func (a *actor) end() {
	for _, in := range a.instances {
		if t := in.turning; t != nil {
			a.evict(in.id, t.leftover)
		} else {
			a.unloadCode(in)
		}
	}
	clear(a.instances)
	a.notices.forgetGates()
	a.met.held.Sub(float64(len(a.schedule.horizon.held)))
}

// to moves an instance to a phase.
func (a *actor) to(in *instance, p phase) {
	was := in.phase.busy()
	if err := in.transition(p); err != nil {
		a.log.Error("illegal transition", "instance", in.id, "error", err)
		failpoint.Illegal(err)
		a.fail(err)
	}
	switch {
	case p.busy() && !was:
		a.busy++
		a.parked.Remove(in.id)
	case was && !p.busy():
		a.busy--
		in.turning = nil
	}
	if p.showsInbox() {
		in.pending.stale = false
	}
}

// resume is where an instance goes on behind every answer that leaves it in memory: what has arrived meanwhile is taken in, and then
// the next step is made.
func (a *actor) resume(in *instance, saw sight) {
	if in.phase.busy() {
		a.to(in, idle)
	}
	switch {
	case saw == sawHead:
		in.needsInboxRead = in.pending.stale && len(in.unread) == 0
	case saw >= 0:
		in.needsInboxRead = in.needsInboxRead || in.pending.stale || int(saw) > len(in.unread)
	}
	a.inbox.takePending(in)
	a.advance(in)
}

// sight is what an answer has shown of an inbox: how many inputs it has, or one of these.
type sight int

const (
	sawHead    sight = -1 // the inputs at its head, which are in memory now
	sawNothing sight = -2
)

// advance makes the next step of an instance, if nothing is outstanding.
func (a *actor) advance(in *instance) {
	if in.phase.busy() || a.leaving || a.err != nil {
		return
	}
	stalled := a.removals.stalls[in.id]
	switch {
	case a.turns.observers[in.id]: // until turnObservers
	case stalled != nil && stalled.until > a.clock.now() && len(in.notices) > 0:
		a.notices.releaseUnused(in, stalled)
	case stalled != nil && stalled.until > a.clock.now():
		a.removals.suspend(in, stalled, nil)
	case in.phase == absent:
		a.inbox.load(in, operation{})
	case in.needsInboxRead:
		a.to(in, reading)
		in.needsInboxRead = false
		a.emit(effect{kind: readInbox, in: in})
	default:
		a.notices.applyNotices(in)
		a.next(in)
	}
}

// next does the next thing for an instance that is in memory whole.
func (a *actor) next(in *instance) {
	switch {
	case len(in.notices) > 0 && in.status().Ended() && len(in.unread) == 0: // else what is unread comes first: it may be for an successor
		a.notices.confirmOrphans(in)
	case in.purgeNext() != nil:
		a.removals.purgeRequested(in, in.purgeNext())
	case in.status().Ended():
		a.commits.discard(in)
	case in.previousHasPending():
		a.outbox.flushOutbox(in) // and go on when the stream has it
	case in.rec == nil && len(in.unread) == 0 && len(in.notices) > 0:
		a.notices.confirmOrphans(in)
	case in.rec == nil && len(in.unread) == 0:
		a.leases.settle(in)
	case in.rec == nil && !in.unread[0].start():
		a.leases.early(in)
	case a.turns.belowCancelled(in):
		a.turns.refuseBelow(in)
	case in.inboxOverflowed || slices.ContainsFunc(in.unread, unread.overflown):
		a.turns.failByName(in, &history.Failure{
			Code: history.CodeInboxFull,
			Message: fmt.Sprintf("instance %s: more than %d unread inputs or %d MiB of them (%d MiB before its start); inputs come faster than the orchestration reads them",
				in.id, store.InboxBound, store.InboxBytes>>20, store.EarlyBytes>>20),
		})
	case in.rejection.Kind != 0 && a.admission.rejectionDue(in):
		a.admission.rejectStart(in)
	case in.continues() && a.turns.atBoundary(in): // it waits, or has been ended
	case a.admission.startNeedsAdmission(in):
		a.admission.admitStart(in)
	case in.hasLocalInputs() || a.schedule.turnable(in):
		a.turns.turn(in)
	case len(in.notices) > 0 && len(in.unread) == 0: // else they wait with what is unread
		a.notices.confirmOrphans(in)
	case in.wakeupDue:
		a.leases.reconcileLeases(in)
	default:
		a.park(in)
	}
}
