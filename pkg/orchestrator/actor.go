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
	stalls    map[string]*stall
	forced    map[string]bool // instances in whose inbox, behind what is loaded of it, there may be a forced purge
	unserved  unserved
	waiters   waiters
	watchers  waiters           // of custom statuses
	todo      []string          // to be looked at when there is room: what a takeover found
	observers map[string]bool   // instances whose code polls, and whose turn waits until the owner has caught up: see observe.go
	visits    map[string]*visit // gates of the partition
	sent      map[sending]int64 // when the task of an outstanding activity was published last in this tenure, Unix ms

	clock      clock
	polling    bool
	pollAgain  bool // a poll was due while one was under way, which may have read the agenda too early
	pollAt     time.Time
	busy       int    // instances with something under way
	publishing int    // tasks and messages not yet acknowledged by the stream
	unsent     int    // messages that were not published, in this tenure
	batches    uint64 // ingested in this tenure
	commits    int64  // highest number that the store has acknowledged
	resends    resends
	leaving    bool
	doubted    int64 // the store may have forgotten the ends of claims that were made or renewed before it, Unix ms; see doubt
	horizon    horizon
	err        error // ends the tenure
}

func newActor(s *shared, t *partition.Tenure, log *slog.Logger, over func() bool) *actor {
	a := &actor{
		environment: environment{
			cfg: s.cfg, log: log, met: s.met, programs: s.programs, policies: s.policies, descendants: s.descendants, lost: s.lost, watched: s.watched, partitionOf: s.conn.PartitionOf, connected: s.conn.Connected, over: over,
		},
		st:        store.Tenure{Part: t.Part, Token: t.Token, Secret: t.Secret},
		instances: make(map[string]*instance), stalls: make(map[string]*stall), forced: make(map[string]bool), visits: make(map[string]*visit), observers: make(map[string]bool), sent: make(map[sending]int64),
		waiters: newWaiters(), watchers: newWaiters(), resends: resends{failed: make(map[string]struct{})}, commits: t.Commits(),
		clock: clock{at: time.Now(), ms: time.Now().UnixMilli()}, horizon: horizon{applied: t.Applied, held: make(map[string]int64)},
	}
	a.seal = a.st.Seal()
	// The size is validated by New; NewLRU refuses only sizes below one.
	a.parked, _ = simplelru.NewLRU(max(s.cfg.Parked/s.cfg.Partitions, 16), a.evicted)
	return a
}

// clock guesses Redis TIME from the last answer that told it.
type clock struct {
	at time.Time
	ms int64
}

func (c *clock) set(ms int64)   { c.at, c.ms = time.Now(), ms }
func (c *clock) now() int64     { return c.ms + time.Since(c.at).Milliseconds() }
func (a *actor) heard(ms int64) { a.clock.set(ms) }

// step handles one message.
func (a *actor) step(m *message) {
	switch m.kind {
	case instanceLoaded, inboxRead, headRead, turnDone, turnBlocked, commitAnswered, commitRetryDue, reconciled, purgeAnswered, wipeFound, wiped:
		a.answered(m)
	case messagePublished, taskPublished, retryDue, resendDue, paceDue, queueAgeRead, fleetRead:
		a.published(m)
	case noticesReceived, noticesPassed, policiesChanged, gateDue, gateAnswered, ticketsReleased, gateSwept, gateRelisted, unwantedFound:
		a.gateSpoke(m)
	case inputsIngested:
		a.ingested(m.body.(*ingested))
	case doorbellsReceived:
		a.rang(m.bells)
	case tenureFailed:
		a.fail(m.err)
	case endAwaited:
		a.waiters.add(m.id, m.body.(string), a.clock.now())
	case statusAwaited:
		a.watchers.add(m.id, m.body.(string), a.clock.now())
	case awaitedRequested:
		var names []string
		if in := a.instances[m.id]; in != nil && !in.phase.busy() && in.exec != nil {
			names = in.exec.Awaited()
		}
		m.body.(chan []string) <- names
	case wakeupsDue:
		a.pollAt = time.Now().Truncate(pollEvery).Add(pollEvery) // all partitions together: one pipeline
		a.poll()
	case dueRead:
		a.dueRead(m.body.(store.DueSet), m.err)
	case tasksLost:
		a.reconcile()
	case scheduleRead:
		a.scheduleRead(m.body.([]string), m.err)
	case horizonAnswered:
		a.answeredHorizon(m.body, m.err)
	}
}

// answered handles the answers that end or change the phase of an instance.
func (a *actor) answered(m *message) {
	switch m.kind {
	case instanceLoaded:
		a.loaded(m.in, m.body.(store.Loaded), m.err)
	case inboxRead:
		a.inboxRead(m.in, m.body.([][]byte), m.err)
	case headRead:
		a.headRead(m.in, m.body.(string), m.err)
	case turnDone:
		a.turned(m.turn)
	case turnBlocked:
		a.blocked(m.turn.in)
	case commitAnswered:
		a.commitAnswered(m)
	case commitRetryDue:
		a.emit(effect{kind: commitTurn, in: m.in, turn: m.turn, commit: m.commit})
	case reconciled:
		a.reconciled(m.in, m.recon, m.looked, m.err)
	case purgeAnswered:
		a.purgeAnswered(m.in, m.body.(*removal), m.err)
	case wipeFound:
		a.wipeFound(m.in, m.body.(*wipe), m.err)
	default: // wiped
		a.wiped(m.in, m.body.(*wipe), m.err)
	}
}

// published handles what follows a publication, and pauses.
func (a *actor) published(m *message) {
	switch m.kind {
	case messagePublished:
		a.messagePublished(m.out, m.err)
	case taskPublished:
		a.taskAnswered(m.id, m.event, m.err)
	case retryDue:
		a.retry(m.in)
	case resendDue:
		a.resend()
	case paceDue:
		m.in.pacing = false
		if a.instances[m.in.id] == m.in {
			a.advance(m.in)
		}
	case queueAgeRead:
		a.queueAgeRead(m.body.(*queueAge), m.err)
	default: // fleetRead
		a.fleetRead(m.id, m.body.(*fleetReport))
	}
}

// fail ends the tenure: what memory believes is not what the store has.
func (a *actor) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// failed sorts an error of the store: what ends the tenure, and what will pass.
func (a *actor) failed(what string, err error) {
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

// rest puts an idle instance away: parked if its code is in memory, else forgotten. One that would forget that the stream has
// its messages says so first: it would send them again at every look, for longer than their receivers remember.
func (a *actor) rest(in *instance) {
	switch {
	case in.asking > 0, in.soon: // the answer puts it away, or the look to come
	case len(in.overdue) > 0, in.away.Kind != 0: // only memory knows it; it waits for inputs
	case in.exec != nil && !in.status().Ended():
		in.look = false
		a.parked.Add(in.id, in)
	case len(in.owed) > 0: // on its way; the stream's answer puts it away
	case in.rec != nil && in.rec.Published.Before(in.sent):
		in.look = true
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
	a.unwind(in)
}

// unwind forgets what memory believes of an instance and ends its coroutines. The next step loads it.
func (a *actor) unwind(in *instance) {
	a.unwindCode(in)
	in.memory, in.pending.inputs = memory{}, nil
	if in.phase != absent {
		a.to(in, absent)
	}
}

// unwindCode ends the coroutines of an instance that is idle.
func (a *actor) unwindCode(in *instance) {
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
			a.unwindCode(in)
		}
	}
	clear(a.instances)
	a.forgetGates()
	a.met.held.Sub(float64(len(a.horizon.held)))
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
		in.read = in.pending.stale && len(in.unread) == 0
	case saw >= 0:
		in.read = in.read || in.pending.stale || int(saw) > len(in.unread)
	}
	a.catchUp(in)
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
	stalled := a.stalls[in.id]
	switch {
	case a.observers[in.id]: // until catchUpObservers
	case stalled != nil && stalled.until > a.clock.now() && len(in.words) > 0:
		a.giveBack(in, stalled)
	case stalled != nil && stalled.until > a.clock.now():
		a.hold(in, stalled, nil)
	case in.phase == absent:
		a.load(in, operation{})
	case in.read:
		a.to(in, reading)
		in.read = false
		a.emit(effect{kind: readInbox, in: in})
	default:
		a.hear(in)
		a.goOn(in)
	}
}

// goOn does the next thing for an instance that is in memory whole.
func (a *actor) goOn(in *instance) {
	switch {
	case len(in.words) > 0 && in.status().Ended() && len(in.unread) == 0: // else what is unread comes first: it may be for an heir
		a.disown(in)
	case in.purgeNext() != nil:
		a.purgeRequested(in, in.purgeNext())
	case in.status().Ended():
		a.discard(in)
	case in.owesForBefore():
		a.sendOwed(in) // and go on when the stream has it
	case in.rec == nil && len(in.unread) == 0 && len(in.words) > 0:
		a.disown(in)
	case in.rec == nil && len(in.unread) == 0:
		a.settle(in)
	case in.rec == nil && !in.unread[0].start():
		a.early(in)
	case a.belowCancelled(in):
		a.refuseBelow(in)
	case in.full || slices.ContainsFunc(in.unread, unread.overflown):
		a.failByName(in, &history.Failure{
			Code: history.CodeInboxFull,
			Message: fmt.Sprintf("instance %s: more than %d unread inputs or %d MiB of them (%d MiB before its start); inputs come faster than the orchestration reads them",
				in.id, store.InboxBound, store.InboxBytes>>20, store.EarlyBytes>>20),
		})
	case in.away.Kind != 0 && a.refusable(in):
		a.refuse(in)
	case in.continues() && a.atBoundary(in): // it waits, or has been ended
	case a.mustKnock(in):
		a.knock(in)
	case in.poisoned() || a.turnable(in):
		a.turn(in)
	case len(in.words) > 0 && len(in.unread) == 0: // else they wait with what is unread
		a.disown(in)
	case in.look:
		a.seeToLeases(in)
	default:
		a.rest(in)
	}
}
