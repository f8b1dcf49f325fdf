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

// Config configures all owners of a process.
type Config struct {
	ReconcileInterval time.Duration // between two reconciliations of an instance with outstanding activities
	MaxClaims         int           // per activity, before it is poisoned
	Parked            int           // maximum number of idle instances whose code stays in memory
	Retention         Retention
	FailDiverged      bool             // fail instances whose code diverges from their history, instead of stalling them
	Programs          *author.Registry `json:"-"` // registered code; immutable
	Global            *history.Policy  // policy of every action without its own; nil: none
	Elsewhere         bool             // other processes may have code that Programs lacks: see elsewhere.go
}

// Owner owns one partition for one tenure. It does no I/O: it handles messages, one at a time, and returns effects. See the
// package documentation.
type Owner struct {
	cfg     Config
	seal    string // suffix of the ids of the inbox elements that this owner writes
	log     logger
	met     Counts
	effects []Effect
	number  uint64 // last number given to an effect or a head

	instances map[string]*instance
	parked    parked

	clock      clock
	busy       int            // instances with an outstanding request or turn
	spare      []*outstanding // unused ones, to be used again
	publishing int            // tasks and messages that the stream has not acknowledged
	leaving    bool           // the hand-over has begun: no instance makes another step
	err        error          // ends the tenure
	parts
}

// parts are the concerns of an owner. Each keeps its own state, and reaches the others through the owner.
type parts struct {
	schedule  schedule  // wakeups, and the horizon up to which time may decide
	inbox     inboxes   // arriving inputs, loading and reading
	turns     turns     // the inputs of turns, and ends decided without code
	admission admission // tickets of instances at limits
	commits   commits   // commits, and the effects and answers that follow them
	outbox    outbox    // messages to other instances
	leases    leases    // reconciliation of leases
	notices   notices   // notices from limits, and visits of the partition's own limits
	removals  removals  // stalled and purged instances
	operators operators // operator requests
}

// TenureStart is the stored and random state with which a tenure begins.
type TenureStart struct {
	Seal    string           // suffix of the ids of the inbox elements that the owner writes
	Heads   string           // prefix of the heads of its commits, unique to the tenure
	Applied history.Position // inputs up to here have been ingested
	Commits int64            // highest commit number that the store has acknowledged
}

// New returns an owner. Its first message must be TenureBegan.
func New(cfg Config, begin TenureStart, now time.Time) *Owner {
	o := &Owner{cfg: cfg, seal: begin.Seal, instances: make(map[string]*instance)}
	o.log = logger{o}
	o.clock.wall = now
	o.clock.set(now.UnixMilli())
	o.parked.limit = max(cfg.Parked, 1)
	o.parts = parts{
		schedule:  schedule{owner: o, horizon: horizon{applied: begin.Applied, held: make(map[string]hold)}},
		inbox:     inboxes{owner: o},
		turns:     turns{owner: o},
		admission: admission{owner: o, policies: limit.Policies{Set: &limit.Overrides{}, Global: cfg.Global}, calls: make(map[uint64]*limitCall)},
		commits: commits{
			owner: o, number: begin.Commits, heads: begin.Heads, sent: make(map[sending]int64), waiters: newWaiters(), watchers: newWaiters(), updaters: newWaiters(),
			resends: resends{failed: make(map[string]struct{})},
		},
		outbox:    outbox{owner: o, outstanding: make(map[uint64]*outgoing)},
		leases:    leases{owner: o, unserved: make(map[string]bool), reads: make(map[uint64]*unclaimed)},
		notices:   notices{owner: o, visits: make(map[string]*visit)},
		removals:  removals{owner: o, stalls: make(map[string]*Stall), forced: make(map[string]bool)},
		operators: operators{owner: o, held: make(map[string]heldInbox)},
	}
	return o
}

// clock estimates Redis TIME from the last answer that reported it. It advances with the time of each message.
type clock struct {
	wall time.Time // time of the current message
	at   time.Time // wall when an answer last reported Redis TIME
	ms   int64     // the reported time, Unix ms
}

func (c *clock) set(ms int64) { c.at, c.ms = c.wall, ms }
func (c *clock) now() int64   { return c.ms + c.wall.Sub(c.at).Milliseconds() }

// Step handles one message and returns its effects in order. They are valid until the next step.
func (o *Owner) Step(now time.Time, m *Message) []Effect {
	clear(o.effects)
	o.effects = o.effects[:0]
	o.clock.wall = now
	row := &messageKinds[m.Kind]
	if row.handle != nil {
		row.handle(o, m)
	} else if in := o.instances[m.ID]; in != nil && in.phase.busy() {
		req := *in.outstanding
		if in.phase != committing { // the fate of a commit may still be unknown
			o.to(in, req.from)
		}
		row.answer(o, answer{m, in, req})
	} else {
		o.fail(fmt.Errorf("%w: instance %s has nothing outstanding, and gets %q", ErrIllegal, m.ID, m.Kind))
	}
	o.schedule.startDeferred()
	return o.effects
}

// Err returns the error that ends the tenure, or nil.
func (o *Owner) Err() error { return o.err }

// Counts returns the counts since the caller last reset them to zero.
func (o *Owner) Counts() *Counts { return &o.met }

// NextPoll returns the latest time at which WakeupsDue must be sent.
func (o *Owner) NextPoll() time.Time { return o.schedule.pollAt }

// Applied returns the stream sequence up to which inputs are ingested, and whether that includes all inputs accepted before the tenure.
func (o *Owner) Applied() (seq uint64, caughtUp bool) {
	return o.schedule.horizon.applied.Seq, o.schedule.horizon.began != 0
}

// Outstanding returns the number of instances with an outstanding request or turn, and of publishes that are not acknowledged.
func (o *Owner) Outstanding() (instances, publishes int) { return o.busy, o.publishing }

// Unfinished returns an error that describes the work which the next owner has to repair, or nil.
func (o *Owner) Unfinished() error {
	switch {
	case o.outbox.unsent > 0 || len(o.commits.resends.failed) > 0:
		return fmt.Errorf("hand-over: %d messages and tasks of %d instances could not be published", o.outbox.unsent, len(o.commits.resends.failed))
	case len(o.schedule.todo) > 0:
		return fmt.Errorf("hand-over: %d instances of the previous owner have not been reconciled", len(o.schedule.todo))
	default:
		return nil
	}
}

// sorted returns the keys of m in ascending order. Map order must not influence effects: an owner is a deterministic function of its
// messages.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// PhaseOf returns the phase of an instance.
func (o *Owner) PhaseOf(id string) Phase {
	if in := o.instances[id]; in != nil {
		return in.phase
	}
	return Absent
}

// Describe returns the phase of an instance, and its numbers of unread and pending inputs in memory.
func (o *Owner) Describe(id string) string {
	in := o.instances[id]
	if in == nil {
		return "absent"
	}
	stale := ""
	if in.pending.stale {
		stale = ", stale"
	}
	return fmt.Sprintf("%s, %d in memory, %d pending%s", in.phase, len(in.unread), len(in.pending.inputs), stale)
}

// ErrIllegal is the error of a transition that is not legal, and of an answer without an outstanding request.
var ErrIllegal = errors.New("illegal transition")

// nextNumber returns a new number, for effects of which one instance may have several outstanding, and for heads.
func (o *Owner) nextNumber() uint64 {
	o.number++
	return o.number
}

// fail ends the tenure: the in-memory state may no longer match the store.
func (o *Owner) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// storeFailed handles an error of the store: it ends the tenure, or it is temporary, and is counted and logged.
func (o *Owner) storeFailed(what string, err error) {
	if endsTenure(err) {
		o.fail(fmt.Errorf("%s: %w", what, err))
		return
	}
	o.met[CountStoreErrors]++
	reportFailure(o.log, "redis request failed, retrying", err, "operation", what)
}

// scriptAnswered handles the result of a script. conflict: the in-memory state was outdated, or the reply to an earlier try was lost.
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

// endsTenure reports an error of the store that means that another owner has the partition, or that the store has lost writes.
func endsTenure(err error) bool {
	return errors.Is(err, record.ErrFenced) || errors.Is(err, record.ErrRolledBack)
}

// dropFailed drops an instance from memory after a failed read or reconciliation. Its wakeup stays scheduled, at most two seconds from now.
func (o *Owner) dropFailed(in *instance, what string, err error) {
	o.storeFailed(what+" "+in.id, err)
	o.drop(in)
}

// instance returns the instance with this id, and adds an absent one if it is not in memory.
func (o *Owner) instance(id string) *instance {
	in, ok := o.instances[id]
	if !ok {
		in = &instance{id: strings.Clone(id)} // id may be part of a message
		o.instances[in.id] = in
	}
	return in
}

// park releases an idle instance: it is parked if its code is resident, and dropped otherwise. An instance whose published watermark is
// not recorded yet is reconciled first; otherwise every later reconciliation would resend its messages, even after their receivers have
// stopped deduplicating them.
func (o *Owner) park(in *instance) {
	switch {
	case in.limitRequests > 0, in.retryScheduled: // the answer, or the scheduled retry, parks it
	case len(in.overdue) > 0, in.rejection.Kind != 0: // a decision that is only in memory, and waits for inputs
	case in.resident && !in.heavy && !in.status().Ended():
		in.wakeupDue = false
		if last := o.parked.add(in); last != nil {
			o.drop(last)
		}
	case len(in.outbox) > 0: // in flight; the acknowledgement parks it
	case in.rec != nil && in.rec.Published.Before(in.sent):
		in.wakeupDue = true
		o.advance(in)
	default:
		o.drop(in)
	}
}

// drop removes an instance from memory.
func (o *Owner) drop(in *instance) {
	delete(o.instances, in.id)
	o.parked.remove(in)
	o.unload(in)
}

// unload discards the in-memory state of an instance and evicts its code. The next step loads it.
func (o *Owner) unload(in *instance) {
	o.unloadCode(in)
	in.memory, in.pending.inputs = memory{}, nil
	if in.phase != Absent {
		o.to(in, Absent)
	}
}

// unloadCode evicts the code of an idle instance.
func (o *Owner) unloadCode(in *instance) {
	if in.resident {
		o.emit(Effect{Kind: EvictCode, ID: in.id})
	}
	in.resident = false
}

// end evicts all code and discards the in-memory state at the end of the tenure.
func (o *Owner) end() {
	for _, id := range sorted(o.instances) {
		in := o.instances[id]
		if in.phase == turning {
			in.resident = true // at the latest when the turn ends
		}
		o.unloadCode(in)
	}
	clear(o.instances)
	o.notices.resetLimitGauges()
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
		if n := len(o.spare); n > 0 { // only busy instances need one, and most are idle
			in.outstanding, o.spare = o.spare[n-1], o.spare[:n-1]
		} else {
			in.outstanding = &outstanding{}
		}
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

// resume continues an instance after an answer that leaves it in memory: it takes in the pending inputs and makes the next step.
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

// sight is the information that an answer included about an inbox: its length, or one of the constants.
type sight int

const (
	sawHead    sight = -1 // the inputs at its head, which are now in memory
	sawNothing sight = -2
)

// advance makes the next step of an instance unless a request is outstanding.
func (o *Owner) advance(in *instance) {
	if in.phase.busy() || o.leaving || o.err != nil {
		return
	}
	stalled := o.removals.stalls[in.id]
	switch {
	case in.observes && o.schedule.horizon.began == 0: // waits for caughtUp
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

// next makes the next step of a loaded instance. The order of the cases is part of the protocol.
func (o *Owner) next(in *instance) {
	switch {
	case len(in.notices) > 0 && (in.rec == nil || in.status().Ended()) && len(in.unread) == 0: // unread inputs come first: one may be a start
		o.notices.confirmOrphans(in)
	case in.purgeNext() != nil:
		o.removals.purgeRequested(in, in.purgeNext())
	case o.operators.requestNext(in):
		o.operators.requested(in, 0)
	case in.status().Ended():
		o.commits.discard(in)
	case in.previousHasPending():
		o.outbox.flushOutbox(in) // the acknowledgement continues it
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
			o.operators.wait(in) // its activities keep running
		}
	case o.operators.terminatedEarly(in):
	case o.turns.beforeStart(in): // it waits for its start time, or has ended
	case o.turns.runTimedOut(in):
		o.turns.endTimedOut(in)
	case in.rejection.Kind != 0 && o.admission.rejectionDue(in):
		o.admission.rejectStart(in)
	case in.continues() && o.turns.atBoundary(in): // it waits, or has ended
	case o.admission.startNeedsAdmission(in):
		o.admission.admitStart(in)
	case in.hasLocalInputs() || o.schedule.turnable(in):
		o.turns.turn(in)
	case len(in.notices) > 0 && len(in.unread) == 0: // otherwise the notices wait for the unread inputs to be turned
		o.notices.confirmOrphans(in)
	case in.wakeupDue && o.schedule.justHeld(in): // waits for reachHorizon
	case in.wakeupDue:
		o.leases.reconcileLeases(in)
	default:
		o.park(in)
	}
}
