package orchestrator

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/lease"
	"github.com/pawlrun/pawl/pkg/queue"
)

const (
	// turnBytes is the size of events at which a turn takes no further input.
	turnBytes = 4 << 20
	// commitReserve is what a commit keeps free for what nothing refuses at the call: the input of the last step, cancellations, the end.
	commitReserve = 2 << 20
	// turnTimers is how many timers one turn fires, so that code which sleeps for no time
	// at all, forever, does not keep the others waiting.
	turnTimers = 1000
)

// turn is what the turner does for one instance, and what comes of it. While it
// runs the actor touches neither the instance's state nor its exec.
type turn struct {
	in        *instance
	seal      string // of the elements that it makes
	exec      *replay.Execution
	fold      *history.State
	sets      uint64 // of the custom status, before the turn
	from      decision
	successor *history.Started // of an orphan's id
	known
	decided
	admitted
	attempt
	err     error
	early   bool        // its code polls, and the owner has not caught up: it is to be decided again
	left    atomic.Bool // to the goroutine that is stuck in it
	running atomic.Pointer[replay.Execution]
}

// known is what a turn may go by.
type known struct {
	now     int64
	until   int64           // time has passed up to here, and every input that was accepted before is known
	part    bool            // the inbox may have more than memory knows of
	more    bool            // it has inputs behind those of the turn, for sure
	behind  bool            // the owner had not caught up when the turn began
	overdue []history.Event // failures that time has decided
	due     int64           // the latest time that the turn has decided by, behind all of the inbox; 0: none
}

// decided is what a turn leads to.
type decided struct {
	events    []history.Event
	encoded   [][]byte
	size      int               // of what is encoded
	cancelled map[uint64]string // the effects of the activities that the turn cancels: a hint must name them
	pop       []string
	dropped   int
	late      []lease.Reported  // completions of activities that had been cancelled
	replies   []queue.OutInput  // to the parents of starts that found the instance there
	front     [][]byte          // what the next execution begins with
	messages  []*pendingMessage // to other instances
}

// admitted is what a turn has at limits.
type admitted struct {
	calls   int                          // not answered
	tickets []history.Ticket             // that are not wanted any more
	forgone []string                     // those among them whose slots were kept from one attempt to the next
	refused []history.Event              // inputs of the next turn
	stamped []*history.ActivityScheduled // noted with their gates since they were encoded
}

// attempt is the commit of a turn.
type attempt struct {
	execution uint64        // that it belongs to
	after     int64         // number of the last commit that was acknowledged when it was decided
	retry     time.Duration // the next pause, if its fate is unknown
}

// runs notes the code that is about to run, so that it can be given up.
func (t *turn) runs(exec *replay.Execution) {
	t.exec = exec
	t.running.Store(exec)
	if t.left.Load() {
		exec.GiveUp()
	}
}

// giveUp leaves the turn to the goroutine that is stuck in it. Its code leaves at its next word.
func (t *turn) giveUp() {
	t.left.Store(true)
	if exec := t.running.Load(); exec != nil {
		exec.GiveUp()
	}
}

// leftover is the code that a turn leaves in memory, if it can be touched at all.
func (t *turn) leftover() *replay.Execution {
	if t.left.Load() {
		return nil
	}
	return t.exec
}

// turns has what the code of an instance is given, and ends instances without their code.
type turns struct {
	*actor
	observers map[string]bool // instances whose code polls, and whose turn waits until the owner has caught up: see polls.go
}

// turn hands the inputs of an instance to its code.
func (a *turns) turn(in *instance) {
	b, ok := a.turns.binding(in)
	if !ok {
		a.removals.stall(in, stallUnregistered, a.turns.lack(in))
		return
	}
	in.passGate()
	a.to(in, turning)
	if in.state == nil {
		in.state = &history.State{}
	}
	t := &turn{
		in: in, seal: a.seal, exec: in.exec, fold: in.state,
		known: known{now: a.clock.now(), overdue: in.overdue, behind: a.schedule.horizon.began == 0, part: in.partial()},
	}
	t.until = min(t.now, a.schedule.horizon.reached)
	t.from = decision{identity: in.identity(), program: b.Program, events: in.events, inputs: t.takeInputs(in), local: in.localInputs}
	in.events, in.localInputs, in.overdue, in.turning = nil, nil, nil, t
	a.emit(effect{kind: runTurn, turn: t})
}

// binding finds the code of an instance: that of the version which its start has recorded, or, for a start
// that asks for none, the newest one; and has the start record it.
func (a *turns) binding(in *instance) (author.Orchestration, bool) {
	name, version, begins := in.orchestration()
	if !begins || version != "" {
		return a.programs.Recorded(name, version)
	}
	b, ok := a.programs.Requested(name, version)
	if ok {
		in.unread[0].ev.(*history.Started).Version = b.Version //nolint:forcetypeassert // begins
	}
	return b, ok
}

// lack says what code the instance waits for.
func (a *turns) lack(in *instance) string {
	name, version, _ := in.orchestration()
	has := a.programs.Versions(name)
	if len(has) == 0 {
		return fmt.Sprintf("no orchestration %q is registered in the orchestrator that owns the instance; start one that has it", name)
	}
	return fmt.Sprintf("orchestration %q is registered in the orchestrator that owns the instance, but not version %q, only %q; start one that has it",
		name, version, has)
}

// orchestration names the code of the instance; begins says that its execution has not, and then the
// version may be left to us.
func (in *instance) orchestration() (name, version string, begins bool) {
	if in.state != nil && in.state.Len > 0 {
		return in.rec.Name, in.rec.Version, false
	}
	if s, ok := in.unread[0].ev.(*history.Started); ok {
		return s.Name, s.Version, true
	}
	return "", "", false
}

// identity names the execution: of the record, or of the start that is about to be turned.
func (in *instance) identity() history.Identity {
	if in.rec != nil {
		return history.Identity{Instance: in.id, Origin: in.rec.Origin, Execution: in.rec.Execution}
	}
	s, _ := in.unread[0].ev.(*history.Started) // advance looks before it turns
	return history.Identity{Instance: in.id, Origin: s.Origin, Execution: s.Execution}
}

// run applies the inputs in the order in which they happened: a timer that was due
// before an input fires before it, if no input behind that one is older. One that is due and has to wait ends the turn: what is
// unread waits with it. See horizon.go.
func (t *turn) run(inputs []unread, poison []history.Event) {
	for _, ev := range poison {
		if t.fold.Started != nil && !t.settled(ev) && !t.apply(ev) { // before its start it is that of the execution before
			return
		}
	}
	var by []int64
	for i, u := range inputs {
		if u.purge() || t.size > turnBytes || t.fold.End != nil { // a purge is no affair of the code's
			t.until = min(t.until, bounds(inputs, t.part)[i])
			t.observe(inputs[i:])
			return
		}
		if _, set := nextDue(t.fold, t.overdue); set && by == nil {
			by = bounds(inputs, t.part)
		}
		switch {
		case u.ev == nil || t.stale(u):
			t.dropped++
		case by != nil && (!t.fire(by[i]) || t.waits(by[i])), !t.apply(u.ev):
			return
		}
		t.pop = append(t.pop, u.id)
	}
	n := len(t.events)
	if t.fire(t.last()) {
		t.observe(nil)
	}
	for _, ev := range t.events[n:] {
		if k := ev.Kind(); k == history.KindTimerFired || k == history.KindActivityFailed {
			t.due = max(t.due, ev.Meta().At)
		}
	}
}

// waits reports that time has to go on before an input of that bound, and cannot yet.
func (t *turn) waits(by int64) bool {
	at, ok := nextDue(t.fold, t.overdue)
	return ok && t.fold.End == nil && at > t.until && at <= min(by, t.now)
}

// fire applies what time has decided by then. It reports false if the turn is over with that.
func (t *turn) fire(by int64) bool {
	for n := 0; ; n++ {
		at, ok := nextDue(t.fold, t.overdue)
		if !ok || t.fold.End != nil || at > min(by, t.until) {
			return true
		}
		if n == turnTimers || t.size > turnBytes || !t.pass() {
			return false
		}
	}
}

// last is up to when time goes on behind all of the inputs: not at all, if there may be others.
func (t *turn) last() int64 {
	if t.part {
		return 0
	}
	return t.until
}

// pass applies what time decides next.
func (t *turn) pass() bool {
	next, ok := t.fold.NextTimer()
	if len(t.overdue) > 0 && (!ok || t.overdue[0].Meta().At < next.FireAt) {
		ev := t.overdue[0]
		t.overdue = t.overdue[1:]
		return t.settled(ev) || t.apply(ev)
	}
	ev := &history.TimerFired{Timer: next.ID}
	ev.At = next.FireAt
	return t.apply(ev)
}

// stale reports a completion for the work of an execution before this one, a parent's cancellation of
// another start than ours, and a client's cancellation of the instance that had the id before.
func (t *turn) stale(u unread) bool {
	if c, ok := u.ev.(*history.CancelRequested); ok {
		s := t.fold.Started
		if c.Of == "" {
			return s != nil && u.before(s.Origin)
		}
		return s == nil || s.Parent == nil || s.Parent.Effect != c.Of
	}
	id, ok := u.completes()
	return ok && t.fold.Activity(id) != nil && !u.fits(t.fold.Activity(id))
}

// apply gives one input to the code and takes what it decides.
func (t *turn) apply(ev history.Event) bool {
	if t.fold.End != nil {
		t.dropped++
		return true
	}
	if s, ok := ev.(*history.Started); ok && t.fold.Started != nil {
		switch classifyStart(t.fold.Started.Parent, s) {
		case ownStart:
		case orphanStart:
			ev = cancelOrphan(s)
		case idConflict:
			t.replies = append(t.replies, idConflictReply(t.in.id, s.Parent))
		}
	}
	t.exec.SetRoom(store.CommitBytes - commitReserve - t.size)
	outcome, err := t.exec.Apply(ev)
	if err != nil {
		t.err = err
		return false
	}
	if outcome.Dropped() {
		t.dropped++
		t.noteLate(ev)
		return true
	}
	made := t.exec.Take()
	t.beginAttempts(made)
	return t.record(made)
}

// beginAttempts gives the attempts that a step has decided all of their time: its input may be old, when orchestrators have been away.
func (t *turn) beginAttempts(made []history.Event) {
	for _, ev := range made {
		if e, ok := ev.(*history.TimerScheduled); ok && e.AttemptTimeoutOf != 0 && e.At < t.now {
			e.FireAt += min(t.now-e.At, math.MaxInt64-e.FireAt)
			t.exec.PutOff(e.ID, e.FireAt)
		}
	}
}

func (t *turn) record(events []history.Event) bool {
	for _, e := range events {
		t.noteCancelled(e)
		if err := t.fold.Apply(e); err != nil {
			t.err = fmt.Errorf("the turn breaks its history: %w", err)
			return false
		}
		b, err := history.Encode(e)
		if err != nil {
			t.err = err
			return false
		}
		t.events = append(t.events, e)
		t.encoded = append(t.encoded, b)
		t.size += len(b)
	}
	return true
}

// noteCancelled keeps the effect of an activity that is about to be forgotten.
func (t *turn) noteCancelled(e history.Event) {
	c, ok := e.(*history.ActivityCancelRequested)
	if !ok {
		return
	}
	if s := t.fold.Activity(c.Scheduled); s != nil {
		if t.cancelled == nil {
			t.cancelled = make(map[uint64]string)
		}
		t.cancelled[c.Scheduled] = s.Effect
	}
}

// turned takes a turn back from the turner.
func (a *turns) turned(t *turn) {
	in := t.in
	in.exec, in.turning, t.from = t.exec, nil, decision{}
	a.met.turns.Inc()
	a.met.dropped.Add(float64(t.dropped))
	var diverged *replay.Divergence
	switch {
	case errors.As(t.err, &diverged):
		a.to(in, idle)
		a.met.diverged.Inc()
		a.turns.divergedFrom(in, t.err.Error())
	case t.err != nil:
		a.to(in, idle)
		a.removals.stall(in, stallUnreadable, t.err.Error())
	case t.size > store.CommitBytes:
		a.to(in, idle)
		a.turns.tooLarge(in, t)
	case t.early:
		a.to(in, idle)
		a.turns.waitToObserve(in)
	case len(t.events) == 0 && len(t.pop) == 0:
		a.to(in, idle) // a timer fired that had been cancelled meanwhile: nothing to write
		in.overdue = t.overdue
		a.leases.reconcileLeases(in)
	default:
		a.admission.enter(in, t)
	}
}

// divergedFrom keeps an instance until code comes that fits its history, or fails it, as configured.
func (a *turns) divergedFrom(in *instance, why string) {
	if !a.cfg.FailDiverged {
		a.removals.stall(in, stallDiverged, why)
		return
	}
	a.turns.failAfterLoad(in, &history.Failure{Code: history.CodeDiverged, Permanent: true, Message: fmt.Sprintf("instance %s: %s", in.id, why)})
}

// tooLarge fails an instance whose turn does not fit into a commit. Its state holds the
// turn, which is not in the store; so it is loaded again first.
func (a *turns) tooLarge(in *instance, t *turn) {
	message := fmt.Sprintf("instance %s: one turn decided %d bytes of events, the limit is %d; schedule less at once", in.id, t.size, store.CommitBytes)
	if n := len(t.front); n > 0 {
		message = fmt.Sprintf("instance %s: to continue as new takes %d bytes, with %d events that it has received and not read, and the limit is %d; read the events first",
			in.id, t.size, n-1, store.CommitBytes)
	}
	a.turns.failAfterLoad(in, &history.Failure{Code: history.CodeTooLarge, Message: message})
}

// takenBack cancels what an instance that is ended by name has outstanding.
func takenBack(s *history.State, why *cancel.Cancelled) []history.Event {
	var out []history.Event
	short := text.Shorten(why.Text, replay.MaxReason)
	for _, id := range s.Outstanding() {
		out = append(out, &history.ActivityCancelRequested{Scheduled: id, Reason: why.Reason, By: why.By, Text: short})
	}
	for _, id := range s.Children() {
		if !s.Child(id).Abandon {
			out = append(out, &history.ChildCancelRequested{Scheduled: id, Reason: why.Reason, By: why.By, Text: short})
		}
	}
	return out
}

// blocked gives up a turn whose code does not come back.
func (a *turns) blocked(in *instance) {
	a.to(in, idle)
	in.exec = nil // it belongs to the goroutine that was left behind
	s := a.removals.stalls[in.id]
	if s == nil || s.Kind != stallBlocked || s.Tries+1 < blockedTries {
		a.removals.stall(in, stallBlocked, "the orchestration's code did not come back; it may wait for something outside, such as a channel, a lock or the network")
		return
	}
	a.turns.failAfterLoad(in, &history.Failure{
		Code:    history.CodeBlocked,
		Message: fmt.Sprintf("instance %s: the orchestration's code blocked %d times; orchestration code may wait only for futures", in.id, blockedTries),
	})
}

// failAfterLoad ends an instance without asking its code.
func (a *turns) failAfterLoad(in *instance, f *history.Failure) {
	a.unload(in)
	a.inbox.load(in, operation{goal: toFail, failure: f})
}

// failByName ends an instance without asking its code: its outstanding activities and children are cancelled, and
// its inbox is read no further.
func (a *turns) failByName(in *instance, f *history.Failure) {
	a.log.Error("the instance fails", "instance", in.id, "error", f.Message)
	a.turns.endByName(in, &cancel.Cancelled{Reason: cancel.OrchestrationFailed}, &history.Failed{Failure: *f}, 0)
}

// endByName ends an instance with the event given; what is outstanding is cancelled for the reason given, and the
// first so many inputs are dropped.
func (a *turns) endByName(in *instance, why *cancel.Cancelled, end history.Event, drop int) {
	if in.state == nil {
		in.state = &history.State{}
	}
	t := &turn{in: in, fold: in.state, known: known{now: a.clock.now(), due: in.rejectedAt}}
	if in.state.Len == 0 && len(in.unread) > 0 && in.unread[0].start() {
		in.unread[0].ev.Meta().ID = 1
		t.record([]history.Event{in.unread[0].ev})
		drop = max(drop, 1)
	}
	for _, u := range in.unread[:drop] {
		t.pop = append(t.pop, u.id)
	}
	at := max(in.state.Now, t.now)
	for _, ev := range takenBack(in.state, why) {
		*ev.Meta() = history.Head{ID: in.state.Len + 1, At: at}
		t.record([]history.Event{ev})
	}
	*end.Meta() = history.Head{ID: in.state.Len + 1, At: at}
	if !t.record([]history.Event{end}) {
		a.removals.stall(in, stallUnreadable, t.err.Error())
		return
	}
	a.commits.commit(in, t)
}
