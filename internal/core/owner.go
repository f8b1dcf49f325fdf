package core

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Config are those of all owners of a process.
type Config struct {
	ReconcileInterval time.Duration // between two reconciliations of an instance with activities outstanding
	MaxClaims         int           // of an activity
	Parked            int           // executions kept in memory
	Retention         Retention
	FailDiverged      bool             // rather than to suspend them
	Programs          *author.Registry `json:"-"` // which is immutable
	Global            *history.Policy  // of every action without one; nil: none
	Elsewhere         bool             // other processes may have code that Programs lacks: see elsewhere.go
}

// Owner decides for one tenure of one partition. It does no I/O: it handles messages, one at a time, and collects effects. See the
// package's doc.
type Owner struct {
	cfg     Config
	seal    string // of the elements that the owner makes
	log     logger
	met     Counts
	effects []Effect
	number  uint64 // of the last effect that has one

	instances map[string]*instance
	parked    parked

	clock      clock
	busy       int // instances with a request or a turn outstanding
	spare      []*outstanding
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
	operators operators // what operators request
}

// Beginning is what an owner begins with.
type Beginning struct {
	Seal    string           // of the elements that the owner makes
	Heads   string           // what the heads of its commits begin with: no other tenure has had it
	Applied history.Position // up to which inputs have been ingested
	Commits int64            // highest number that the store has acknowledged
}

// New returns an owner that has seen nothing yet: its first message is TenureBegan.
func New(cfg Config, begin Beginning, now time.Time) *Owner {
	a := &Owner{cfg: cfg, seal: begin.Seal, instances: make(map[string]*instance)}
	a.log = logger{a}
	a.clock.tick(now)
	a.clock.set(a.clock.wall.UnixMilli())
	a.parked.limit = max(cfg.Parked, 1)
	a.parts = parts{
		schedule:  schedule{owner: a, horizon: horizon{applied: begin.Applied, held: make(map[string]hold)}},
		inbox:     inboxes{owner: a},
		turns:     turns{owner: a},
		admission: admission{owner: a, policies: Policies{Set: &limit.Overrides{}, Global: cfg.Global}, calls: make(map[uint64]*gateCall)},
		commits: commits{
			owner: a, number: begin.Commits, heads: begin.Heads, sent: make(map[sending]int64), waiters: newWaiters(), watchers: newWaiters(), updaters: newWaiters(),
			resends: resends{failed: make(map[string]struct{})},
		},
		outbox: outbox{owner: a, underway: make(map[uint64]*outgoing)},
		leases: leases{
			owner: a, unserved: make(map[string]bool), asked: make(map[uint64]*unclaimed),
		},
		notices:   notices{owner: a, visits: make(map[string]*visit)},
		removals:  removals{owner: a, stalls: make(map[string]*Stall), forced: make(map[string]bool)},
		operators: operators{owner: a, held: make(map[string]heldInbox)},
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

// Step handles one message, and returns the effects of it in their order. They are valid until the next step.
func (a *Owner) Step(now time.Time, m *Message) []Effect {
	clear(a.effects)
	a.effects = a.effects[:0]
	a.clock.tick(now)
	switch row := &messageKinds[m.Kind]; {
	case row.handle != nil:
		row.handle(a, m)
	default:
		if in := a.instances[m.ID]; in != nil && in.phase.busy() {
			o := *in.outstanding
			if in.phase != committing { // else the fate of the commit may be unknown
				a.to(in, o.from)
			}
			row.answer(a, in, o, m)
		} else {
			a.fail(fmt.Errorf("%w: instance %s has nothing outstanding, and gets %q", ErrIllegal, m.ID, m.Kind))
		}
	}
	a.schedule.startDeferred()
	return a.effects
}

// Err returns what ends the tenure; nil: nothing has.
func (a *Owner) Err() error { return a.err }

// Counts returns what has been counted. The caller takes it, and sets it back to zero.
func (a *Owner) Counts() *Counts { return &a.met }

// NextPoll returns when wakeupsDue is to be sent at the latest.
func (a *Owner) NextPoll() time.Time { return a.schedule.pollAt }

// Known returns the sequence up to which the inputs are applied; caughtUp: all that were accepted before the tenure are.
func (a *Owner) Known() (seq uint64, caughtUp bool) {
	return a.schedule.horizon.applied.Seq, a.schedule.horizon.began != 0
}

// Underway returns how many instances have a request or a turn outstanding, and how many publishes are not acknowledged.
func (a *Owner) Underway() (instances, publishes int) { return a.busy, a.publishing }

// Unfinished reports what the next owner has to repair; nil: there is nothing.
func (a *Owner) Unfinished() error { return a.schedule.unfinished() }

// sorted returns the keys of a map in order: what an owner does follows from its messages alone.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// PhaseOf returns the phase of an instance.
func (a *Owner) PhaseOf(id string) Phase {
	if in := a.instances[id]; in != nil {
		return in.phase
	}
	return Absent
}

// Describe returns phase, inputs in memory, and what is pending of an instance.
func (a *Owner) Describe(id string) string {
	in := a.instances[id]
	if in == nil {
		return "forgotten"
	}
	stale := ""
	if in.pending.stale {
		stale = ", stale"
	}
	return fmt.Sprintf("%s, %d in memory, %d pending%s", in.phase, len(in.unread), len(in.pending.inputs), stale)
}

// ErrIllegal is the error of a transition that the table does not have, and of an answer without a request.
var ErrIllegal = errors.New("illegal transition")

// next gives a number to an effect, of which several of an instance may be outstanding.
func (a *Owner) nextNumber() uint64 {
	a.number++
	return a.number
}

// fail ends the tenure: what memory assumes is not what the store has.
func (a *Owner) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// storeFailed sorts an error of the store: what ends the tenure, and what will pass.
func (a *Owner) storeFailed(what string, err error) {
	if endsTenure(err) {
		a.fail(fmt.Errorf("%s: %w", what, err))
		return
	}
	a.met[CountStoreErrors]++
	reportFailure(a.log, "redis request failed, retrying", err, "operation", what)
}

// scriptAnswered takes the answer of a script. conflict: memory was wrong, or the reply of an earlier try was lost.
func (a *Owner) scriptAnswered(what string, now int64, err error) (done, conflict bool) {
	switch {
	case err == nil:
		a.clock.set(now)
		return true, false
	case errors.Is(err, record.ErrConflict):
		a.met[CountConflicts]++
		return false, true
	default:
		a.storeFailed(what, err)
		return false, false
	}
}

// endsTenure reports an error of the store after which another owner has the partition, or memory has what the store has forgotten.
func endsTenure(err error) bool {
	return errors.Is(err, record.ErrFenced) || errors.Is(err, record.ErrRolledBack)
}

// forgetFailed puts an instance away that could not be read or reconciled: the schedule has it still, two seconds from now at the latest.
func (a *Owner) forgetFailed(in *instance, what string, err error) {
	a.storeFailed(what+" "+in.id, err)
	a.forget(in)
}

// instance gives the instance's place in memory.
func (a *Owner) instance(id string) *instance {
	in, ok := a.instances[id]
	if !ok {
		in = &instance{id: strings.Clone(id)} // which may be a part of a message
		a.instances[in.id] = in
	}
	return in
}

// park puts an idle instance away: parked if its code is in memory, else forgotten. One that would forget that the stream has
// its messages records that first: it would send them again at every reconciliation, for longer than their receivers remember.
func (a *Owner) park(in *instance) {
	switch {
	case in.gateRequests > 0, in.retryScheduled: // the answer puts it away, or the reconciliation to come
	case len(in.overdue) > 0, in.rejection.Kind != 0: // only memory has it; it waits for inputs
	case in.resident && !in.heavy && !in.status().Ended():
		in.wakeupDue = false
		if last := a.parked.add(in); last != nil {
			a.forget(last)
		}
	case len(in.outbox) > 0: // in flight; the stream's answer puts it away
	case in.rec != nil && in.rec.Published.Before(in.sent):
		in.wakeupDue = true
		a.advance(in)
	default:
		a.forget(in)
	}
}

// forget takes an instance out of memory.
func (a *Owner) forget(in *instance) {
	delete(a.instances, in.id)
	a.parked.remove(in)
	a.unload(in)
}

// unload forgets what memory assumes of an instance and ends its coroutines. The next step loads it.
func (a *Owner) unload(in *instance) {
	a.unloadCode(in)
	in.memory, in.pending.inputs = memory{}, nil
	if in.phase != Absent {
		a.to(in, Absent)
	}
}

// unloadCode ends the coroutines of an instance that is idle.
func (a *Owner) unloadCode(in *instance) {
	if in.resident {
		a.emit(Effect{Kind: EvictCode, ID: in.id})
	}
	in.resident = false
}

// end takes everything out of memory at the end of the tenure.
func (a *Owner) end() {
	for _, id := range sorted(a.instances) {
		in := a.instances[id]
		if in.phase == turning {
			in.resident = true // or will be
		}
		a.unloadCode(in)
	}
	clear(a.instances)
	a.notices.forgetGates()
	a.met[CountHeld] += -float64(len(a.schedule.horizon.held))
	a.leaving = true
}

// to moves an instance to a phase.
func (a *Owner) to(in *instance, p Phase) {
	was := in.phase.busy()
	if err := in.transition(p); err != nil {
		a.log.Error("illegal transition", "instance", in.id, "error", err)
		a.fail(fmt.Errorf("%w: %w", ErrIllegal, err))
	}
	switch {
	case p.busy() && !was:
		a.busy++
		a.parked.remove(in)
		in.outstanding = a.takeOutstanding()
	case was && !p.busy():
		a.busy--
		*in.outstanding = outstanding{}
		a.spare, in.outstanding = append(a.spare, in.outstanding), nil
	}
	if p.showsInbox() {
		in.pending.stale, in.pending.seq = false, 0
	}
}

// request moves an instance to a busy phase, and emits the effect whose answer the phase waits for.
func (a *Owner) request(in *instance, p Phase, o outstanding, e Effect) {
	o.phase, o.from, e.ID = p, in.phase, in.id
	a.to(in, p)
	*in.outstanding = o
	a.emit(e)
}

// takeOutstanding returns one that is empty. Only busy instances have one, for most instances are idle.
func (a *Owner) takeOutstanding() *outstanding {
	n := len(a.spare)
	if n == 0 {
		return &outstanding{}
	}
	o := a.spare[n-1]
	a.spare = a.spare[:n-1]
	return o
}

// resume is where an instance goes on behind every answer that leaves it in memory: what has arrived meanwhile is taken in, and then
// the next step is made.
func (a *Owner) resume(in *instance, saw sight) {
	switch {
	case saw == sawHead:
		in.needsInboxRead = in.pending.stale && (len(in.unread) == 0 || in.missed())
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
func (a *Owner) advance(in *instance) {
	if in.phase.busy() || a.leaving || a.err != nil {
		return
	}
	stalled := a.removals.stalls[in.id]
	switch {
	case in.observes && a.schedule.horizon.began == 0: // until caughtUp
	case stalled != nil && stalled.until > a.clock.now() && len(in.notices) > 0:
		a.notices.releaseUnused(in, stalled)
	case stalled != nil && stalled.until > a.clock.now():
		a.removals.suspend(in, stalled, nil)
	case in.phase == Absent:
		a.inbox.load(in, outstanding{})
	case in.needsInboxRead:
		in.needsInboxRead = false
		a.request(in, reading, outstanding{}, Effect{Kind: ReadInbox})
	default:
		if !in.rewinding() {
			a.notices.applyNotices(in)
		}
		a.next(in)
	}
}

// next does the next thing for an instance that is in memory whole.
func (a *Owner) next(in *instance) {
	switch {
	case len(in.notices) > 0 && (in.rec == nil || in.status().Ended()) && len(in.unread) == 0: // else what is unread comes first: it may be a start
		a.notices.confirmOrphans(in)
	case in.purgeNext() != nil:
		a.removals.purgeRequested(in, in.purgeNext())
	case a.operators.requestNext(in):
		a.operators.requested(in, 0)
	case in.status().Ended():
		a.commits.discard(in)
	case in.previousHasPending():
		a.outbox.flushOutbox(in) // and go on when the stream has it
	case in.rec == nil && len(in.unread) == 0:
		a.leases.settle(in)
	case in.rec == nil && !in.unread[0].start():
		a.leases.early(in)
	case in.inboxOverflowed || slices.ContainsFunc(in.unread, Unread.overflown):
		a.turns.failByName(in, &history.Failure{
			Code: history.CodeInboxFull,
			Message: fmt.Sprintf("instance %s: more than %d unread inputs or %d MiB of them (%d MiB before its start); inputs come faster than the orchestration reads them",
				in.id, record.InboxBound, record.InboxBytes>>20, record.EarlyBytes>>20),
		})
	case in.importing() != nil:
		a.turns.importInstance(in, in.importing())
	case in.paused():
		if !a.operators.endWait(in) {
			a.operators.wait(in) // its activities still run
		}
	case a.operators.terminatedEarly(in):
	case a.turns.beforeStart(in): // it waits, or has been ended
	case a.turns.runTimedOut(in):
		a.turns.endTimedOut(in)
	case in.rejection.Kind != 0 && a.admission.rejectionDue(in):
		a.admission.rejectStart(in)
	case in.continues() && a.turns.atBoundary(in): // it waits, or has been ended
	case a.admission.startNeedsAdmission(in):
		a.admission.admitStart(in)
	case in.hasLocalInputs() || a.schedule.turnable(in):
		a.turns.turn(in)
	case len(in.notices) > 0 && len(in.unread) == 0: // else they wait with what is unread
		a.notices.confirmOrphans(in)
	case in.wakeupDue && a.schedule.justHeld(in): // until reachHorizon
	case in.wakeupDue:
		a.leases.reconcileLeases(in)
	default:
		a.park(in)
	}
}
