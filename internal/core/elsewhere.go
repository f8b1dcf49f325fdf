package core

import (
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Turns elsewhere: the code of an instance may be in other processes only (Config.Elsewhere). The owner keeps everything but the turn:
//
//	start ──finding code──▶ CodeFound: version and limits as declared ──▶ at its gate, as any start
//	RunTurn, without a program ──▶ TurnDone, as of any turn
//	        └──▶ TurnDone with Missing: none has the code, or none has answered ──▶ stalled as unregistered, and tried again
//
// To the owner such a turn is one that takes longer. Everything that was given is in the store, or is found again by the reconciliation, so
// an answer that is lost costs the time until the turn is decided again. The shell drops an answer to a question that it does not have
// open, so that none comes twice, and none to a later tenure. See package pool for the messages between processes.

// Source is the code of a turn.
type Source struct {
	Program replay.Program // nil: this process does not have it, and Place names it
	Name    string         // of the orchestration
	Place   Place          // of a turn that is decided elsewhere
}

// Place names what another process needs to decide a turn, beside what it is given.
type Place struct {
	Version string // of the orchestration; of a first turn empty: the newest
	Head    string // of the record on which the turn is decided
	Length  uint64 // of the history behind which it is
}

// CodeName is what FindCode looks for: the orchestration of a start. An empty version is the newest.
type CodeName struct{ Name, Version string }

// FoundCode is what a process reports that has the orchestration of a start.
type FoundCode struct {
	Version  string
	Declared history.Declared
	Missing  string // why nothing is reported; the rest is empty then
}

// findCode asks for the orchestration of a start.
func (a *admission) findCode(in *instance) {
	name, version, _ := in.orchestration()
	a.owner.request(in, findingCode, outstanding{}, Effect{Kind: FindCode, Body: CodeName{Name: name, Version: version}})
}

// codeFound goes on with the start as if the code were here.
func (a *admission) codeFound(in *instance, c *FoundCode) {
	if c.Missing != "" {
		a.owner.removals.stall(in, stallUnregistered, c.Missing)
		return
	}
	in.unread[0].Ev.(*history.Started).Version = c.Version //nolint:forcetypeassert // startNeedsAdmission has looked
	a.enterStart(in, c.Declared)
}
