package core

import (
	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/history"
)

// Turns elsewhere: the code of an instance may exist only in other processes (Config.Elsewhere). The owner does everything but the turn:
//
//	start ──finding code──▶ CodeFound: version and limits as declared ──▶ at its limit, like any start
//	RunTurn, without a program ──▶ TurnDone, like any turn
//	        └──▶ TurnDone with Missing: none has the code, or none has answered ──▶ stalled as unregistered, and retried
//
// To the owner such a turn only takes longer. Its whole input is stored, or is found again by the reconciliation, so a lost answer costs
// the time until the turn is decided again. The shell drops an answer without an outstanding request, so that the owner never receives an
// answer twice, or one to an earlier tenure. See package pool for the messages between processes.

// Source identifies the code of a turn.
type Source struct {
	Program replay.Program // nil: this process does not have the code, and Place identifies it
	Name    string         // name of the orchestration
	Place   Place          // for a turn that is decided elsewhere
}

// Place holds the values that another process needs to decide a turn, in addition to Given.
type Place struct {
	Version string // version of the orchestration; empty, for a first turn: the newest
	Head    string // head of the record on which the turn is decided
	Length  uint64 // length of the history before the turn
}

// CodeName identifies the orchestration that FindCode searches for. An empty version means the newest.
type CodeName struct{ Name, Version string }

// FoundCode is the report of a process that has the orchestration of a start.
type FoundCode struct {
	Version  string
	Declared history.Declared
	Missing  string // why no process has reported it; the other fields are empty then
}

// codeFound continues with the start as if the code were in this process.
func (a *admission) codeFound(in *instance, c *FoundCode) {
	if c.Missing != "" {
		a.owner.removals.stall(in, stallUnregistered, c.Missing)
		return
	}
	in.unread[0].Ev.(*history.Started).Version = c.Version //nolint:forcetypeassert // startNeedsAdmission checks it
	a.enterStart(in, c.Declared)
}
