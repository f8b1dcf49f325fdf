package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/author"
	"github.com/pawlrun/pawl/internal/effectid"
	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// turn is one turn of an instance, from its beginning until the fate of its commit is known. Until then the state of the instance
// stays equal to the stored state.
type turn struct {
	in        *instance
	now       int64            // Unix ms
	successor *history.Started // the start that takes over the id of an ended instance
	noted     bool             // the owner records a request or a status; the code has not run
	note      record.Status    // the status that it records; empty: unchanged
	imported  bool             // the history is that of an exported instance: see import.go
	Decided
	admitted
	attempt
}

// admitted holds the tickets and messages of a turn.
type admitted struct {
	calls    int                          // calls of limits that are not answered
	messages []*pendingMessage            // to other instances
	tickets  []fold.Ticket                // tickets to release
	released []string                     // released tickets whose slots were retained from one attempt to the next
	refused  []history.Event              // failures of rejected activities: inputs of the next turn
	stamped  []*history.ActivityScheduled // schedules whose limit has changed since they were encoded
}

// attempt is the commit of a turn.
type attempt struct {
	execution uint64        // execution that it belongs to
	after     int64         // number of the last acknowledged commit when the turn was decided
	retry     time.Duration // delay before the next repeat, while its fate is unknown
}

// turns hands inputs to the code of instances, and ends instances without their code.
type turns struct {
	owner *Owner
}

// turn hands the inputs of an instance to its code. If the code was evicted for a request that was then refused, the instance is loaded
// again: the code must replay the whole history.
func (t *turns) turn(in *instance) {
	if in.lacksCode() {
		t.owner.unload(in)
		t.owner.advance(in)
		return
	}
	b, ok := t.binding(in)
	if !ok && !t.owner.cfg.Elsewhere {
		t.owner.removals.stall(in, stallUnregistered, t.lack(in))
		return
	}
	in.passLimit()
	g := &Given{
		Identity: in.identity(), Source: Source{Program: b.Program, Name: b.Name}, Seal: t.owner.seal, Resident: in.resident, Events: in.events, Local: in.localInputs, Overdue: in.overdue,
		Now: t.owner.clock.now(), CatchingUp: t.owner.schedule.horizon.began == 0, Part: in.partial(),
	}
	if !ok {
		g.Name, g.Place.Version, _ = in.orchestration()
		if g.Place.Head = in.head(); in.state != nil {
			g.Place.Length = in.state.Len
		}
	}
	g.Until = min(g.Now, t.owner.schedule.horizon.reached)
	g.takeInputs(in)
	if s, ok := in.unread0().(*history.Started); ok && in.rec == nil {
		g.Parent = s.Parent
	}
	in.events, in.localInputs, in.overdue = nil, nil, nil
	t.owner.request(in, turning, outstanding{turn: &turn{in: in, now: g.Now}}, Effect{Kind: RunTurn, Given: g})
}

// binding returns the code of an instance: the version that its start has recorded, or, for a start
// without a version, the newest one, which the start then records.
func (t *turns) binding(in *instance) (author.Orchestration, bool) {
	name, version, begins := in.orchestration()
	if !begins || version != "" {
		return t.owner.cfg.Programs.Recorded(name, version)
	}
	b, ok := t.owner.cfg.Programs.Requested(name, version)
	if ok {
		in.unread[0].Ev.(*history.Started).Version = b.Version //nolint:forcetypeassert // begins
	}
	return b, ok
}

// lack describes the code that the instance waits for.
func (t *turns) lack(in *instance) string {
	name, version, _ := in.orchestration()
	has := t.owner.cfg.Programs.Versions(name)
	if len(has) == 0 {
		return fmt.Sprintf("no orchestration %q is registered in the orchestrator that owns the instance; start one that has it", name)
	}
	return fmt.Sprintf("orchestration %q is registered in the orchestrator that owns the instance, but not version %q, only %q; start one that has it",
		name, version, has)
}

// orchestration returns the name and version of the code. begins: the execution has not begun, and an empty version leaves the
// choice to the owner.
func (in *instance) orchestration() (name, version string, begins bool) {
	if in.state != nil && in.state.Len > 0 {
		return in.rec.Name, in.rec.Version, false
	}
	if s, ok := in.unread[0].Ev.(*history.Started); ok {
		return s.Name, s.Version, true
	}
	return "", "", false
}

// identity returns the identity of the execution, from the record or from the start that is about to be turned.
func (in *instance) identity() effectid.Identity {
	if in.rec != nil {
		return effectid.Identity{Instance: in.id, Origin: in.rec.Origin, Execution: in.rec.Execution}
	}
	s, _ := in.unread[0].Ev.(*history.Started) // advance checks it before it turns
	return effectid.Identity{Instance: in.id, Origin: s.Origin, Execution: s.Execution}
}

// turned handles the result of a turn.
func (t *turns) turned(in *instance, turn *turn, d *Decided) {
	turn.Decided = *d
	in.resident, in.heavy = !turn.Forbidden, turn.Heavy
	t.owner.met[CountTurns]++
	t.owner.met[CountDropped] += float64(turn.Dropped)
	switch {
	case turn.Forbidden:
		t.owner.met[CountChildRefused]++
		t.cancelByName(in, cancel.Requested, "", "an ancestor of this instance was cancelled before it began", 0)
	case turn.Missing != "":
		t.owner.removals.stall(in, stallUnregistered, turn.Missing)
	case turn.Diverged && t.owner.cfg.FailDiverged:
		t.owner.met[CountDiverged]++
		t.failByName(in, &history.Failure{Code: history.CodeDiverged, Permanent: true, Message: fmt.Sprintf("instance %s: %v", in.id, turn.Err)})
	case turn.Diverged: // stalled until code that matches its history is available
		t.owner.met[CountDiverged]++
		t.owner.removals.stall(in, stallDiverged, turn.Err.Error())
	case errors.Is(turn.Err, replay.ErrSealed):
		t.owner.removals.stall(in, stallSealed, turn.Err.Error())
	case errors.Is(turn.Err, replay.ErrObject):
		t.owner.removals.stall(in, stallObject, turn.Err.Error())
	case turn.Err != nil:
		t.owner.removals.stall(in, stallUnreadable, turn.Err.Error())
	case turn.Size > record.CommitBytes:
		t.tooLarge(in, turn)
	case turn.Early:
		t.waitToObserve(in)
	case len(turn.Events) == 0 && len(turn.Pop) == 0: // a timer fired that had been cancelled meanwhile: nothing to write
		in.overdue = turn.Overdue
		t.owner.leases.reconcileLeases(in)
	default:
		t.owner.admission.enter(in, turn)
	}
}
