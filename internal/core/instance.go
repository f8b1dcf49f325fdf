package core

import (
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// instance is what the owner has in memory of one instance.
type instance struct {
	memory
	progress
	parking
	id          string
	phase       Phase
	outstanding *outstanding // nil: nothing is
	pending     pending      // what has arrived in a busy phase

	wakeupDue             bool          // it is to be reconciled
	retryScheduled        bool          // a reconciliation after a failed publish is outstanding
	gateRequests          int           // gates that have not answered yet
	repeatPause           time.Duration // between two requests for outstanding children
	startsInFlight        int           // starts of children that were sent, and not answered
	notifiedStatusVersion uint64        // version of the custom status that its watchers have been sent
	observes              bool          // its code polls, and its turn waits until the owner has caught up: see polls.go
	pace                  pace
}

// progress is how far the inputs of the instance have come.
type progress struct {
	turned uint64 // greatest stream sequence of an input that has been turned
	batch  uint64 // the last of the ingested batches that had an input for it
}

// pace bounds how often an instance continues as new; see boundary.go.
type pace struct {
	next    time.Time // when the executions so far would have begun at the highest rate
	waiting bool      // for that
}

// memory is what memory assumes of the store. All of it goes when that may be wrong.
type memory struct {
	rec             *record.Record        // nil: there is no record
	sent            record.Watermark      // of the last message that the stream is known to this tenure to have
	unread          []Unread              // the head of the inbox, in order
	cut             bool                  // there may be more behind that
	needsInboxRead  bool                  // the inbox has to be read
	inboxOverflowed bool                  // the inbox is at its bound
	outbox          []*pendingMessage     // messages to others, in order; the stream is not known to have the first: see outbox.go
	notices         map[string]GateNotice // of gates, not yet acted on, by ticket
	// Of the inbox, before an execution that follows another: see boundary.go.
	searched   bool                     // all of it has been, for what is to end the instance
	cancelled  *history.CancelRequested // found by that
	rejectedAt int64                    // when the gate has turned the start away, Unix ms, if time has decided it
	gateAt     int64                    // when tickets are asked for again, Unix ms; 0: when the instance is reconciled
	control    history.Position         // of the request of an operator that takes effect
	answerTo   string                   // reply subject for it
	current
}

// current is what is known of the current execution. The next one begins without.
type current struct {
	state           *history.State      // what the store has
	resident        bool                // its code is in memory, as far as the state; otherwise it replays events
	heavy           bool                // its code is taken out of memory between turns
	events          []history.Event     // loaded, and not yet replayed
	localInputs     []history.Event     // inputs that no inbox has: what gates say, activities claimed too often, children that cannot be started
	overdue         []history.Event     // failures that time has decided, which come behind what was accepted before: see horizon.go
	repeatStartsAt  int64               // when outstanding children are asked for again, Unix ms; 0: when the instance is reconciled
	lastRepeated    uint64              // the last child that this round has asked for
	startedChildren map[string]struct{} // effects of the outstanding children whose start the stream is known to this tenure to have
	startAdmitted   bool                // the start has been at its gate
	startGate       *history.Limit      // with the gate's verdict on it; nil: there is none
	rejection       limit.Verdict       // with which the gate has rejected the instance
}

// pending is what has arrived for an instance while a request or a turn of it was outstanding.
type pending struct {
	inputs []Unread // each was the head of an empty inbox when it came
	stale  bool     // an input came that no reading of the inbox sent since is known to show
	seq    uint64   // the greatest stream sequence of such inputs, as far as they have one
}

func (p *pending) some() bool { return p.stale || len(p.inputs) > 0 }

// outstanding is the request that the phase of an instance waits for, and what follows from its answer.
type outstanding struct {
	phase, from Phase // from: idle or absent, where the answer brings the instance back to

	goal    goal                   // of loading and searching
	failure *history.Failure       // of toFail
	stall   *Stall                 // of toStall, toPurge, toRelease, findingWipe, fetchingHead and suspending
	notices map[string]GateNotice  // of toRelease and suspending, keepingEarly and releasing: about tickets that the instance does not use
	turn    *turn                  // of turning, admitting and committing
	commit  *record.Commit         // of committing
	recon   *record.Reconciliation // of reconciling, settling, suspending, keepingEarly and releasing
	rest    []uint64               // of reconciling: activities whose leases come behind these
	removal *removal               // of purging
	wipe    *Wipe                  // of wiping
	place   int                    // of readingHistory, undoing and rewinding: of the request, in the inbox
	rewind  *rewind                // of undoing and rewinding
}

// goal is what an instance is loaded, or its inbox searched, for.
type goal uint8

const (
	toContinue goal = iota // with its next step
	toFail                 // by the failure
	toStall                // as the stall
	toPurge                // if a forced purge is anywhere in its inbox; otherwise it is stalled
	toRelease              // tickets that it does not use, for it is stalled
	toOperate              // for what ends its pause
)

// unread0 is the event at the head of the inbox; nil: there is none, or it does not decode.
func (in *instance) unread0() history.Event {
	if len(in.unread) == 0 {
		return nil
	}
	return in.unread[0].Ev
}

func (in *instance) head() string {
	if in.rec == nil {
		return ""
	}
	return in.rec.Head
}

// lacksCode reports an execution that has begun, and of which memory has neither the code nor the history that it replays.
func (in *instance) lacksCode() bool {
	return !in.resident && len(in.events) == 0 && in.state != nil && in.state.Len > 0
}

// execution is the generation that its keys are named by: the first, unless a record has another.
func (in *instance) execution() uint64 {
	if in.rec == nil {
		return 1
	}
	return in.rec.Execution
}

func (in *instance) status() record.Status {
	if in.rec == nil {
		return ""
	}
	return in.rec.Status
}

// noteUnread notes that the inbox may have an input of which memory has neither content nor place, but the stream sequence; 0: not
// that either. While something is under way the note is kept until a reading of the inbox is sent (load, readInbox, a commit): its
// answer shows the input.
func (in *instance) noteUnread(seq uint64) {
	if in.phase.busy() {
		in.pending.stale, in.pending.seq = true, max(in.pending.seq, seq)
		return
	}
	in.needsInboxRead = in.phase == idle
}

// missed reports an input of the stream that came while a reading of the inbox was under way, and that this does not show: it was
// carried out before. A poll must see it, so the inbox is read once more before a turn. Inputs behind the head are expected anyway.
func (in *instance) missed() bool { return !in.cut && in.lacks(in.pending.seq) }

// previousHasPending reports whether an execution before the current one has messages that are not published. Until they are,
// the current one does not turn: at most one execution has messages pending.
func (in *instance) previousHasPending() bool {
	return len(in.outbox) > 0 && in.outbox[0].mark.Execution < in.execution()
}

// hasLocalInputs reports a failure to be turned that no inbox has. Before its execution has begun it is that of the one before.
func (in *instance) hasLocalInputs() bool { return len(in.localInputs) > 0 && in.state.Len > 0 }
