package core

import (
	"time"

	"github.com/pawlrun/pawl/internal/fold"
	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// instance is the in-memory state of one instance.
type instance struct {
	memory
	progress
	parking
	id          string
	phase       Phase
	outstanding *outstanding // request of a busy phase; nil in absent and idle
	pending     pending      // inputs that arrived in a busy phase

	wakeupDue             bool          // must be reconciled
	retryScheduled        bool          // a retryDue message after a failed publish or limit request is scheduled
	limitRequests         int           // RepeatLimitRequest calls that are not answered
	repeatBackoff         time.Duration // between two repeats of the starts of outstanding children
	startsInFlight        int           // starts of children that are published and not acknowledged
	notifiedStatusVersion uint64        // version of the custom status last sent to its watchers
	observes              bool          // its code polls, and its turn waits until the owner has caught up: see polls.go
	pace                  pace
}

// progress is the position of the instance in its inputs.
type progress struct {
	turned uint64 // greatest stream sequence of an input that a turn has consumed
	batch  uint64 // number of the last ingested batch that contained an input for it
}

// pace bounds how often an instance continues as new; see boundary.go.
type pace struct {
	next    time.Time // when the executions so far would have begun at the maximum rate
	waiting bool      // a paceDue message is scheduled
}

// memory is a copy of stored state. It is discarded whenever it may not match the store.
type memory struct {
	rec             *record.Record         // nil: there is no record
	sent            record.Watermark       // this tenure has seen every message up to here acknowledged by the stream
	unread          []Unread               // the head of the inbox, in order
	cut             bool                   // the inbox may hold more inputs than unread
	needsInboxRead  bool                   // the inbox must be read before the next step
	inboxOverflowed bool                   // an input was dropped because the inbox is at its bound
	outbox          []*pendingMessage      // messages to other instances, in order; the first is not known to be acknowledged: see outbox.go
	notices         map[string]LimitNotice // notices of limits that are not applied yet, by ticket
	// The search of a long inbox: see boundary.go and held.go.
	searched   bool                     // the whole inbox has been searched, and no input since may end the instance or its wait
	cancelled  *history.CancelRequested // cancellation found by the search
	rejectedAt int64                    // when the start's time in the limit's queue was over, Unix ms; 0: its rejection was no decision by time
	limitAt    int64                    // when the tickets are requested again, Unix ms; 0: at the next reconciliation
	control    history.Position         // position of the operator request that takes effect
	answerTo   string                   // reply subject of that request
	current
}

// current is the in-memory state of the current execution; the next execution begins with an empty one.
type current struct {
	state           *fold.State         // the stored state
	resident        bool                // the code is in memory and has reached the state; otherwise a turn replays events first
	heavy           bool                // the code is evicted between turns, because of large payloads
	events          []history.Event     // history that is loaded and not replayed yet
	localInputs     []history.Event     // inputs that are in no inbox: verdicts of limits, poisoned activities, children that cannot be started
	overdue         []history.Event     // failures decided by time, ordered after every input accepted before: see horizon.go
	repeatStartsAt  int64               // when the starts of outstanding children are repeated, Unix ms; 0: at the next reconciliation
	lastRepeated    uint64              // last child whose start this round has repeated
	startedChildren map[string]struct{} // effect ids of outstanding children whose starts this tenure has seen acknowledged by the stream
	startAdmitted   bool                // the limit of the start has answered, or there is none
	startLimit      *history.Limit      // limit of the start, with its verdict; nil: there is none
	rejection       limit.Verdict       // verdict with which the limit rejected the instance
}

// pending holds the inputs that arrived while a request or a turn of the instance was outstanding.
type pending struct {
	inputs []Unread // each was the head of an empty inbox when it arrived
	stale  bool     // an input arrived that no read of the inbox sent since is known to include
	seq    uint64   // greatest stream sequence among those inputs; 0: none of them has one
}

func (p *pending) some() bool { return p.stale || len(p.inputs) > 0 }

// outstanding is the request that a busy phase waits for, with the values needed when it is answered. The comments name the phases or
// goals that use a field.
type outstanding struct {
	phase, from Phase // from: the phase to return to when it is answered, idle or absent

	goal    goal                   // loading, searching
	failure *history.Failure       // toFail
	stall   *Stall                 // toStall, toPurge, toRelease, findingWipe, fetchingHead, suspending
	notices map[string]LimitNotice // toRelease, suspending, keepingEarly, releasing: about tickets that the instance does not use
	turn    *turn                  // turning, admitting, committing
	commit  *record.Commit         // committing
	recon   *record.Reconciliation // reconciling, settling, suspending, keepingEarly, releasing
	rest    []uint64               // reconciling: activities whose leases are reconciled by the next requests
	removal *removal               // purging
	wipe    *Wipe                  // wiping
	place   int                    // readingHistory, undoing, rewinding: index of the operator request in the inbox
	rewind  *rewind                // undoing, rewinding
}

// goal is the purpose of loading an instance or searching its inbox.
type goal uint8

const (
	toContinue goal = iota // make the next step
	toFail                 // fail the instance with outstanding.failure
	toStall                // stall the instance with outstanding.stall
	toPurge                // find a forced purge or an urgent request; without one the instance is stalled
	toRelease              // find the tickets that a stalled instance does not use
	toOperate              // find the input that ends a pause or a delay
)

// unread0 returns the event at the head of the inbox; nil: the inbox is empty, or the event does not decode.
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

// lacksCode reports an execution that has begun, and of which neither the code nor the history to replay is in memory.
func (in *instance) lacksCode() bool {
	return !in.resident && len(in.events) == 0 && in.state != nil && in.state.Len > 0
}

// execution returns the number of the current execution: that of the record, or 1 without a record.
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

// noteUnread marks the inbox as stale: it may contain an input that is not in memory, with this stream sequence (0: unknown). In a busy
// phase the mark stays until a request is sent whose answer includes the inbox (a load, a read, a commit).
func (in *instance) noteUnread(seq uint64) {
	if in.phase.busy() {
		in.pending.stale, in.pending.seq = true, max(in.pending.seq, seq)
		return
	}
	in.needsInboxRead = in.phase == idle
}

// missed reports that an input of the stream arrived while the inbox was being read, and is not part of the answer. A poll
// must see it, so the inbox is read once more before a turn. If the answer was truncated, more inputs are expected anyway.
func (in *instance) missed() bool { return !in.cut && in.lacks(in.pending.seq) }

// previousHasPending reports whether an earlier execution has unpublished messages. Until they are published
// the current execution takes no turn: at most one execution has pending messages.
func (in *instance) previousHasPending() bool {
	return len(in.outbox) > 0 && in.outbox[0].mark.Execution < in.execution()
}

// hasLocalInputs reports inputs that are in no inbox. Before the execution has begun they belong to the previous one.
func (in *instance) hasLocalInputs() bool { return len(in.localInputs) > 0 && in.state.Len > 0 }
