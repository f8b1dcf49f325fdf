package core

import (
	"fmt"
	"slices"
)

// Phase is the state of an instance in the owner's memory. At most one store request, limit request or turn of an instance is outstanding,
// and the phase identifies it. The answer belongs to the phase in which the request was made.
type Phase uint8

// Phases.
const (
	Absent         Phase = iota // no state is in memory
	loading                     // record, history and inbox are being read; outstanding.goal is the purpose
	idle                        // the in-memory state matches the store
	reading                     // the head of the inbox is being read
	searching                   // the whole inbox is being read; outstanding.goal is the purpose
	turning                     // the turner runs the code
	admittingStart              // the start is at a limit
	admitting                   // activities that the turn scheduled are at limits
	committing                  // the fate of the commit is unknown
	reconciling                 // the leases are being compared and repaired
	settling                    // recording that nothing is due but unpublished messages
	fetchingHead                // reading the head of an instance that is to be suspended without being loaded
	suspending                  // recording that the instance cannot take a turn until its next try
	keepingEarly                // recording that inputs wait for the start of the instance
	releasing                   // confirming that tickets are unused before they are released
	purging                     // all data of the instance is being removed
	readingHistory              // reading history and inbox for a rewind
	undoing                     // cancelling or purging the children whose starts a rewind drops
	rewinding                   // writing the next execution of a rewind, which begins with the kept events
	findingWipe                 // searching the raw inbox of an unreadable instance for a forced purge
	wiping                      // an unreadable instance is being removed
	findingCode                 // requesting from other processes the orchestration of a start
)

var phases = [...]string{
	Absent: "absent", loading: "loading", idle: "idle", reading: "reading", searching: "searching", turning: "turning",
	admittingStart: "admitting start", admitting: "admitting", committing: "committing", reconciling: "reconciling", settling: "settling",
	fetchingHead: "fetching head", suspending: "suspending", keepingEarly: "keeping early inputs", releasing: "releasing tickets",
	purging: "purging", readingHistory: "reading history", undoing: "undoing children", rewinding: "rewinding", findingWipe: "finding wipe", wiping: "wiping",
	findingCode: "finding code",
}

func (p Phase) String() string { return phases[p] }

// busy reports that a request or a turn is outstanding.
func (p Phase) busy() bool { return p != Absent && p != idle }

// showsInbox reports that the answer to the request of the phase includes the head of the inbox.
func (p Phase) showsInbox() bool { return p == loading || p == reading || p == committing }

// legal reports whether a transition exists. Every request ends in the phase it was made from, idle or absent, and the next step of the
// instance starts from there. So an answer cannot start two requests.
func legal(from, to Phase) bool {
	switch {
	case from.busy():
		return !to.busy()
	case from == Absent:
		return slices.Contains([]Phase{idle, loading, fetchingHead, suspending, findingWipe, wiping}, to)
	default:
		return !slices.Contains([]Phase{idle, loading, fetchingHead}, to)
	}
}

// transition moves the instance to a phase.
func (in *instance) transition(to Phase) error {
	if legal(in.phase, to) {
		in.phase = to
		return nil
	}
	return fmt.Errorf("instance %s: illegal transition from %q to %q", in.id, in.phase, to)
}
