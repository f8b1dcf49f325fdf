package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

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

// messageRow is how a kind of messages is named, read from a trace, and handled.
type messageRow struct {
	name   string
	body   func([]byte) (any, error) // nil: it has none, or one that is recorded by itself
	handle func(*Owner, *Message)    // of an arrival, or an answer of which several may be outstanding
	answer func(*Owner, answer)      // of one that belongs to the phase of its instance
}

// answer is an answer, the instance, and the request that was outstanding there.
type answer struct {
	*Message
	in  *instance
	req outstanding
}

var messageKinds = [...]messageRow{
	InputsIngested:    {"inputs ingested", decodeAs[*Ingested], func(o *Owner, m *Message) { o.inbox.ingested(m.Body.(*Ingested)) }, nil},
	TenureBegan:       {"tenure began", decodeAs[*Takeover], func(o *Owner, m *Message) { o.schedule.takeOver(m.Body.(*Takeover)) }, nil},
	TenureFailed:      {"tenure failed", nil, func(o *Owner, m *Message) { o.fail(m.Err) }, nil},
	HandoverBegan:     {"hand-over began", nil, func(o *Owner, _ *Message) { o.leaving = true }, nil},
	TenureEnded:       {"tenure ended", nil, func(o *Owner, _ *Message) { o.end() }, nil},
	DoorbellsReceived: {"doorbells received", nil, func(o *Owner, m *Message) { o.inbox.onDoorbells(m.Bells) }, nil},
	NoticesReceived:   {"notices received", decodeAs[[]message.LimitNotice], func(o *Owner, m *Message) { o.notices.onNotices(m.Body.([]message.LimitNotice)) }, nil},
	NoticesPassed:     {"notices passed", decodeAs[[]GateNotice], func(o *Owner, m *Message) { o.notices.onPassed(m.Body.([]GateNotice)) }, nil},
	EndAwaited:        {"end awaited", decodeAs[string], func(o *Owner, m *Message) { o.await(&o.commits.waiters, m) }, nil},
	StatusAwaited:     {"status awaited", decodeAs[string], func(o *Owner, m *Message) { o.await(&o.commits.watchers, m) }, nil},
	UpdateAwaited:     {"update awaited", decodeAs[string], func(o *Owner, m *Message) { o.await(&o.commits.updaters, m) }, nil},
	WakeupsDue:        {"wake-ups due", nil, func(o *Owner, _ *Message) { o.schedule.wakeupsDue() }, nil},
	TasksLost:         {"tasks lost", decodeAs[time.Time], func(o *Owner, m *Message) { o.leases.tasksLost(m.Body.(time.Time)) }, nil},
	PoliciesChanged:   {"policies changed", decodeAs[*limit.Overrides], func(o *Owner, m *Message) { o.notices.policiesChanged(m.Body.(*limit.Overrides)) }, nil},
	WatchExtended:     {"watch extended", decodeAs[time.Time], func(o *Owner, m *Message) { o.commits.watched = m.Body.(time.Time) }, nil},
	GateDue:           {"gate due", nil, func(o *Owner, m *Message) { o.notices.visitGate(m.ID) }, nil},
	RetryRequested:    {"retry requested", nil, func(o *Owner, m *Message) { o.removals.tryAgain(m.ID) }, nil},
	CodeJoined:        {"code joined", nil, func(o *Owner, _ *Message) { o.removals.codeJoined() }, nil},

	DueRead:          {"due read", decodeAs[record.DueSet], func(o *Owner, m *Message) { o.schedule.dueRead(m.Body.(record.DueSet), m.Err) }, nil},
	ScheduleRead:     {"schedule read", decodeAs[[]string], func(o *Owner, m *Message) { o.leases.scheduleRead(m.Body.([]string), m.Err) }, nil},
	GateAnswered:     {"gate answered", nil, func(o *Owner, m *Message) { o.admission.gateAnswered(m.Number, m.Admitted, m.Err) }, nil},
	TicketsReleased:  {"tickets released", nil, func(o *Owner, m *Message) { o.admission.passOn(m.ID, m.Admitted, m.Err) }, nil},
	MessagePublished: {"message published", nil, func(o *Owner, m *Message) { o.outbox.messagePublished(m.Number, m.Err) }, nil},
	TaskPublished:    {"task published", nil, func(o *Owner, m *Message) { o.commits.taskAnswered(m.ID, m.Event, m.Err) }, nil},
	retryDue:         {"retry due", nil, func(o *Owner, m *Message) { o.outbox.retry(m.ID) }, nil},
	ResendDue:        {"resend due", decodeAs[bool], func(o *Owner, m *Message) { o.commits.resend(m.Body.(bool)) }, nil},
	paceDue:          {"pace due", nil, func(o *Owner, m *Message) { o.turns.paceDue(m.ID) }, nil},
	HorizonAnswered:  {"horizon answered", decodeAs[message.Accepted], func(o *Owner, m *Message) { o.schedule.answeredHorizon(m.Body.(message.Accepted), m.Err) }, nil},
	GateSwept:        {"gate swept", decodeAs[limit.SweepReply], func(o *Owner, m *Message) { o.notices.gateSwept(m.ID, m.Body.(limit.SweepReply), m.Err) }, nil},
	GateRelisted:     {"gate relisted", decodeAs[time.Duration], func(o *Owner, m *Message) { o.notices.gateRelisted(m.Body.(time.Duration), m.Err) }, nil},
	UnwantedFound:    {"unwanted found", decodeAs[*UnwantedMembers], func(o *Owner, m *Message) { o.notices.unwantedFound(m.ID, m.Body.(*UnwantedMembers), m.Err) }, nil},
	QueueAgeRead:     {"queue age read", decodeAs[QueueAge], func(o *Owner, m *Message) { o.leases.queueAgeRead(m.Number, m.Body.(QueueAge), m.Err) }, nil},
	FleetRead:        {"fleet read", decodeAs[*Served], func(o *Owner, m *Message) { o.leases.fleetRead(m.Number, m.Body.(*Served)) }, nil},

	InstanceLoaded: {"loaded", nil, nil, func(o *Owner, x answer) { o.inbox.loaded(x.in, x.req, x.Body.(record.Loaded), x.Err) }},
	InboxRead:      {"inbox read", decodeAs[[][]byte], nil, func(o *Owner, x answer) { o.inbox.inboxRead(x.in, x.req, x.Body.([][]byte), x.Err) }},
	HeadRead:       {"head read", decodeAs[string], nil, func(o *Owner, x answer) { o.removals.headRead(x.in, x.req, x.Body.(string), x.Err) }},
	TurnDone:       {"turn done", nil, nil, func(o *Owner, x answer) { o.turns.turned(x.in, x.req.turn, x.Decided) }},
	TurnBlocked:    {"turn blocked", nil, nil, func(o *Owner, x answer) { o.turns.blocked(x.in) }},
	CommitAnswered: {"commit answered", nil, nil, func(o *Owner, x answer) { o.commits.commitAnswered(x.in, x.req, x.Committed, x.Err) }},
	commitRetryDue: {"commit retry due", nil, nil, func(o *Owner, x answer) { o.commits.repeat(x.in, x.req) }},
	Reconciled:     {"reconciled", nil, nil, func(o *Owner, x answer) { o.leases.reconciled(x.in, x.req, x.Looked, x.Err) }},
	PurgeAnswered:  {"purge answered", decodeAs[int64], nil, func(o *Owner, x answer) { o.removals.purgeAnswered(x.in, x.req, x.Body.(int64), x.Err) }},
	WipeFound:      {"wipe found", decodeAs[*Wipe], nil, func(o *Owner, x answer) { o.removals.wipeFound(x.in, x.req, x.Body.(*Wipe), x.Err) }},
	Wiped:          {"wiped", decodeAs[int64], nil, func(o *Owner, x answer) { o.removals.wiped(x.in, x.req, x.Body.(int64), x.Err) }},
	HistoryRead:    {"history read", decodeAs[record.RewindSource], nil, func(o *Owner, x answer) { o.operators.historyRead(x.in, x.req, x.Body.(record.RewindSource), x.Err) }},
	RewindAnswered: {"rewind answered", nil, nil, func(o *Owner, x answer) { o.operators.rewound(x.in, x.req, x.Committed, x.Err) }},
	CodeFound:      {"code found", decodeAs[*FoundCode], nil, func(o *Owner, x answer) { o.admission.codeFound(x.in, x.Body.(*FoundCode)) }},
}

func (k MessageKind) String() string { return messageKinds[k].name }

// DecodeBody reads the body of a recorded message.
func (k MessageKind) DecodeBody(b []byte) (any, error) {
	if decode := messageKinds[k].body; decode != nil {
		return decode(b)
	}
	return nil, nil //nolint:nilnil // it has none
}

func decodeAs[T any](b []byte) (any, error) {
	var v T
	if len(b) == 0 {
		return v, nil
	}
	err := json.Unmarshal(b, &v)
	return v, err
}

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
