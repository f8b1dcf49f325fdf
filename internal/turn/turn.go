// Package turn decides turns: it applies the inputs of an instance to its code, in the order in which they happened, and collects the
// decisions of the code.
package turn

import (
	"errors"
	"slices"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	// turnBytes is the size of a turn's events after which it takes no further input.
	turnBytes = 4 << 20
	// turnObjects is the size of large payloads in a turn's decisions after which it takes no further input.
	turnObjects = 16 << 20
	// commitReserve is the part of a commit that is reserved for events that no call can refuse: the input of the last step, cancellations,
	// the end.
	commitReserve = 2 << 20
	// turnTimers is the maximum number of timers that one turn fires, so that code which repeatedly sleeps for zero time
	// does not delay other instances.
	turnTimers = 1000
)

// Code is the resident code of an instance, with the state that it has reached.
type Code struct {
	Exec *replay.Execution
	fold *fold.State
}

// run is a turn in progress.
type run struct {
	given *core.Given
	core.Decided
	exec  *replay.Execution
	until int64 // time may decide up to here, Unix ms
}

// Replay makes code resident by replaying the history of the turn's input.
func Replay(g *core.Given, exec *replay.Execution) (Code, error) {
	r := Code{Exec: exec}
	err := exec.Replay(g.Events)
	if err == nil {
		r.fold, err = core.FoldOf(g.Events)
	}
	return r, err
}

// Restore replays the history of the code in another execution, as another process would. The state stays the same, because the code has
// reached the end of that history.
func (c Code) Restore(events []history.Event, exec *replay.Execution) (Code, error) {
	return Code{Exec: exec, fold: c.fold}, exec.Replay(events)
}

// Settle drops the released tickets and sent messages of the turns so far from the state: the owner has handled them.
func (c Code) Settle() {
	c.fold.TakeReleased()
	c.fold.TrimAcked(c.fold.Len)
}

// Decide applies the inputs to the code, and returns its decisions.
func Decide(g *core.Given, code Code) *core.Decided {
	r := &run{given: g, exec: code.Exec, until: g.Until}
	r.Fold, r.Overdue = code.fold, g.Overdue
	sets := r.exec.StatusVersion()
	r.run(g.Inputs, g.Local)
	r.continueAsNew()
	r.noteStatus(sets)
	r.Attributes, r.Firings = r.exec.Attributes(), replay.TakeFirings(r.exec)
	r.Heavy = replay.Heavy(r.exec)
	if r.Fold.End != nil {
		for _, ev := range r.exec.Unread() {
			r.Unread = append(r.Unread, ev.Name)
		}
	}
	_, r.Diverged = errors.AsType[*replay.Divergence](r.Err)
	return &r.Decided
}

// noteStatus returns the custom status in the result if the turn has set it. before is how often the code had set it before the turn.
func (r *run) noteStatus(before uint64) {
	if r.Begins() {
		before = r.Fold.Started.StatusVersion
	}
	sets := r.exec.StatusVersion() - before
	if sets == 0 && r.exec.StatusVersion() > 0 && r.rewound() { // the recorded status may be from a step that the rewind has undone
		sets = 1
	}
	if sets != 0 {
		p, _ := r.exec.Status()
		r.Status = &core.StatusChange{Payload: p, Sets: sets}
	}
}

// rewound reports whether the turn begins with a rewind.
func (r *run) rewound() bool { return len(r.Events) > 0 && r.Events[0].Kind() == history.KindRewound }

// run applies the inputs in the order in which they happened. A timer that was due before an input fires before it, unless a later
// input is older. A due timer that must wait for the horizon ends the turn: the unread inputs wait with it. See core/horizon.go.
func (r *run) run(inputs []core.Unread, local []history.Event) {
	for _, ev := range local {
		if r.Fold.Started != nil && !r.settled(ev) && !r.apply(ev) { // before the start, local inputs belong to the previous execution
			return
		}
	}
	var by []int64
	for i, u := range inputs {
		if u.ForOwner() || u.Restarts(r.Fold.Started) || r.full() || r.Fold.End != nil { // for the owner, or for the next turn
			r.until = min(r.until, core.Bounds(inputs, r.given.Part)[i])
			r.observe(inputs[i:])
			return
		}
		_, rewound := u.Ev.(*history.Rewound)
		if _, set := core.NextDue(r.Fold, r.Overdue); set && by == nil && !rewound {
			by = core.Bounds(inputs, r.given.Part)
		}
		switch {
		case u.Ev == nil || r.stale(u):
			r.Dropped++
		case r.answered(u):
		case by != nil && (!r.fire(by[i]) || r.waits(by[i])), !r.apply(u.Ev):
			return
		}
		r.Pop = append(r.Pop, u.ID)
	}
	n := len(r.Events)
	if r.fire(r.last()) {
		r.observe(nil)
	}
	for _, ev := range r.Events[n:] {
		if k := ev.Kind(); k == history.KindTimerFired || k == history.KindActivityFailed {
			r.Due = max(r.Due, ev.Meta().At)
		}
	}
}

// full reports that the turn must not take another input.
func (r *run) full() bool { return r.Size > turnBytes || replay.StoredBytes(r.exec) > turnObjects }

// waits reports that a timer or failure is due before an input with this bound, but must wait for the horizon.
func (r *run) waits(by int64) bool {
	at, ok := core.NextDue(r.Fold, r.Overdue)
	return ok && r.Fold.End == nil && at > r.until && at <= min(by, r.given.Now)
}

// fire applies the timers and failures that are due by then. It returns false if the turn must end.
func (r *run) fire(by int64) bool {
	for n := 0; ; n++ {
		at, ok := core.NextDue(r.Fold, r.Overdue)
		if !ok || r.Fold.End != nil || at > min(by, r.until) {
			return true
		}
		if n == turnTimers || r.full() || !r.pass() {
			return false
		}
	}
}

// last returns the time up to which timers fire after all inputs: zero if the inbox may contain others.
func (r *run) last() int64 {
	if r.given.Part {
		return 0
	}
	return r.until
}

// pass applies the next timer or overdue failure.
func (r *run) pass() bool {
	next, ok := r.Fold.NextTimer()
	if len(r.Overdue) > 0 && (!ok || r.Overdue[0].Meta().At < next.FireAt) {
		ev := r.Overdue[0]
		r.Overdue = r.Overdue[1:]
		return r.settled(ev) || r.apply(ev)
	}
	ev := &history.TimerFired{Timer: next.ID}
	ev.At = next.FireAt
	return r.apply(ev)
}

// stale reports the completion of an activity of an earlier execution, a parent's cancellation that is meant for another
// start, and a client's cancellation that is meant for a previous incarnation.
func (r *run) stale(u core.Unread) bool {
	if c, ok := u.Ev.(*history.CancelRequested); ok {
		s := r.Fold.Started
		if c.Of == "" {
			return s != nil && u.Before(s.Origin)
		}
		return s == nil || s.Parent == nil || s.Parent.Effect != c.Of
	}
	id, ok := u.Completes()
	return ok && r.Fold.Activity(id) != nil && !u.Fits(r.Fold.Activity(id))
}

// answered answers an update that is not recorded: its deadline has passed, or the code rejects it.
func (r *run) answered(u core.Unread) bool {
	up, ok := u.Ev.(*history.UpdateReceived)
	if !ok {
		return false
	}
	var f *history.Failure
	if up.Deadline != 0 && up.Deadline < r.given.Now {
		f = replay.Expired(up)
	} else {
		f = r.exec.Validate(up)
	}
	if f != nil {
		r.Answer(up, r.given.Now, f)
	}
	return f != nil
}

// apply applies one input to the code and records its decisions. It returns false if the turn must end with an error.
func (r *run) apply(ev history.Event) bool {
	if r.Fold.End != nil {
		r.Dropped++
		return true
	}
	if s, ok := ev.(*history.Started); ok && r.Fold.Started != nil {
		switch core.ClassifyStart(r.Fold.Started.Parent, s) {
		case core.OwnStart:
		case core.OrphanStart:
			ev = core.CancelOrphan(s)
		case core.IDConflict:
			r.Replies = append(r.Replies, core.IDConflictReply(r.given.Identity.Instance, s.Parent))
		}
	}
	r.exec.SetRoom(record.CommitBytes - commitReserve - r.Size)
	outcome, err := r.exec.Apply(ev)
	if err != nil {
		r.Err = err
		return false
	}
	if outcome.Dropped() {
		r.Dropped++
		r.noteLate(ev)
		return true
	}
	made := r.exec.Take()
	for _, ev := range made { // the input may be old, if no orchestrator was running
		if timer, ok := ev.(*history.TimerScheduled); ok {
			r.exec.ExtendTimer(timer, r.given.Now)
		}
	}
	return r.Record(made)
}

// observe completes the polls of the code, unless the turn leaves inputs in the inbox that the polls must see. The code may then set timers
// that are already due, and poll again.
func (r *run) observe(left []core.Unread) {
	if r.given.More || slices.ContainsFunc(left, func(u core.Unread) bool { return !u.ForOwner() }) {
		return
	}
	maxEvents := len(r.Events) + turnTimers
	for r.Fold.End == nil && r.exec.Polling() {
		if r.given.CatchingUp {
			r.Early = true
			return
		}
		if !r.apply(&history.Observed{}) || len(r.Events) < maxEvents && !r.fire(r.last()) {
			return
		}
	}
}

// continueAsNew prepares the next execution: its start, followed by the updates that the code has not answered and the
// events and updates that it has not read.
func (r *run) continueAsNew() {
	next := r.exec.Successor()
	if next == nil {
		return
	}
	next.Deadline = r.Fold.Deadline()
	r.put(core.StartID(next.Execution), next)
	for i, ev := range r.exec.Carried() {
		r.put(core.CarriedID(next.Execution, i+1), ev)
	}
}

// put adds an input to the front of the next execution's inbox.
func (r *run) put(id string, ev history.Event) {
	b, err := core.Element(id+r.given.Seal, ev)
	if err != nil {
		r.Err = err
		return
	}
	r.Front = append(r.Front, b)
	r.Size += len(b)
}

// settled reports a local input from a limit whose ticket has received another verdict since.
func (r *run) settled(ev history.Event) bool {
	switch e := ev.(type) {
	case *history.Granted:
		return !r.Fold.Waiting(e.Scheduled)
	case *history.ActivityFailed:
		return limit.IsCode(e.Failure.Code) && !r.Fold.Waiting(e.Scheduled)
	default:
		return false
	}
}

// noteLate reports a completion that was dropped because its activity had been cancelled. Completions that the first turn of an
// execution drops belong to the previous one, in which the same event id was another activity.
func (r *run) noteLate(ev history.Event) {
	if r.Begins() {
		return
	}
	var late message.Late
	switch ev := ev.(type) {
	case *history.ActivityCompleted:
		late = message.Late{Activity: ev.Scheduled, Worker: ev.Worker, At: ev.At}
	case *history.ActivityFailed:
		late = message.Late{Activity: ev.Scheduled, Worker: ev.Worker, At: ev.At}
	default:
		return
	}
	r.Late = append(r.Late, late)
}
