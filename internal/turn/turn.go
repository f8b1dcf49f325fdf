// Package turn decides turns: it gives the code of an instance its inputs in the order in which they happened, and takes what it decides.
package turn

import (
	"errors"
	"slices"

	"github.com/pawlrun/pawl/internal/core"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

const (
	// turnBytes is the size of events at which a turn takes no further input.
	turnBytes = 4 << 20
	// turnObjects is the size of large payloads in its decisions at which it takes no further input.
	turnObjects = 16 << 20
	// commitReserve is what a commit keeps free for what nothing refuses at the call: the input of the last step, cancellations, the end.
	commitReserve = 2 << 20
	// turnTimers is how many timers one turn fires, so that code which sleeps for no time
	// at all, forever, does not keep the others waiting.
	turnTimers = 1000
)

// Code is the code of an instance in memory, and the state that it has come to.
type Code struct {
	Exec *replay.Execution
	fold *history.State
}

// run is a turn that is being decided.
type run struct {
	given *core.Given
	core.Decided
	exec  *replay.Execution
	until int64
}

// Replay makes a resident from a history.
func Replay(g *core.Given, exec *replay.Execution) (Code, error) {
	r := Code{Exec: exec}
	err := exec.Replay(g.Events)
	if err == nil {
		r.fold, err = core.FoldOf(g.Events)
	}
	return r, err
}

// Restore brings the code back from its history, in another execution, as another process would: its history is one that it has come to, so
// the state is as it was.
func (c Code) Restore(events []history.Event, exec *replay.Execution) (Code, error) {
	return Code{Exec: exec, fold: c.fold}, exec.Replay(events)
}

// Settle forgets what the turns so far have released and sent: their owner has it.
func (c Code) Settle() {
	c.fold.TakeReleased()
	c.fold.TrimAcked(c.fold.Len)
}

// Decide gives the code its inputs, and returns what it decides.
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
	return r.done()
}

// done notes how the turn has failed, if it has.
func (r *run) done() *core.Decided {
	_, r.Diverged = errors.AsType[*replay.Divergence](r.Err)
	return &r.Decided
}

// noteStatus notes the custom status if the turn has set it: its code had set it so often before.
func (r *run) noteStatus(before uint64) {
	if r.Begins() {
		before = r.Fold.Started.StatusVersion
	}
	sets := r.exec.StatusVersion() - before
	if sets == 0 && r.exec.StatusVersion() > 0 && r.rewound() { // the one that was set last may be of a step that is undone
		sets = 1
	}
	if sets != 0 {
		p, _ := r.exec.Status()
		r.Status = &core.StatusChange{Payload: p, Sets: sets}
	}
}

// rewound reports whether the turn begins with a rewind.
func (r *run) rewound() bool { return len(r.Events) > 0 && r.Events[0].Kind() == history.KindRewound }

// run applies the inputs in the order in which they happened: a timer that was due
// before an input fires before it, if no input behind that one is older. One that is due and has to wait ends the turn: what is
// unread waits with it. See horizon.go.
func (r *run) run(inputs []core.Unread, poison []history.Event) {
	for _, ev := range poison {
		if r.Fold.Started != nil && !r.settled(ev) && !r.apply(ev) { // before its start it is that of the execution before
			return
		}
	}
	var by []int64
	for i, u := range inputs {
		if u.ForOwner() || u.Restarts(r.Fold.Started) || r.full() || r.Fold.End != nil { // which is no affair of the code's
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

// full reports that the turn takes no further input.
func (r *run) full() bool { return r.Size > turnBytes || replay.StoredBytes(r.exec) > turnObjects }

// waits reports that time has to go on before an input of that bound, and cannot yet.
func (r *run) waits(by int64) bool {
	at, ok := core.NextDue(r.Fold, r.Overdue)
	return ok && r.Fold.End == nil && at > r.until && at <= min(by, r.given.Now)
}

// fire applies what time has decided by then. It reports false if the turn is over with that.
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

// last is up to when time goes on behind all of the inputs: not at all, if there may be others.
func (r *run) last() int64 {
	if r.given.Part {
		return 0
	}
	return r.until
}

// pass applies what time decides next.
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

// stale reports a completion for the work of an execution before this one, a parent's cancellation of
// another start than ours, and a client's cancellation of the instance that had the id before.
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
		f = replay.Expired(up) // whether or not the code can be asked
	} else {
		f = r.exec.Validate(up)
	}
	if f != nil {
		r.Answer(up, r.given.Now, f)
	}
	return f != nil
}

// apply gives one input to the code and takes what it decides.
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
	for _, ev := range made { // the input may be old, when orchestrators have been away
		if timer, ok := ev.(*history.TimerScheduled); ok {
			r.exec.PutOff(timer, r.given.Now)
		}
	}
	return r.Record(made)
}

// observe completes the polls of the code, unless it has left inputs that they must see. What that leads to may be
// further timers that are due, and further polls.
func (r *run) observe(left []core.Unread) {
	if r.given.More || slices.ContainsFunc(left, func(u core.Unread) bool { return !u.ForOwner() }) {
		return
	}
	most := len(r.Events) + turnTimers
	for r.Fold.End == nil && r.exec.Polling() {
		if r.given.Behind {
			r.Early = true
			return
		}
		if !r.apply(&history.Observed{}) || len(r.Events) < most && !r.fire(r.last()) {
			return
		}
	}
}

// continueAsNew prepares the next execution: its start, and behind it the updates that the code has received and
// not answered, and the events and updates that it has not read.
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

func (r *run) put(id string, ev history.Event) {
	b, err := core.Element(id+r.given.Seal, ev)
	if err != nil {
		r.Err = err
		return
	}
	r.Front = append(r.Front, b)
	r.Size += len(b)
}

// settled reports an input of the owner's own that came from a gate, and whose ticket has been answered otherwise since.
func (r *run) settled(ev history.Event) bool {
	switch e := ev.(type) {
	case *history.Granted:
		return !r.Fold.Waiting(e.Scheduled)
	case *history.ActivityFailed:
		return history.IsLimitCode(e.Failure.Code) && !r.Fold.Waiting(e.Scheduled)
	default:
		return false
	}
}

// noteLate keeps a completion that was dropped, because its activity had been cancelled. What the first turn of an
// execution drops is of the one before, where the same number was another activity's.
func (r *run) noteLate(ev history.Event) {
	if r.Begins() {
		return
	}
	var id uint64
	end := message.Report{Ending: message.FinishedFirst}
	switch ev := ev.(type) {
	case *history.ActivityCompleted:
		id, end.Worker, end.At = ev.Scheduled, ev.Worker, ev.At
	case *history.ActivityFailed:
		id, end.Worker, end.At = ev.Scheduled, ev.Worker, ev.At
	default:
		return
	}
	r.Late = append(r.Late, message.Reported{Activity: id, Report: end})
}
