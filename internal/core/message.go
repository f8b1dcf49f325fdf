package core

import (
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/internal/limit"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/record"
	"github.com/pawlrun/pawl/pkg/history"
)

// Message is one thing that has happened to a partition: an arrival, or the answer to an effect.
// The kind determines which of the fields are set. An answer names what it answers by id or number; the rest of that the owner has kept.
type Message struct {
	Kind      MessageKind
	Err       error
	ID        string // of an instance, or a gate
	Event     uint64
	Number    uint64 // of the effect that it answers, if several of an instance may be outstanding
	Decided   *Decided
	Committed record.Committed
	Looked    record.Reconciled
	Admitted  limit.AdmitReply
	Bells     []message.Doorbell
	Body      any // of the rare kinds: see the comment of each
}

// MessageKind is the kind of a message.
type MessageKind uint8

// Arrivals.
const (
	InputsIngested MessageKind = iota + 1 // body: *ingested
	TenureBegan                           // body: *takeover
	TenureFailed                          // err ends the tenure
	HandoverBegan
	TenureEnded
	DoorbellsReceived // bells
	NoticesReceived   // body: []message.LimitNotice, of other processes
	NoticesPassed     // body: []gateNotice, of another owner of this process
	EndAwaited        // by a client: id, body: reply subject
	StatusAwaited     // likewise, the next custom status
	UpdateAwaited     // likewise, the answer to an update: id of UpdateWait
	WakeupsDue        // the schedule is to be read
	TasksLost         // by the TASKS stream; body: time.Time, before which they were published
	PoliciesChanged   // body: *limit.Overrides
	WatchExtended     // body: time.Time, until when changes are watched
	GateDue           // id: of a gate
	RetryRequested    // by an operator: id of a stalled instance, which is tried again now
	CodeJoined        // a member: instances that lack their code are tried again now
)

// Answers.
const (
	DueRead          MessageKind = iota + CodeJoined + 1 // body: record.DueSet
	ScheduleRead                                         // body: []string, instances
	InstanceLoaded                                       // id, body: record.Loaded
	InboxRead                                            // id, body: [][]byte
	HeadRead                                             // id, body: string
	TurnDone                                             // id, decided
	TurnBlocked                                          // id
	GateAnswered                                         // number, admitted
	TicketsReleased                                      // id: of a gate, admitted
	CommitAnswered                                       // id, committed
	commitRetryDue                                       // id
	Reconciled                                           // id, looked
	PurgeAnswered                                        // id, body: int64, the time of the store
	WipeFound                                            // id, body: *wipe, nil if there is none
	Wiped                                                // id, body: int64, the time of the store
	HistoryRead                                          // id, body: record.RewindSource
	RewindAnswered                                       // id, committed
	MessagePublished                                     // number
	TaskPublished                                        // id, event
	retryDue                                             // id
	ResendDue                                            // body: bool, whether NATS is connected
	paceDue                                              // id
	HorizonAnswered                                      // body: message.Accepted
	GateSwept                                            // id, body: limit.SweepReply
	GateRelisted                                         // id, body: time.Duration
	UnwantedFound                                        // id, body: *unwantedMembers
	QueueAgeRead                                         // number, body: queueAge
	FleetRead                                            // number, body: *served
	CodeFound                                            // id, body: *FoundCode
)

var messageKinds = [...]string{
	TenureBegan: "tenure began", HandoverBegan: "hand-over began", TenureEnded: "tenure ended", InputsIngested: "inputs ingested", TenureFailed: "tenure failed", DoorbellsReceived: "doorbells received", NoticesReceived: "notices received",
	NoticesPassed: "notices passed", EndAwaited: "end awaited", StatusAwaited: "status awaited", UpdateAwaited: "update awaited", WakeupsDue: "wake-ups due", TasksLost: "tasks lost",
	PoliciesChanged: "policies changed", WatchExtended: "watch extended", GateDue: "gate due", RetryRequested: "retry requested",
	DueRead: "due read", ScheduleRead: "schedule read", InstanceLoaded: "loaded", InboxRead: "inbox read", HeadRead: "head read", TurnDone: "turn done",
	TurnBlocked: "turn blocked", GateAnswered: "gate answered", TicketsReleased: "tickets released", CommitAnswered: "commit answered",
	commitRetryDue: "commit retry due", Reconciled: "reconciled", PurgeAnswered: "purge answered", WipeFound: "wipe found", Wiped: "wiped", HistoryRead: "history read", RewindAnswered: "rewind answered",
	MessagePublished: "message published", TaskPublished: "task published", retryDue: "retry due", ResendDue: "resend due", paceDue: "pace due",
	HorizonAnswered: "horizon answered", GateSwept: "gate swept", GateRelisted: "gate relisted", UnwantedFound: "unwanted found",
	QueueAgeRead: "queue age read", FleetRead: "fleet read", CodeFound: "code found", CodeJoined: "code joined",
}

func (k MessageKind) String() string { return messageKinds[k] }

// String names the kind, and what the message is about.
func (m *Message) String() string {
	var b strings.Builder
	b.WriteString(m.Kind.String())
	if m.ID != "" {
		b.WriteString(" " + m.ID)
	}
	if m.Event != 0 {
		fmt.Fprintf(&b, " event %d", m.Event)
	}
	if m.Err != nil {
		fmt.Fprintf(&b, ": %v", m.Err)
	}
	return b.String()
}

// Ingested is a batch of inputs that the store has put into inboxes.
type Ingested struct {
	Now      int64
	To       history.Position
	Arrivals []Arrival
	Results  []record.Ingested // nil if the batch had been ingested before and the reply was lost
}

// UnwantedMembers are holders of a gate that no lease, slot or instance shows any more.
type UnwantedMembers struct {
	Members []limit.Member
	At      int64
}
