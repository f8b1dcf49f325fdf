package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// turn is one turn of an instance, from its beginning until the fate of its commit is known. The state of the instance stays what the
// store has until then.
type turn struct {
	in        *instance
	now       int64
	successor *history.Started // of an orphan's id
	noted     bool             // only what an operator has requested is recorded, and the status:
	note      record.Status    // empty: as it is
	imported  bool             // its history is that of an exported instance: see import.go
	Decided
	admitted
	attempt
}

// Given is what the code of an instance is given for a turn.
type Given struct {
	Identity history.Identity
	Source
	Parent *history.Parent // of an instance that has not begun
	Seal   string          // of the elements that the turn makes

	Resident bool            // its code is in memory
	Events   []history.Event // otherwise: its history
	Inputs   []Unread
	Local    []history.Event // inputs that no inbox has
	Overdue  []history.Event // failures that time has decided

	Now    int64 // Unix ms
	Until  int64 // time has passed up to here, and every input that was accepted before is known
	Part   bool  // the inbox may have more than memory has
	More   bool  // it has inputs behind those of the turn, for sure
	Behind bool  // the owner had not caught up when the turn began
}

// Decided is what a turn leads to.
type Decided struct {
	Made
	Taken
	Late    []message.Reported // completions of activities that had been cancelled
	Replies []message.OutInput // to the parents of starts that found the instance there
	Front   [][]byte           // what the next execution begins with
	Status  *StatusChange      // nil: it has not been set
	Unread  []string           // names of the events that the code has received and not read
	Answers []AnsweredUpdate
	// Attributes is the text of history.Attributes behind the turn; empty: its code has not run, or the instance has had none.
	Attributes string

	Heavy     bool   // its code has large payloads, and does not stay in memory
	Early     bool   // its code polls, and the owner has not caught up: it is to be decided again
	Forbidden bool   // an ancestor was cancelled before it began, and its code has not run
	Diverged  bool   // Err is a divergence
	Missing   string // why no process has decided it: none has the code, or none has answered; nothing else is set
	Err       error
}

// Made is what a turn adds to the history.
type Made struct {
	Fold      *history.State // the state behind it
	Events    []history.Event
	Encoded   [][]byte
	Size      int               // of what is encoded
	Cancelled map[uint64]string // the effects of the activities that the turn cancels: a hint must name them
	// Settled has what the events of the turn end (schedules of activities and children), for the spans of a sampled instance; nil for others.
	Settled map[uint64]history.Event `json:"-"`
	Firings *replay.Firings          `json:"-"` // of a schedule, for its metrics; nil: none
}

// Taken is what a turn has taken of what it was given.
type Taken struct {
	Pop     []string
	Dropped int
	Overdue []history.Event // failures that wait on
	Due     int64           // the latest time that the turn has decided by, behind all of the inbox; 0: none
}

// StatusChange is a custom status that a turn has set, so often.
type StatusChange struct {
	Payload history.Payload
	Sets    uint64
}

// admitted is what a turn has at limits, and sends.
type admitted struct {
	calls    int                          // not answered
	messages []*pendingMessage            // to other instances
	tickets  []history.Ticket             // that are not wanted any more
	forgone  []string                     // those among them whose slots were kept from one attempt to the next
	refused  []history.Event              // inputs of the next turn
	stamped  []*history.ActivityScheduled // noted with their gates since they were encoded
}

// attempt is the commit of a turn.
type attempt struct {
	execution uint64        // that it belongs to
	after     int64         // number of the last commit that was acknowledged when it was decided
	retry     time.Duration // the next pause, if its fate is unknown
}

// turns has what the code of an instance is given, and ends instances without their code.
type turns struct {
	owner *Owner
}

// turn hands the inputs of an instance to its code. One whose code was evicted, and that goes on nevertheless because what had it
// evicted was refused, is loaded again: its code must replay all of its history.
func (a *turns) turn(in *instance) {
	if in.lacksCode() {
		a.owner.unload(in)
		a.owner.advance(in)
		return
	}
	b, ok := a.binding(in)
	if !ok && !a.owner.cfg.Elsewhere {
		a.owner.removals.stall(in, stallUnregistered, a.lack(in))
		return
	}
	in.passGate()
	g := &Given{
		Identity: in.identity(), Source: Source{Program: b.Program, Name: b.Name}, Seal: a.owner.seal, Resident: in.resident, Events: in.events, Local: in.localInputs, Overdue: in.overdue,
		Now: a.owner.clock.now(), Behind: a.owner.schedule.horizon.began == 0, Part: in.partial(),
	}
	if !ok {
		g.Name, g.Place = a.place(in)
	}
	g.Until = min(g.Now, a.owner.schedule.horizon.reached)
	g.takeInputs(in)
	if s, ok := in.unread0().(*history.Started); ok && in.rec == nil {
		g.Parent = s.Parent
	}
	in.events, in.localInputs, in.overdue = nil, nil, nil
	a.owner.request(in, turning, outstanding{turn: &turn{in: in, now: g.Now}}, Effect{Kind: RunTurn, Given: g})
}

// binding finds the code of an instance: that of the version which its start has recorded, or, for a start
// that asks for none, the newest one; and has the start record it.
func (a *turns) binding(in *instance) (author.Orchestration, bool) {
	name, version, begins := in.orchestration()
	if !begins || version != "" {
		return a.owner.cfg.Programs.Recorded(name, version)
	}
	b, ok := a.owner.cfg.Programs.Requested(name, version)
	if ok {
		in.unread[0].Ev.(*history.Started).Version = b.Version //nolint:forcetypeassert // begins
	}
	return b, ok
}

// lack describes the code that the instance waits for.
func (a *turns) lack(in *instance) string {
	name, version, _ := in.orchestration()
	has := a.owner.cfg.Programs.Versions(name)
	if len(has) == 0 {
		return fmt.Sprintf("no orchestration %q is registered in the orchestrator that owns the instance; start one that has it", name)
	}
	return fmt.Sprintf("orchestration %q is registered in the orchestrator that owns the instance, but not version %q, only %q; start one that has it",
		name, version, has)
}

// orchestration names the code of the instance; begins reports that its execution has not begun, and then the
// version may be left to the owner.
func (in *instance) orchestration() (name, version string, begins bool) {
	if in.state != nil && in.state.Len > 0 {
		return in.rec.Name, in.rec.Version, false
	}
	if s, ok := in.unread[0].Ev.(*history.Started); ok {
		return s.Name, s.Version, true
	}
	return "", "", false
}

// identity names the execution: of the record, or of the start that is about to be turned.
func (in *instance) identity() history.Identity {
	if in.rec != nil {
		return history.Identity{Instance: in.id, Origin: in.rec.Origin, Execution: in.rec.Execution}
	}
	s, _ := in.unread[0].Ev.(*history.Started) // advance looks before it turns
	return history.Identity{Instance: in.id, Origin: s.Origin, Execution: s.Execution}
}

// Record adds events to what the turn has decided, and to its state. It reports false if that failed.
func (t *Decided) Record(events []history.Event) bool {
	for _, e := range events {
		if !t.RecordEncoded(e, nil) {
			return false
		}
	}
	return true
}

// RecordEncoded is Record for one event with its encoding; nil: it is encoded here.
func (t *Decided) RecordEncoded(e history.Event, b []byte) bool {
	t.noteCancelled(e)
	t.noteSettled(e)
	t.noteAnswered(e)
	if err := t.Fold.Apply(e); err != nil {
		t.Err = fmt.Errorf("the turn breaks its history: %w", err)
		return false
	}
	if b == nil {
		var err error
		if b, err = history.Encode(e); err != nil {
			t.Err = err
			return false
		}
	}
	t.Events = append(t.Events, e)
	t.Encoded = append(t.Encoded, b)
	t.Size += len(b)
	return true
}

// noteCancelled keeps the effect of an activity that is about to be forgotten.
func (t *Decided) noteCancelled(e history.Event) {
	c, ok := e.(*history.ActivityCancelRequested)
	if !ok {
		return
	}
	if s := t.Fold.Activity(c.Scheduled); s != nil {
		if t.Cancelled == nil {
			t.Cancelled = make(map[uint64]string)
		}
		t.Cancelled[c.Scheduled] = s.Effect
	}
}

// noteSettled keeps the schedule that an event ends, if the instance is sampled.
func (t *Decided) noteSettled(e history.Event) {
	if s := t.Fold.Started; s == nil || s.Headers == "" {
		return
	}
	id, ok := history.Settles(e)
	if !ok {
		return
	}
	if _, _, sampled := t.Fold.Started.Headers.Trace(); !sampled {
		return
	}
	if t.Settled == nil {
		t.Settled = make(map[uint64]history.Event)
	}
	if s := t.Fold.Activity(id); s != nil {
		t.Settled[id] = s
	} else if c := t.Fold.Child(id); c != nil {
		t.Settled[id] = c
	}
}

// turned takes a turn back from the turner.
func (a *turns) turned(in *instance, t *turn, d *Decided) {
	t.Decided = *d
	in.resident, in.heavy = !t.Forbidden, t.Heavy
	a.owner.met[CountTurns]++
	a.owner.met[CountDropped] += float64(t.Dropped)
	switch {
	case t.Forbidden:
		a.refuseBelow(in)
	case t.Missing != "":
		a.owner.removals.stall(in, stallUnregistered, t.Missing)
	case t.Diverged:
		a.owner.met[CountDiverged]++
		a.divergedFrom(in, t.Err.Error())
	case errors.Is(t.Err, replay.ErrSealed):
		a.owner.removals.stall(in, stallSealed, t.Err.Error())
	case errors.Is(t.Err, replay.ErrObject):
		a.owner.removals.stall(in, stallObject, t.Err.Error())
	case t.Err != nil:
		a.owner.removals.stall(in, stallUnreadable, t.Err.Error())
	case t.Size > record.CommitBytes:
		a.tooLarge(in, t)
	case t.Early:
		a.waitToObserve(in)
	case len(t.Events) == 0 && len(t.Pop) == 0: // a timer fired that had been cancelled meanwhile: nothing to write
		in.overdue = t.Overdue
		a.owner.leases.reconcileLeases(in)
	default:
		a.owner.admission.enter(in, t)
	}
}

// divergedFrom keeps an instance until code comes that fits its history, or fails it, as configured.
func (a *turns) divergedFrom(in *instance, why string) {
	if !a.owner.cfg.FailDiverged {
		a.owner.removals.stall(in, stallDiverged, why)
		return
	}
	a.failByName(in, &history.Failure{Code: history.CodeDiverged, Permanent: true, Message: fmt.Sprintf("instance %s: %s", in.id, why)})
}

// tooLarge fails an instance whose turn does not fit into a commit.
func (a *turns) tooLarge(in *instance, t *turn) {
	why := fmt.Sprintf("instance %s: one turn decided %d bytes of events, the limit is %d; schedule less at once", in.id, t.Size, record.CommitBytes)
	if n := len(t.Front); n > 0 {
		why = fmt.Sprintf("instance %s: to continue as new takes %d bytes, with %d events that it has received and not read, and the limit is %d; read the events first",
			in.id, t.Size, n-1, record.CommitBytes)
	}
	a.failByName(in, &history.Failure{Code: history.CodeTooLarge, Message: why})
}

// blocked gives up a turn whose code does not come back. The goroutine that was left behind has the code and the inputs that it was
// given, and may still write them, so the instance is read anew.
func (a *turns) blocked(in *instance) {
	in.resident = false
	a.owner.unload(in)
	s := a.owner.removals.stalls[in.id]
	if s == nil || s.Kind != stallBlocked || s.Tries+1 < blockedTries {
		a.owner.inbox.load(in, outstanding{goal: toStall, stall: &Stall{Kind: stallBlocked,
			Why: "the orchestration's code did not come back; it may wait for something outside, such as a channel, a lock or the network"}})
		return
	}
	a.owner.inbox.load(in, outstanding{goal: toFail, failure: &history.Failure{
		Code:    history.CodeBlocked,
		Message: fmt.Sprintf("instance %s: the orchestration's code blocked %d times; orchestration code may wait only for futures", in.id, blockedTries),
	}})
}

// failByName ends an instance without asking its code: its outstanding activities and children are cancelled, and
// its inbox is read no further.
func (a *turns) failByName(in *instance, f *history.Failure) {
	a.owner.log.Error("instance failed", "instance", in.id, "error", f.Message)
	a.endByName(in, &cancel.Cancelled{Reason: cancel.OrchestrationFailed}, &history.Failed{Failure: *f}, 0, 0)
}

// cancelByName ends an instance as cancelled, without asking its code.
func (a *turns) cancelByName(in *instance, reason cancel.Reason, by, why string, drop int) {
	at := a.owner.clock.now()
	if in.state != nil {
		at = max(at, in.state.Now)
	}
	c, end := cancelled(reason, by, why, at)
	a.endByName(in, c, end, drop, 0)
}

// cancelled is how an instance ends that is cancelled without asking its code.
func cancelled(reason cancel.Reason, by, why string, at int64) (*cancel.Cancelled, *history.Cancelled) {
	c := &cancel.Cancelled{Reason: reason, By: by, Text: why, At: time.UnixMilli(at).UTC()}
	return c, &history.Cancelled{Failure: *author.ToFailure(c), By: by, Text: why}
}

// endByName ends an instance with the event given; what is outstanding is cancelled for the reason given, and the
// first so many inputs are dropped. due is when time has decided that, 0: it has not.
func (a *turns) endByName(in *instance, why *cancel.Cancelled, end history.Event, drop int, due int64) {
	a.owner.unloadCode(in)
	t := a.owner.newTurn(in, in.state.Clone())
	t.Due = due
	if t.Fold.Len == 0 && len(in.unread) > 0 && in.unread[0].start() {
		in.unread[0].Ev.Meta().ID = 1
		t.Record([]history.Event{in.unread[0].Ev})
		drop = max(drop, 1)
	}
	for _, u := range in.unread[:drop] {
		t.Pop = append(t.Pop, u.ID)
		t.leave(u)
	}
	if !t.end(why, end) {
		a.owner.removals.stall(in, stallUnreadable, t.Err.Error())
		return
	}
	a.owner.commits.commit(in, t)
}

// newTurn is a turn that no code decides.
func (a *Owner) newTurn(in *instance, fold *history.State) *turn {
	return &turn{in: in, now: a.clock.now(), Decided: Decided{Made: Made{Fold: fold}}}
}

// end records an end that no code has decided, behind the cancellation of what is outstanding. It reports false if that failed.
func (t *turn) end(why *cancel.Cancelled, end history.Event) bool {
	short := text.Shorten(why.Text, replay.MaxReason)
	for _, id := range t.Fold.Outstanding() {
		t.add(&history.ActivityCancelRequested{Scheduled: id, Reason: why.Reason, By: why.By, Text: short})
	}
	for _, id := range t.Fold.Children() {
		if !t.Fold.Child(id).Abandon {
			t.add(&history.ChildCancelRequested{Scheduled: id, Reason: why.Reason, By: why.By, Text: short})
		}
	}
	switch e := end.(type) {
	case *history.Failed:
		e.Forced = true
	case *history.Cancelled:
		e.Forced = true
	}
	return t.add(end)
}

// add records an event that no code has decided.
func (t *turn) add(ev history.Event) bool {
	*ev.Meta() = history.Head{ID: t.Fold.Len + 1, At: max(t.Fold.Now, t.now)}
	return t.Record([]history.Event{ev})
}

// FoldOf returns the state of the code of an instance that has come to the end of these events.
func FoldOf(events []history.Event) (*history.State, error) {
	s := &history.State{}
	for _, ev := range events {
		if err := s.Apply(ev); err != nil {
			return s, err
		}
	}
	s.TakeReleased() // what the turns before have released and sent is not that of the next one
	s.TrimAcked(s.Len)
	return s, nil
}
