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

// parts are the concerns of an owner. Each has the state that is its own, and decides for the others through the owner.
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
	o := &Owner{cfg: cfg, seal: begin.Seal, instances: make(map[string]*instance)}
	o.log = logger{o}
	o.clock.tick(now)
	o.clock.set(o.clock.wall.UnixMilli())
	o.parked.limit = max(cfg.Parked, 1)
	o.parts = parts{
		schedule:  schedule{owner: o, horizon: horizon{applied: begin.Applied, held: make(map[string]hold)}},
		inbox:     inboxes{owner: o},
		turns:     turns{owner: o},
		admission: admission{owner: o, policies: limit.Policies{Set: &limit.Overrides{}, Global: cfg.Global}, calls: make(map[uint64]*gateCall)},
		commits: commits{
			owner: o, number: begin.Commits, heads: begin.Heads, sent: make(map[sending]int64), waiters: newWaiters(), watchers: newWaiters(), updaters: newWaiters(),
			resends: resends{failed: make(map[string]struct{})},
		},
		outbox: outbox{owner: o, underway: make(map[uint64]*outgoing)},
		leases: leases{
			owner: o, unserved: make(map[string]bool), asked: make(map[uint64]*unclaimed),
		},
		notices:   notices{owner: o, visits: make(map[string]*visit)},
		removals:  removals{owner: o, stalls: make(map[string]*Stall), forced: make(map[string]bool)},
		operators: operators{owner: o, held: make(map[string]heldInbox)},
	}
	return o
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
func (o *Owner) Step(now time.Time, m *Message) []Effect {
	clear(o.effects)
	o.effects = o.effects[:0]
	o.clock.tick(now)
	switch row := &messageKinds[m.Kind]; {
	case row.handle != nil:
		row.handle(o, m)
	default:
		if in := o.instances[m.ID]; in != nil && in.phase.busy() {
			req := *in.outstanding
			if in.phase != committing { // else the fate of the commit may be unknown
				o.to(in, req.from)
			}
			row.answer(o, answer{m, in, req})
		} else {
			o.fail(fmt.Errorf("%w: instance %s has nothing outstanding, and gets %q", ErrIllegal, m.ID, m.Kind))
		}
	}
	o.schedule.startDeferred()
	return o.effects
}

// Err returns what ends the tenure; nil: nothing has.
func (o *Owner) Err() error { return o.err }

// Counts returns what has been counted. The caller takes it, and sets it back to zero.
func (o *Owner) Counts() *Counts { return &o.met }

// NextPoll returns when wakeupsDue is to be sent at the latest.
func (o *Owner) NextPoll() time.Time { return o.schedule.pollAt }

// Known returns the sequence up to which the inputs are applied; caughtUp: all that were accepted before the tenure are.
func (o *Owner) Known() (seq uint64, caughtUp bool) {
	return o.schedule.horizon.applied.Seq, o.schedule.horizon.began != 0
}

// Underway returns how many instances have a request or a turn outstanding, and how many publishes are not acknowledged.
func (o *Owner) Underway() (instances, publishes int) { return o.busy, o.publishing }

// Unfinished reports what the next owner has to repair; nil: there is nothing.
func (o *Owner) Unfinished() error { return o.schedule.unfinished() }

// sorted returns the keys of a map in order: what an owner does follows from its messages alone.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// PhaseOf returns the phase of an instance.
func (o *Owner) PhaseOf(id string) Phase {
	if in := o.instances[id]; in != nil {
		return in.phase
	}
	return Absent
}

// Describe returns phase, inputs in memory, and what is pending of an instance.
func (o *Owner) Describe(id string) string {
	in := o.instances[id]
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
func (o *Owner) nextNumber() uint64 {
	o.number++
	return o.number
}

// fail ends the tenure: what memory assumes is not what the store has.
func (o *Owner) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// storeFailed sorts an error of the store: what ends the tenure, and what will pass.
func (o *Owner) storeFailed(what string, err error) {
	if endsTenure(err) {
		o.fail(fmt.Errorf("%s: %w", what, err))
		return
	}
	o.met[CountStoreErrors]++
	reportFailure(o.log, "redis request failed, retrying", err, "operation", what)
}

// scriptAnswered takes the answer of a script. conflict: memory was wrong, or the reply of an earlier try was lost.
func (o *Owner) scriptAnswered(what string, now int64, err error) (done, conflict bool) {
	switch {
	case err == nil:
		o.clock.set(now)
		return true, false
	case errors.Is(err, record.ErrConflict):
		o.met[CountConflicts]++
		return false, true
	default:
		o.storeFailed(what, err)
		return false, false
	}
}

// endsTenure reports an error of the store after which another owner has the partition, or memory has what the store has forgotten.
func endsTenure(err error) bool {
	return errors.Is(err, record.ErrFenced) || errors.Is(err, record.ErrRolledBack)
}

// forgetFailed puts an instance away that could not be read or reconciled: the schedule has it still, two seconds from now at the latest.
func (o *Owner) forgetFailed(in *instance, what string, err error) {
	o.storeFailed(what+" "+in.id, err)
	o.forget(in)
}

// instance gives the instance's place in memory.
func (o *Owner) instance(id string) *instance {
	in, ok := o.instances[id]
	if !ok {
		in = &instance{id: strings.Clone(id)} // which may be a part of a message
		o.instances[in.id] = in
	}
	return in
}

// park puts an idle instance away: parked if its code is in memory, else forgotten. One that would forget that the stream has
// its messages records that first: it would send them again at every reconciliation, for longer than their receivers remember.
func (o *Owner) park(in *instance) {
	switch {
	case in.gateRequests > 0, in.retryScheduled: // the answer puts it away, or the reconciliation to come
	case len(in.overdue) > 0, in.rejection.Kind != 0: // only memory has it; it waits for inputs
	case in.resident && !in.heavy && !in.status().Ended():
		in.wakeupDue = false
		if last := o.parked.add(in); last != nil {
			o.forget(last)
		}
	case len(in.outbox) > 0: // in flight; the stream's answer puts it away
	case in.rec != nil && in.rec.Published.Before(in.sent):
		in.wakeupDue = true
		o.advance(in)
	default:
		o.forget(in)
	}
}

// forget takes an instance out of memory.
func (o *Owner) forget(in *instance) {
	delete(o.instances, in.id)
	o.parked.remove(in)
	o.unload(in)
}

// unload forgets what memory assumes of an instance and ends its coroutines. The next step loads it.
func (o *Owner) unload(in *instance) {
	o.unloadCode(in)
	in.memory, in.pending.inputs = memory{}, nil
	if in.phase != Absent {
		o.to(in, Absent)
	}
}

// unloadCode ends the coroutines of an instance that is idle.
func (o *Owner) unloadCode(in *instance) {
	if in.resident {
		o.emit(Effect{Kind: EvictCode, ID: in.id})
	}
	in.resident = false
}

// end takes everything out of memory at the end of the tenure.
func (o *Owner) end() {
	for _, id := range sorted(o.instances) {
		in := o.instances[id]
		if in.phase == turning {
			in.resident = true // or will be
		}
		o.unloadCode(in)
	}
	clear(o.instances)
	o.notices.forgetGates()
	o.met[CountHeld] += -float64(len(o.schedule.horizon.held))
	o.leaving = true
}

// to moves an instance to a phase.
func (o *Owner) to(in *instance, p Phase) {
	was := in.phase.busy()
	if err := in.transition(p); err != nil {
		o.log.Error("illegal transition", "instance", in.id, "error", err)
		o.fail(fmt.Errorf("%w: %w", ErrIllegal, err))
	}
	switch {
	case p.busy() && !was:
		o.busy++
		o.parked.remove(in)
		in.outstanding = o.takeOutstanding()
	case was && !p.busy():
		o.busy--
		*in.outstanding = outstanding{}
		o.spare, in.outstanding = append(o.spare, in.outstanding), nil
	}
	if p.showsInbox() {
		in.pending.stale, in.pending.seq = false, 0
	}
}

// request moves an instance to a busy phase, and emits the effect whose answer the phase waits for.
func (o *Owner) request(in *instance, p Phase, req outstanding, e Effect) {
	req.phase, req.from, e.ID = p, in.phase, in.id
	o.to(in, p)
	*in.outstanding = req
	o.emit(e)
}

// takeOutstanding returns one that is empty. Only busy instances have one, for most instances are idle.
func (o *Owner) takeOutstanding() *outstanding {
	n := len(o.spare)
	if n == 0 {
		return &outstanding{}
	}
	free := o.spare[n-1]
	o.spare = o.spare[:n-1]
	return free
}

// resume is where an instance goes on behind every answer that leaves it in memory: what has arrived meanwhile is taken in, and then
// the next step is made.
func (o *Owner) resume(in *instance, saw sight) {
	switch {
	case saw == sawHead:
		in.needsInboxRead = in.pending.stale && (len(in.unread) == 0 || in.missed())
	case saw >= 0:
		in.needsInboxRead = in.needsInboxRead || in.pending.stale || int(saw) > len(in.unread)
	}
	o.inbox.takePending(in)
	o.advance(in)
}

// sight is what an answer has shown of an inbox: how many inputs it has, or one of these.
type sight int

const (
	sawHead    sight = -1 // the inputs at its head, which are in memory now
	sawNothing sight = -2
)

// advance makes the next step of an instance, if nothing is outstanding.
func (o *Owner) advance(in *instance) {
	if in.phase.busy() || o.leaving || o.err != nil {
		return
	}
	stalled := o.removals.stalls[in.id]
	switch {
	case in.observes && o.schedule.horizon.began == 0: // until caughtUp
	case stalled != nil && stalled.until > o.clock.now() && len(in.notices) > 0:
		o.notices.releaseUnused(in, stalled)
	case stalled != nil && stalled.until > o.clock.now():
		o.removals.suspend(in, stalled, nil)
	case in.phase == Absent:
		o.inbox.load(in, outstanding{})
	case in.needsInboxRead:
		in.needsInboxRead = false
		o.request(in, reading, outstanding{}, Effect{Kind: ReadInbox})
	default:
		if !in.rewinding() {
			o.notices.applyNotices(in)
		}
		o.next(in)
	}
}

// next does the next thing for an instance that is in memory whole.
func (o *Owner) next(in *instance) {
	switch {
	case len(in.notices) > 0 && (in.rec == nil || in.status().Ended()) && len(in.unread) == 0: // else what is unread comes first: it may be a start
		o.notices.confirmOrphans(in)
	case in.purgeNext() != nil:
		o.removals.purgeRequested(in, in.purgeNext())
	case o.operators.requestNext(in):
		o.operators.requested(in, 0)
	case in.status().Ended():
		o.commits.discard(in)
	case in.previousHasPending():
		o.outbox.flushOutbox(in) // and go on when the stream has it
	case in.rec == nil && len(in.unread) == 0:
		o.leases.settle(in)
	case in.rec == nil && !in.unread[0].start():
		o.leases.early(in)
	case in.inboxOverflowed || slices.ContainsFunc(in.unread, Unread.overflown):
		o.turns.failByName(in, &history.Failure{
			Code: history.CodeInboxFull,
			Message: fmt.Sprintf("instance %s: more than %d unread inputs or %d MiB of them (%d MiB before its start); inputs come faster than the orchestration reads them",
				in.id, record.InboxBound, record.InboxBytes>>20, record.EarlyBytes>>20),
		})
	case in.importing() != nil:
		o.turns.importInstance(in, in.importing())
	case in.paused():
		if !o.operators.endWait(in) {
			o.operators.wait(in) // its activities still run
		}
	case o.operators.terminatedEarly(in):
	case o.turns.beforeStart(in): // it waits, or has been ended
	case o.turns.runTimedOut(in):
		o.turns.endTimedOut(in)
	case in.rejection.Kind != 0 && o.admission.rejectionDue(in):
		o.admission.rejectStart(in)
	case in.continues() && o.turns.atBoundary(in): // it waits, or has been ended
	case o.admission.startNeedsAdmission(in):
		o.admission.admitStart(in)
	case in.hasLocalInputs() || o.schedule.turnable(in):
		o.turns.turn(in)
	case len(in.notices) > 0 && len(in.unread) == 0: // else they wait with what is unread
		o.notices.confirmOrphans(in)
	case in.wakeupDue && o.schedule.justHeld(in): // until reachHorizon
	case in.wakeupDue:
		o.leases.reconcileLeases(in)
	default:
		o.park(in)
	}
}
