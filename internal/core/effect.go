package core

import (
	"fmt"
	"time"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Effect is one action that the shell carries out for the owner. Effects are collected while a message is handled and carried out
// afterwards, in order. The kind determines which fields are set, and which message answers it, if any.
type Effect struct {
	Kind    EffectKind
	ID      string // id of an instance or worker, or name of a limit, action or queue
	phase   Phase  // phase of the instance, for ReconcileWith
	Number  uint64
	Reason  callReason
	Given   *Given
	Commit  *record.Commit
	Decided *Decided // the turn that Commit writes
	Recon   *record.Reconciliation
	Call    *limit.AdmitRequest
	Input   *message.OutInput
	Task    // for PublishTask
	After   time.Duration

	Body any // of rare kinds: the comment of the kind gives the type
}

// Task is the content of an activity's task.
type Task struct {
	Rec      *record.Record
	Activity *history.ActivityScheduled
	Headers  history.Headers // headers of the instance
}

// EffectKind is the kind of an effect. The comments name the fields that are set, and the message that is the answer.
type EffectKind uint8

// Effects on the store. Those before ReadDue belong to the phase of their instance.
const (
	LoadInstance   EffectKind = iota + 1 // id ──▶ InstanceLoaded
	ReadInbox                            // the head of the inbox: id ──▶ InboxRead
	SearchInbox                          // the whole inbox: id ──▶ InboxRead
	FetchHead                            // id ──▶ HeadRead
	CommitTurn                           // id, commit, decided ──▶ CommitAnswered
	ReconcileWith                        // id, recon ──▶ Reconciled
	RemoveInstance                       // id, body: *record.Purge ──▶ PurgeAnswered
	FindWipe                             // id ──▶ WipeFound
	WipeInstance                         // id, body: *Wipe ──▶ Wiped
	ReadHistory                          // id, number: execution ──▶ HistoryRead
	RewindInstance                       // id, body: *record.Rewind ──▶ RewindAnswered
	ReadDue                              // ──▶ DueRead
	ReadSchedule                         // after: how far ahead to read ──▶ ScheduleRead
	ListRefusals                         // body: []record.Refusal
	RemoveRefusals                       // id, body: reply subject of the purge of an unknown instance
	ReportLate                           // id, body: *LateReports
	NoteCancelled                        // body: []string, marks of cancelled children
	ListUnserved                         // id, body: Stall
	UnlistUnserved                       // id
)

// Effects on the code of instances.
const (
	RunTurn   EffectKind = iota + UnlistUnserved + 1 // id, given ──▶ TurnDone or TurnBlocked
	EvictCode                                        // id
	FindCode                                         // id, body: CodeName ──▶ CodeFound
)

// Effects on limits.
const (
	CallLimit       EffectKind = iota + FindCode + 1 // number, why, call ──▶ LimitAnswered
	ReleaseTickets                                   // id, body: []limit.Orphan ──▶ TicketsReleased
	SweepLimit                                       // id, body: *limit.InForce, nil if the limit has the policy in force ──▶ LimitSwept
	RescheduleLimit                                  // id, after ──▶ LimitRescheduled
	UnlistLimit                                      // id
	FindUnwanted                                     // id, body: limit.SweepReply ──▶ UnwantedFound
	PassNotices                                      // body: []LimitNotice
	WakeLimit                                        // id
)

// Effects on task queues, messages and timers.
const (
	PublishTask    EffectKind = iota + WakeLimit + 1 // id, rec, activity, headers ──▶ TaskPublished
	PublishMessage                                   // id: sender, number, input ──▶ MessagePublished
	SendHints                                        // id: worker, body: []message.Hint
	AnswerClients                                    // body: *ClientAnswer
	PublishOutcome                                   // body: message.Outcome
	PublishChange                                    // body: message.Change
	ReadHorizon                                      // after, body: history.Position, up to which all inputs are ingested ──▶ HorizonAnswered
	ReadQueueAge                                     // id: queue, number ──▶ QueueAgeRead
	ReadFleet                                        // number ──▶ FleetRead
	AnswerUpdate                                     // body: *UpdateReply
	ReadUpdate                                       // id, body: UpdateQuestion; the shell replies to its reply subject
	PostResend                                       // after ──▶ ResendDue
	PostLater                                        // after, body: *Message ──▶ that message
)

// Logs and counts.
const (
	WriteLog   EffectKind = iota + PostLater + 1 // body: *LogLine
	CountLimit                                   // id: action, body: LimitCount
)

var effectKinds = [...]string{
	LoadInstance: "load", ReadInbox: "read inbox", SearchInbox: "search inbox", FetchHead: "fetch head", CommitTurn: "commit", ReconcileWith: "reconcile",
	RemoveInstance: "remove", FindWipe: "find wipe", WipeInstance: "wipe", ReadHistory: "read history", RewindInstance: "rewind", ReadDue: "read due", ReadSchedule: "read schedule", ListRefusals: "list refusals", RemoveRefusals: "remove refusals",
	ReportLate: "report late", NoteCancelled: "note cancelled", ListUnserved: "list unserved", UnlistUnserved: "unlist unserved", RunTurn: "run turn", EvictCode: "evict code", FindCode: "find code", CallLimit: "call limit",
	ReleaseTickets: "release tickets", SweepLimit: "sweep limit", RescheduleLimit: "reschedule limit", UnlistLimit: "unlist limit", FindUnwanted: "find unwanted",
	PassNotices: "pass notices", WakeLimit: "wake limit", PublishTask: "publish task", PublishMessage: "publish message", SendHints: "send hints",
	AnswerClients: "answer clients", PublishOutcome: "publish outcome", PublishChange: "publish change", ReadHorizon: "read horizon", ReadQueueAge: "read queue age",
	ReadFleet: "read fleet", AnswerUpdate: "answer update", ReadUpdate: "read update", PostResend: "post resend", PostLater: "post later", WriteLog: "log", CountLimit: "count",
}

func (k EffectKind) String() string { return effectKinds[k] }

// String returns the kind and the subject of the effect.
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

// emit adds an effect of the message that is being handled.
func (o *Owner) emit(e Effect) { o.effects = append(o.effects, e) }

// later posts a message to the owner itself after a delay.
func (o *Owner) later(after time.Duration, m Message) {
	o.emit(Effect{Kind: PostLater, After: after, Body: &m})
}

// ClientAnswer is the answer to clients that wait for an instance.
type ClientAnswer struct {
	To     []string // reply subjects
	Answer message.Answer
	// Committed marks the crash point after the commit of an end: it is set even if no client waits.
	Committed bool
}

// LateReports are the ends of cancelled activities of an execution.
type LateReports struct {
	Execution uint64
	Reports   []message.Late
}

// QueueAge is the age of the oldest task in a queue.
type QueueAge struct {
	At   time.Time // when the task was published
	Some bool      // false: the queue is empty
}
