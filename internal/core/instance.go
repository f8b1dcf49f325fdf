package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/internal/text"
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

// sending names an activity whose task has been published.
type sending struct {
	instance string
	activity uint64
}

// Unread is an input at the head of the inbox.
type Unread struct {
	ID string
	Ev history.Event // nil: it does not decode, or is forged; it is taken out and counted

	forged bool // it is not sealed, and no completion
}

// overflown reports the mark that ingest.lua leaves where it had to drop an input.
func (u Unread) overflown() bool { return !u.forged && strings.HasPrefix(u.ID, "full.") }

// Before reports an input that came before the origin of the instance. Events that did are kept for it; a cancellation or a
// purge was meant for the previous incarnation, and has stayed behind the purge of that one.
func (u Unread) Before(origin history.Position) bool {
	s := u.seq()
	return s != 0 && history.Position{Seq: s, Time: u.Ev.Meta().At * int64(time.Millisecond)}.Before(origin)
}

// forgotten reports an input that no start to come can want: it is for an instance that is no more.
func (u Unread) forgotten() bool {
	switch ev := u.Ev.(type) {
	case *history.Started, *history.EventReceived, *history.UpdateReceived:
		return false
	case *history.CancelRequested:
		return ev.Of == "" // a parent's may have overtaken the start that it takes back
	case *history.OperatorRequested:
		return ev.Of == ""
	default:
		return true
	}
}

// Purge reports a request to remove the instance.
func (u Unread) Purge() bool {
	_, ok := u.Ev.(*history.PurgeRequested)
	return ok
}

func (u Unread) start() bool {
	_, ok := u.Ev.(*history.Started)
	return ok
}

// Completes gives the activity that the input is the end of.
func (u Unread) Completes() (id uint64, ok bool) {
	switch ev := u.Ev.(type) {
	case *history.ActivityCompleted:
		return ev.Scheduled, true
	case *history.ActivityFailed:
		return ev.Scheduled, true
	default:
		return 0, false
	}
}

// Fits reports whether a completion is for this very activity, and not for the one of that number in an execution
// before: the id of the element names the effect.
func (u Unread) Fits(e *history.ActivityScheduled) bool {
	return e != nil && strings.HasPrefix(u.ID, "a"+e.Effect+".")
}

// ends reports the completion of an activity.
func (u Unread) ends(e *history.ActivityScheduled) bool {
	id, ok := u.Completes()
	return ok && e != nil && id == e.ID && u.Fits(e)
}

// EncodeEvents returns the encodings of events; nil: one cannot be encoded.
func EncodeEvents(events []history.Event) [][]byte {
	out := make([][]byte, 0, len(events))
	for _, ev := range events {
		b, err := history.Encode(ev)
		if err != nil {
			return nil // a recording cannot be played again then
		}
		out = append(out, b)
	}
	return out
}

// DecodeEvents reads events that follow each other, the first with this id.
func DecodeEvents(first uint64, all [][]byte) ([]history.Event, error) {
	var out []history.Event
	for i, b := range all {
		ev, err := history.Decode(first+uint64(i), b)
		if err != nil {
			return nil, err
		}
		out = append(out, ev)
	}
	return out, nil
}

// MarshalJSON writes the event in its encoding.
func (u Unread) MarshalJSON() ([]byte, error) {
	var events []history.Event
	if u.Ev != nil {
		events = append(events, u.Ev)
	}
	return json.Marshal(map[string]any{"ID": u.ID, "Events": EncodeEvents(events)})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (u *Unread) UnmarshalJSON(b []byte) error {
	var in struct {
		ID     string
		Events [][]byte
	}
	if err := json.Unmarshal(b, &in); err != nil { //nolint:musttag // likewise
		return err
	}
	events, err := DecodeEvents(0, in.Events)
	if u.ID = in.ID; len(events) > 0 {
		u.Ev = events[0]
	}
	return err
}

// parseUnread reads what the store answered. An element of a newer build stalls the
// instance; one that is nonsense is kept by its id, to be taken out of the inbox.
func (a *inboxes) parseUnread(raw [][]byte) ([]Unread, error) {
	out := make([]Unread, 0, len(raw))
	for _, b := range raw {
		u, err := a.parseElement(b)
		if err != nil {
			return out, err
		}
		out = append(out, u)
	}
	return out, nil
}

// maxWhy is how many bytes the reason of a stall has at most: it quotes names and errors that code and publishers have made.
const maxWhy = 1 << 10

// Stall is why an instance does not move. It is kept in the store as JSON, by instance.
type Stall struct {
	Kind  stallKind `json:"kind"`
	Why   string    `json:"why"`
	Since int64     `json:"since"` // Unix ms
	Tries int       `json:"tries"`
	until int64     // not tried again before, Unix ms
}

type stallKind string

const (
	stallUnregistered stallKind = "unregistered"    // no process that answers has the orchestration
	stallDiverged     stallKind = "non-determinism" // the code does not do what the history has
	stallUnreadable   stallKind = "unreadable"      // record, history or inbox do not decode
	stallSealed       stallKind = "sealed"          // a payload is encrypted with a key that this process does not have
	stallObject       stallKind = "object-store"    // an object cannot be read or written; all processes have the same store
	stallBlocked      stallKind = "blocked"         // the code did not come back
	stallEarly        stallKind = "not-started"     // inputs wait for a start
	stallNoWorker     stallKind = "no-worker"       // no worker can take an activity; it is not stored, and its instance is turned as always
)

// The pause before a stalled instance is tried again doubles from the first to the last.
const (
	FirstPause = 2 * time.Second
	lastPause  = time.Minute
	// blockedTries is how often code may block before the instance fails.
	blockedTries = 3
	// earlyKept is how long inputs wait for the start of their instance.
	earlyKept = 24 * time.Hour
)

func (s *Stall) pause() time.Duration {
	return min(FirstPause<<min(s.Tries, 6), lastPause)
}

// Lacks reports whether another owner may have what the instance waits for: code that fits its history, or a key. Of code that this process
// does not have at all the turns are decided elsewhere.
func (s *Stall) Lacks() bool { return s.Kind == stallDiverged || s.Kind == stallSealed }

// Encode returns the form in which the store keeps it.
func (s *Stall) Encode() string {
	cut := *s
	cut.Why = text.Shorten(s.Why, maxWhy)
	b, err := json.Marshal(cut)
	if err != nil {
		return fmt.Sprintf(`{"kind":%q}`, s.Kind)
	}
	return string(b)
}

// ParseStall reads what the store has kept.
func ParseStall(encoded string) *Stall {
	s := &Stall{}
	if json.Unmarshal([]byte(encoded), s) != nil {
		return &Stall{Why: encoded}
	}
	return s
}
