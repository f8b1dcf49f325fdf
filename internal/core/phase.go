package core

import (
	"fmt"
	"slices"
)

// Phase is where an instance is in its life in memory. At most one store request, gate request or turn of an instance is outstanding:
// that of its phase. The answer belongs to the phase in which the request was made.
type Phase uint8

// Phases.
const (
	Absent         Phase = iota // memory has nothing of what the store has
	loading                     // all of it; outstanding.goal is the purpose
	idle                        // memory has what the store has
	reading                     // the head of the inbox
	searching                   // the whole inbox; likewise
	turning                     // the turner has it
	admittingStart              // its start is at a limit
	admitting                   // what its turn has scheduled is at limits
	committing                  // until the fate of the commit is known
	reconciling                 // its leases
	settling                    // nothing is due but what is still to be published
	fetchingHead                // of an instance that is to be suspended and is not loaded
	suspending                  // it cannot be turned, and is put off
	keepingEarly                // inputs wait for its start
	releasing                   // tickets that it may not want
	purging                     // all of it is being removed
	readingHistory              // for a rewind
	undoing                     // children whose starts a rewind does not keep
	rewinding                   // its next execution begins with kept events
	findingWipe                 // a forced purge in front of an instance that cannot be read
	wiping                      // which is being removed
	findingCode                 // of a start whose orchestration this process does not have
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

// showsInbox reports that the answer to the request of the phase has the head of the inbox.
func (p Phase) showsInbox() bool { return p == loading || p == reading || p == committing }

// legal reports a transition that there is. Every request ends where it began, in idle or in absent, and the next step of the instance begins
// from there: so an answer cannot begin two.
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
