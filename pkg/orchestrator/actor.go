package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pawlrun/pawl/internal/partition"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// leaveGrace is for a hand-over to end what is under way.
const leaveGrace = 5 * time.Second

// actor is one tenure of one partition. See the package's doc.
type actor struct {
	*shared
	tenure *partition.Tenure
	st     store.Tenure
	seal   string // of the elements that the owner makes
	log    *slog.Logger
	box    *mailbox
	turns  *turner
	ctx    context.Context //nolint:containedctx // ends with the tenure
	life   context.Context //nolint:containedctx // ends with the actor: later, for a hand-over finishes what is under way
	waits  sync.WaitGroup  // of what the actor has sent off

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
	resends    resends
	leaving    bool
	doubted    int64 // the store may have forgotten the ends of claims that were made or renewed before it, Unix ms; see doubt
	horizon    horizon
	err        error // ends the tenure
}

func newActor(ctx context.Context, s *shared, t *partition.Tenure) *actor {
	a := &actor{
		shared: s, tenure: t, st: store.Tenure{Part: t.Part, Token: t.Token, Secret: t.Secret}, ctx: ctx,
		log: s.log.With("partition", t.Part), box: newMailbox(), turns: newTurner(),
		instances: make(map[string]*instance), stalls: make(map[string]*stall), forced: make(map[string]bool), visits: make(map[string]*visit), observers: make(map[string]bool), sent: make(map[sending]int64),
		waiters: newWaiters(), watchers: newWaiters(), resends: resends{failed: make(map[string]struct{})},
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

// run is the tenure. See partition.Config.Run for what it returns.
func (a *actor) run() error {
	life, die := context.WithCancel(context.WithoutCancel(a.ctx))
	a.life = life
	a.turners.add(a.turns)
	defer a.turners.remove(a.turns)
	reading, stopReading := context.WithCancel(a.ctx)
	subs, err := a.subscribe()
	a.actors.add(a)
	if err == nil {
		err = a.takeOver()
	}
	read := make(chan struct{})
	go func(began bool) {
		defer close(read)
		if began {
			a.announce()
			a.readInputs(reading)
		}
	}(err == nil)
	if err == nil {
		err = a.loop()
	}
	stopReading()
	if err == nil {
		err = a.leave()
	}
	for _, s := range subs {
		s.Stop()
	}
	a.actors.remove(a)
	die()
	<-read
	a.box.close()
	a.waits.Wait()
	a.unload()
	a.forgetGates()
	a.met.held.Sub(float64(len(a.horizon.held)))
	a.turns.close()
	return err
}

// loop ends with the tenure: nil for a hand-over, an error for anything else.
func (a *actor) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.ctx.Done():
			if cause := context.Cause(a.ctx); !errors.Is(cause, partition.ErrHandover) {
				return cause
			}
			return a.err
		case <-a.box.wake:
			a.box.run()
		case <-timer.C:
			a.pollAt = time.Now().Truncate(pollEvery).Add(pollEvery) // all partitions together: one pipeline
			a.poll()
		}
		if a.err != nil {
			return a.err
		}
		a.work()
		timer.Reset(time.Until(a.pollAt))
	}
}

// fail ends the tenure: what memory believes is not what the store has.
func (a *actor) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// leave finishes what is under way and lets the publishes be acknowledged, so that
// the next owner has nothing to repair.
func (a *actor) leave() error {
	a.leaving = true
	timeout := time.NewTimer(leaveGrace)
	defer timeout.Stop()
	for a.busy > 0 || a.publishing > 0 {
		select {
		case <-a.box.wake:
			a.box.run()
		case <-timeout.C:
			return fmt.Errorf("hand-over: %d instances and %d publishes still under way", a.busy, a.publishing)
		case <-a.tenure.Dropped():
			return fmt.Errorf("hand-over: no time left, with %d instances and %d publishes under way", a.busy, a.publishing)
		}
		if a.err != nil {
			return a.err
		}
	}
	if a.unsent > 0 || len(a.resends.failed) > 0 {
		return fmt.Errorf("hand-over: %d messages and tasks of %d instances could not be published", a.unsent, len(a.resends.failed))
	}
	if len(a.todo) > 0 {
		return fmt.Errorf("hand-over: %d instances of the owner before have not been looked at", len(a.todo))
	}
	return nil
}

// failed sorts an error of the store: what ends the tenure, and what will pass.
func (a *actor) failed(what string, err error) {
	switch {
	case errors.Is(err, store.ErrFenced):
		a.fail(fmt.Errorf("%s: %w: %w", what, err, partition.ErrLost))
	case errors.Is(err, store.ErrRolledBack):
		a.fail(fmt.Errorf("%s: %w: %w", what, err, partition.ErrRolledBack))
	case a.ctx.Err() != nil:
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
		delete(a.instances, in.id)
		a.unwind(in)
	}
}

// evicted is told by the LRU that an instance has left it: because it is used (then it is
// busy), or because there are too many.
func (a *actor) evicted(id string, in *instance) {
	if in.busy {
		return
	}
	delete(a.instances, id)
	a.unwind(in)
}

// unwind forgets what memory believes of an instance and ends its coroutines.
func (a *actor) unwind(in *instance) {
	a.unwindCode(in)
	in.forgetStore()
}

// unwindCode ends the coroutines of an instance that is idle.
func (a *actor) unwindCode(in *instance) {
	if exec := in.exec; exec != nil && !exec.Ended() {
		a.evict(in.id, func() *replay.Execution { return exec })
	}
	in.exec = nil
}

func (a *actor) evict(id string, which func() *replay.Execution) {
	a.turns.do(job{
		work: func() {
			exec := which()
			if exec == nil {
				return
			}
			if err := exec.Evict(); err != nil {
				a.log.Warn("the deferred functions of an orchestration failed while it was taken out of memory", "instance", id, "error", err)
			}
		},
		done:    func() {},
		late:    func() {},
		blocked: func() { a.leftBehind(id, "while it was taken out of memory") },
	})
}

func (a *actor) leftBehind(id, when string) {
	a.met.leftBehind.Inc()
	a.log.Error("orchestration code blocks; its goroutine is left behind", "instance", id, "when", when)
}

// unload takes everything out of memory at the end of the tenure. A turn that is still in
// the turner's queue, or running, comes before the eviction of what it leaves.
func (a *actor) unload() {
	for _, in := range a.instances {
		if t := in.turning; t != nil {
			a.evict(in.id, t.leftover)
		} else {
			a.unwindCode(in)
		}
	}
	clear(a.instances)
}

// begin marks the instance busy; end is the answer's first act.
func (a *actor) begin(in *instance) {
	in.busy = true
	a.busy++
	a.parked.Remove(in.id)
}

func (a *actor) end(in *instance) {
	in.busy, in.turning = false, nil
	a.busy--
}

// advance does the next thing for an instance, if nothing is under way.
func (a *actor) advance(in *instance) {
	if in.busy || a.leaving || a.err != nil {
		return
	}
	stalled := a.stalls[in.id]
	switch {
	case a.observers[in.id]: // until catchUpObservers
	case stalled != nil && stalled.until > a.clock.now() && len(in.words) > 0:
		a.giveBack(in, stalled)
	case stalled != nil && stalled.until > a.clock.now():
		a.hold(in, stalled, nil)
	case !in.loaded:
		a.load(in)
	case in.read:
		a.readInbox(in)
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
	case len(in.words) > 0:
		a.disown(in)
	case in.look:
		a.seeToLeases(in)
	default:
		a.rest(in)
	}
}
