package orchestrator

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/internal/request"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
)

// effect is one thing that a message has the shell do. Effects are collected while a message is handled and carried out behind it, in
// their order. The kind determines which of the fields are set, and which message answers it, if one does.
type effect struct {
	kind     effectKind
	in       *instance
	id       string // of an instance, a gate, a worker or a queue
	turn     *turn
	commit   *store.Commit
	recon    *reconciliation
	call     *gateCall
	out      *outgoing
	rec      *store.Record
	activity *history.ActivityScheduled
	after    time.Duration
	later    *message
	body     any // of the rare kinds: see the comment of each
}

type effectKind uint8

// Of the store. All but the last two belong to the phase of their instance.
const (
	loadInstance   effectKind = iota + 1 // in ──▶ instanceLoaded
	readInbox                            // in, its head ──▶ inboxRead
	searchInbox                          // in, all of it ──▶ inboxRead
	fetchHead                            // in ──▶ headRead
	commitTurn                           // in, turn, commit ──▶ commitAnswered
	reconcileWith                        // in, recon ──▶ reconciled
	removeInstance                       // in, body: *removal ──▶ purgeAnswered
	findWipe                             // in ──▶ wipeFound
	wipeInstance                         // in, body: *wipe ──▶ wiped
	readDue                              // ──▶ dueRead
	readSchedule                         // after: so far ahead ──▶ scheduleRead
	listRefusals                         // body: []store.Refusal
	forgetRefusals                       // id, body: the reply subject of a purge of an unknown instance
	reportLate                           // id, turn: how cancelled activities have ended
	noteCancelled                        // body: []string, marks of cancelled children
)

// Of the turner.
const (
	runTurn   effectKind = iota + noteCancelled + 1 // turn ──▶ turnDone, or turnBlocked
	evictCode                                       // id, body: func() *replay.Execution
)

// Of the gates.
const (
	callGate       effectKind = iota + evictCode + 1 // call ──▶ gateAnswered
	releaseTickets                                   // id, body: []limiter.Orphan ──▶ ticketsReleased
	sweepGate                                        // id, body: *sweepRequest ──▶ gateSwept
	relistGate                                       // id, after ──▶ gateRelisted
	unlistGate                                       // id
	findUnwanted                                     // id, body: limiter.SweepReply ──▶ unwantedFound
	passNotices                                      // body: map[int][]gateNotice, by partition
	wakeGate                                         // id
)

// Of the queues, and of time.
const (
	publishTask    effectKind = iota + wakeGate + 1 // id, rec, activity ──▶ taskPublished
	publishMessage                                  // out ──▶ messagePublished
	sendHints                                       // id: worker, body: []queue.Hint
	answerClients                                   // body: *clientAnswer
	reportAwaited                                   // body: *awaited
	publishOutcome                                  // body: queue.Outcome
	publishChange                                   // body: queue.Change
	readHorizon                                     // after ──▶ horizonAnswered
	readQueueAge                                    // id, body: *queueAge ──▶ queueAgeRead
	readFleet                                       // id, body: []*history.ActivityScheduled ──▶ fleetRead
	postLater                                       // after ──▶ later
)

var effectKinds = [...]string{
	loadInstance: "load", readInbox: "read inbox", searchInbox: "search inbox", fetchHead: "fetch head", commitTurn: "commit", reconcileWith: "reconcile",
	removeInstance: "remove", findWipe: "find wipe", wipeInstance: "wipe", readDue: "read due", readSchedule: "read schedule", listRefusals: "list refusals", forgetRefusals: "forget refusals",
	reportLate: "report late", noteCancelled: "note cancelled", runTurn: "run turn", evictCode: "evict code", callGate: "call gate",
	releaseTickets: "release tickets", sweepGate: "sweep gate", relistGate: "relist gate", unlistGate: "unlist gate", findUnwanted: "find unwanted",
	passNotices: "pass notices", wakeGate: "wake gate", publishTask: "publish task", publishMessage: "publish message", sendHints: "send hints",
	answerClients: "answer clients", reportAwaited: "report awaited", publishOutcome: "publish outcome", publishChange: "publish change", readHorizon: "read horizon", readQueueAge: "read queue age", readFleet: "read fleet", postLater: "post later",
}

func (k effectKind) String() string { return effectKinds[k] }

// String names the kind, and what the effect is about.
func (e *effect) String() string {
	switch {
	case e.kind == commitTurn:
		return fmt.Sprintf("commit %s: %d events, head %q to %q, pop %d", e.in.id, len(e.commit.Events), e.commit.Head, e.commit.NewHead, len(e.commit.Pop))
	case e.kind == reconcileWith:
		return fmt.Sprintf("%s %s (%s)", e.kind, e.in.id, e.in.phase)
	case e.activity != nil:
		return fmt.Sprintf("%s %s event %d %s", e.kind, e.id, e.activity.ID, e.activity.Name)
	case e.in != nil:
		return e.kind.String() + " " + e.in.id
	case e.turn != nil:
		return e.kind.String() + " " + e.turn.in.id
	case e.out != nil:
		return fmt.Sprintf("%s %s to %s", e.kind, e.out.in.Kind, e.out.in.Instance)
	case e.call != nil:
		return e.kind.String() + " " + e.call.call.Limit
	case e.later != nil:
		return fmt.Sprintf("%s %v: %s", e.kind, e.after, e.later)
	case e.id != "":
		return e.kind.String() + " " + e.id
	default:
		return e.kind.String()
	}
}

// emit collects an effect of the message that is being handled.
func (a *actor) emit(e effect) { a.effects = append(a.effects, e) }

// later has a message posted after a pause.
func (a *actor) later(after time.Duration, m message) {
	a.emit(effect{kind: postLater, after: after, later: &m})
}

// reconciliation is one request of an instance that has nothing to turn. The phase of the instance says why it is made.
type reconciliation struct {
	request *store.Reconciliation
	rest    []uint64              // of reconciling: activities whose leases come behind these
	stall   *stall                // of suspending
	notices map[string]gateNotice // of suspending, keepingEarly and releasing: about tickets that the instance does not use
}

// removal is a purge that is under way.
type removal struct {
	purge   *store.Purge
	asked   *history.PurgeRequested // nil: its retention is over
	dropped []unread                // in front of the purge, and the purge
	now     int64                   // the answer
}

// sweepRequest is a visit to a gate.
type sweepRequest struct {
	visit  *visit
	policy *limiter.InForce // nil: the gate has the one in force
}

// clientAnswer is what clients are told who wait for an instance.
type clientAnswer struct {
	to     []string // reply subjects
	answer request.Answer
	// committed marks the crash point behind the commit of an end: it is passed also if no client waits.
	committed bool
}

// awaited is what a description of an instance reports of its code.
type awaited struct {
	names []string
	to    chan []string // has room
}

// queueAge asks for the oldest task of a queue, for activities that may have lost theirs.
type queueAge struct {
	in     *instance
	rec    *store.Record
	queue  string
	unsure []*history.ActivityScheduled
	sent   []int64 // when

	at   time.Time // the answer
	some bool
}

// fleetReport is what the workers have, for activities that no worker may have.
type fleetReport struct {
	waiting []*history.ActivityScheduled
	served  *served
}
