package core

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Effect is one thing that a message has the shell do. Effects are collected while a message is handled and carried out behind it, in
// their order. The kind determines which of the fields are set, and which message answers it, if one does.
type Effect struct {
	Kind    EffectKind
	ID      string // of an instance, a gate, a worker or a queue
	phase   Phase  // of the instance
	Number  uint64
	Why     callReason
	Given   *Given
	Commit  *record.Commit
	Decided *Decided // that it commits
	Recon   *record.Reconciliation
	Call    *limit.AdmitRequest
	Input   *message.OutInput
	Task    // of publish task
	After   time.Duration

	Body any // of the rare kinds: see the comment of each
}

// Task is what the task of an activity is made of.
type Task struct {
	Rec      *record.Record
	Activity *history.ActivityScheduled
	Headers  history.Headers // of the instance
}

// EffectKind is the kind of an effect.
type EffectKind uint8

// Of the store. All but those from readDue on belong to the phase of their instance.
const (
	LoadInstance   EffectKind = iota + 1 // id ──▶ instanceLoaded
	ReadInbox                            // id, its head ──▶ inboxRead
	SearchInbox                          // id, all of it ──▶ inboxRead
	FetchHead                            // id ──▶ headRead
	CommitTurn                           // id, commit, decided ──▶ commitAnswered
	ReconcileWith                        // id, recon ──▶ reconciled
	RemoveInstance                       // id, body: *record.Purge ──▶ purgeAnswered
	FindWipe                             // id ──▶ wipeFound
	WipeInstance                         // id, body: *wipe ──▶ wiped
	ReadHistory                          // id, number: its execution ──▶ historyRead
	RewindInstance                       // id, body: *record.Rewind ──▶ rewindAnswered
	ReadDue                              // ──▶ dueRead
	ReadSchedule                         // after: so far ahead ──▶ scheduleRead
	ListRefusals                         // body: []record.Refusal
	ForgetRefusals                       // id, body: the reply subject of a purge of an unknown instance
	ReportLate                           // id, body: *lateReports
	NoteCancelled                        // body: []string, marks of cancelled children
	ListUnserved                         // id, body: stall
	UnlistUnserved                       // id
)

// Of the turner.
const (
	RunTurn   EffectKind = iota + UnlistUnserved + 1 // id, given ──▶ turnDone, or turnBlocked
	EvictCode                                        // id
	FindCode                                         // id, body: CodeName ──▶ codeFound
)

// Of the gates.
const (
	CallGate       EffectKind = iota + FindCode + 1 // number, why, call ──▶ gateAnswered
	ReleaseTickets                                  // id, body: []limit.Orphan ──▶ ticketsReleased
	SweepGate                                       // id, body: *limit.InForce, nil: the gate has the one in force ──▶ gateSwept
	RelistGate                                      // id, after ──▶ gateRelisted
	UnlistGate                                      // id
	FindUnwanted                                    // id, body: limit.SweepReply ──▶ unwantedFound
	PassNotices                                     // body: []gateNotice
	WakeGate                                        // id
)

// Of the queues, and of time.
const (
	PublishTask    EffectKind = iota + WakeGate + 1 // id, rec, activity, headers ──▶ taskPublished
	PublishMessage                                  // id: of the sender, number, input ──▶ messagePublished
	SendHints                                       // id: worker, body: []message.Hint
	AnswerClients                                   // body: *clientAnswer
	PublishOutcome                                  // body: message.Outcome
	PublishChange                                   // body: message.Change
	ReadHorizon                                     // after, body: history.Position, up to which all is known ──▶ horizonAnswered
	ReadQueueAge                                    // id: of the queue, number ──▶ queueAgeRead
	ReadFleet                                       // number ──▶ fleetRead
	AnswerUpdate                                    // body: *UpdateReply
	ReadUpdate                                      // id, body: UpdateQuestion: its answer goes to the reply subject
	PostResend                                      // after ──▶ resendDue
	PostLater                                       // after, body: *Message ──▶ that
)

// What is logged and counted.
const (
	WriteLog   EffectKind = iota + PostLater + 1 // body: *logLine
	CountLimit                                   // id: of the action, body: limitCount
)

var effectKinds = [...]string{
	LoadInstance: "load", ReadInbox: "read inbox", SearchInbox: "search inbox", FetchHead: "fetch head", CommitTurn: "commit", ReconcileWith: "reconcile",
	RemoveInstance: "remove", FindWipe: "find wipe", WipeInstance: "wipe", ReadHistory: "read history", RewindInstance: "rewind", ReadDue: "read due", ReadSchedule: "read schedule", ListRefusals: "list refusals", ForgetRefusals: "forget refusals",
	ReportLate: "report late", NoteCancelled: "note cancelled", ListUnserved: "list unserved", UnlistUnserved: "unlist unserved", RunTurn: "run turn", EvictCode: "evict code", FindCode: "find code", CallGate: "call gate",
	ReleaseTickets: "release tickets", SweepGate: "sweep gate", RelistGate: "relist gate", UnlistGate: "unlist gate", FindUnwanted: "find unwanted",
	PassNotices: "pass notices", WakeGate: "wake gate", PublishTask: "publish task", PublishMessage: "publish message", SendHints: "send hints",
	AnswerClients: "answer clients", PublishOutcome: "publish outcome", PublishChange: "publish change", ReadHorizon: "read horizon", ReadQueueAge: "read queue age",
	ReadFleet: "read fleet", AnswerUpdate: "answer update", ReadUpdate: "read update", PostResend: "post resend", PostLater: "post later", WriteLog: "log", CountLimit: "count",
}

func (k EffectKind) String() string { return effectKinds[k] }

// String names the kind, and what the effect is about.
func (e *Effect) String() string {
	switch {
	case e.Kind == CommitTurn:
		return fmt.Sprintf("commit %s: %d events, head %q to %q, pop %d", e.ID, len(e.Commit.Events), e.Commit.Head, e.Commit.NewHead, len(e.Commit.Pop))
	case e.Kind == RewindInstance:
		w := e.Body.(*record.Rewind)
		return fmt.Sprintf("rewind %s: execution %d to event %d, %d in front, %d leases deleted", e.ID, w.Execution, w.Keep, len(w.Prepend), len(w.Delete))
	case e.Kind == ReconcileWith:
		return fmt.Sprintf("%s %s (%s)", e.Kind, e.ID, e.phase)
	case e.Kind == WriteLog:
		return e.Body.(*LogLine).String()
	case e.Activity != nil:
		return fmt.Sprintf("%s %s event %d %s", e.Kind, e.ID, e.Activity.ID, e.Activity.Name)
	case e.Input != nil:
		return fmt.Sprintf("%s %s to %s", e.Kind, e.Input.Kind, e.Input.Instance)
	case e.Call != nil:
		return e.Kind.String() + " " + e.Call.Limit
	case e.Kind == PostLater:
		return fmt.Sprintf("%s %v: %s", e.Kind, e.After, e.Body)
	case e.ID != "":
		return e.Kind.String() + " " + e.ID
	default:
		return e.Kind.String()
	}
}

// emit collects an effect of the message that is being handled.
func (o *Owner) emit(e Effect) { o.effects = append(o.effects, e) }

// later has a message posted after a pause.
func (o *Owner) later(after time.Duration, m Message) {
	o.emit(Effect{Kind: PostLater, After: after, Body: &m})
}

// ClientAnswer is the answer to clients that wait for an instance.
type ClientAnswer struct {
	To     []string // reply subjects
	Answer message.Answer
	// Committed marks the crash point behind the commit of an end: it is passed also if no client waits.
	Committed bool
}

// LateReports are how cancelled activities of an execution have ended.
type LateReports struct {
	Execution uint64
	Reports   []message.Reported
}

// QueueAge is the age of the oldest task of a queue.
type QueueAge struct {
	At   time.Time
	Some bool
}
