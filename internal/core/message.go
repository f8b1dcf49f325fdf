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

// Message is one occurrence in a partition: an arrival, or the answer to an effect.
// The kind determines which fields are set. An answer identifies the request by id or number; the owner has kept the rest of it.
type Message struct {
	Kind       MessageKind
	Err        error
	ID         string // id of an instance, or name of a limit
	Event      uint64
	Number     uint64 // number of the answered effect, for kinds of which an instance may have several outstanding
	Decided    *Decided
	Committed  record.Committed
	Reconciled record.Reconciled
	Admitted   limit.AdmitReply
	Doorbells  []message.Doorbell
	Body       any // of rare kinds: the comment of the kind gives the type
}

// MessageKind is the kind of a message.
type MessageKind uint8

// Arrivals. The comments name the fields that are set.
const (
	InputsIngested    MessageKind = iota + 1 // body: *Ingested
	TenureBegan                              // body: *Takeover
	TenureFailed                             // err ends the tenure
	HandoverBegan                            // instances make no more steps
	TenureEnded                              // the in-memory state is discarded
	DoorbellsReceived                        // doorbells
	NoticesReceived                          // body: []message.LimitNotice, from other processes
	NoticesPassed                            // body: []LimitNotice, from another owner of this process
	EndAwaited                               // a client waits for the end: id, body: reply subject
	StatusAwaited                            // a client waits for the next custom status: id, body: reply subject
	UpdateAwaited                            // a client waits for the answer to an update: id as UpdateWait returns it, body: reply subject
	WakeupsDue                               // the wakeups must be read
	TasksLost                                // the TASKS stream has lost its content; body: time.Time, tasks published before it are lost
	PoliciesChanged                          // body: *limit.Overrides
	WatchExtended                            // body: time.Time, until when changes are watched
	LimitDue                                 // id: limit
	RetryRequested                           // an operator requests the retry of a stalled instance: id
	CodeJoined                               // a process with code joined: instances that lack their code are retried
)

// Answers. The comments name the fields that are set.
const (
	DueRead          MessageKind = iota + CodeJoined + 1 // body: record.DueSet
	ScheduleRead                                         // body: []string, instances
	InstanceLoaded                                       // id, body: record.Loaded
	InboxRead                                            // id, body: [][]byte
	HeadRead                                             // id, body: string
	TurnDone                                             // id, decided
	TurnBlocked                                          // id
	LimitAnswered                                        // number, admitted
	TicketsReleased                                      // id: limit, admitted
	CommitAnswered                                       // id, committed
	commitRetryDue                                       // id
	Reconciled                                           // id, looked
	PurgeAnswered                                        // id, body: int64, Redis TIME in Unix ms
	WipeFound                                            // id, body: *Wipe, nil if there is none
	Wiped                                                // id, body: int64, Redis TIME in Unix ms
	HistoryRead                                          // id, body: record.RewindSource
	RewindAnswered                                       // id, committed
	MessagePublished                                     // number
	TaskPublished                                        // id, event
	retryDue                                             // id
	ResendDue                                            // body: bool, whether NATS is connected
	paceDue                                              // id
	HorizonAnswered                                      // body: message.Accepted
	LimitSwept                                           // id: limit, body: limit.SweepReply
	LimitRescheduled                                     // id: limit, body: time.Duration until its next visit
	UnwantedFound                                        // id: limit, body: *UnwantedMembers
	QueueAgeRead                                         // number, body: QueueAge
	FleetRead                                            // number, body: *Served
	CodeFound                                            // id, body: *FoundCode
)

// messageRow describes a kind of messages. Either handle or answer is set.
type messageRow struct {
	name   string
	body   func([]byte) (any, error) // decodes the body from a trace; nil: no body, or one that the trace records separately
	handle func(*Owner, *Message)    // handles an arrival, or an answer of which several may be outstanding
	answer func(*Owner, answer)      // handles an answer that belongs to the phase of its instance
}

// answer is an answer with its instance, and the request that was outstanding there.
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
	DoorbellsReceived: {"doorbells received", nil, func(o *Owner, m *Message) { o.inbox.onDoorbells(m.Doorbells) }, nil},
	NoticesReceived:   {"notices received", decodeAs[[]message.LimitNotice], func(o *Owner, m *Message) { o.notices.onNotices(m.Body.([]message.LimitNotice)) }, nil},
	NoticesPassed:     {"notices passed", decodeAs[[]LimitNotice], func(o *Owner, m *Message) { o.notices.onPassed(m.Body.([]LimitNotice)) }, nil},
	EndAwaited:        {"end awaited", decodeAs[string], func(o *Owner, m *Message) { o.await(&o.commits.waiters, m) }, nil},
	StatusAwaited:     {"status awaited", decodeAs[string], func(o *Owner, m *Message) { o.await(&o.commits.watchers, m) }, nil},
	UpdateAwaited:     {"update awaited", decodeAs[string], func(o *Owner, m *Message) { o.await(&o.commits.updaters, m) }, nil},
	WakeupsDue:        {"wake-ups due", nil, func(o *Owner, _ *Message) { o.schedule.wakeupsDue() }, nil},
	TasksLost:         {"tasks lost", decodeAs[time.Time], func(o *Owner, m *Message) { o.leases.tasksLost(m.Body.(time.Time)) }, nil},
	PoliciesChanged:   {"policies changed", decodeAs[*limit.Overrides], func(o *Owner, m *Message) { o.notices.policiesChanged(m.Body.(*limit.Overrides)) }, nil},
	WatchExtended:     {"watch extended", decodeAs[time.Time], func(o *Owner, m *Message) { o.commits.watched = m.Body.(time.Time) }, nil},
	LimitDue:          {"limit due", nil, func(o *Owner, m *Message) { o.notices.visitLimit(m.ID) }, nil},
	RetryRequested:    {"retry requested", nil, func(o *Owner, m *Message) { o.removals.tryAgain(m.ID) }, nil},
	CodeJoined:        {"code joined", nil, func(o *Owner, _ *Message) { o.removals.codeJoined() }, nil},

	DueRead:          {"due read", decodeAs[record.DueSet], func(o *Owner, m *Message) { o.schedule.dueRead(m.Body.(record.DueSet), m.Err) }, nil},
	ScheduleRead:     {"schedule read", decodeAs[[]string], func(o *Owner, m *Message) { o.leases.scheduleRead(m.Body.([]string), m.Err) }, nil},
	LimitAnswered:    {"limit answered", nil, func(o *Owner, m *Message) { o.admission.limitAnswered(m.Number, m.Admitted, m.Err) }, nil},
	TicketsReleased:  {"tickets released", nil, func(o *Owner, m *Message) { o.admission.passOn(m.ID, m.Admitted, m.Err) }, nil},
	MessagePublished: {"message published", nil, func(o *Owner, m *Message) { o.outbox.messagePublished(m.Number, m.Err) }, nil},
	TaskPublished:    {"task published", nil, func(o *Owner, m *Message) { o.commits.taskAnswered(m.ID, m.Event, m.Err) }, nil},
	retryDue:         {"retry due", nil, func(o *Owner, m *Message) { o.outbox.retry(m.ID) }, nil},
	ResendDue:        {"resend due", decodeAs[bool], func(o *Owner, m *Message) { o.commits.resend(m.Body.(bool)) }, nil},
	paceDue:          {"pace due", nil, func(o *Owner, m *Message) { o.turns.paceDue(m.ID) }, nil},
	HorizonAnswered:  {"horizon answered", decodeAs[message.Accepted], func(o *Owner, m *Message) { o.schedule.answeredHorizon(m.Body.(message.Accepted), m.Err) }, nil},
	LimitSwept:       {"limit swept", decodeAs[limit.SweepReply], func(o *Owner, m *Message) { o.notices.limitSwept(m.ID, m.Body.(limit.SweepReply), m.Err) }, nil},
	LimitRescheduled: {"limit rescheduled", decodeAs[time.Duration], func(o *Owner, m *Message) { o.notices.limitRescheduled(m.Body.(time.Duration), m.Err) }, nil},
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
	Reconciled:     {"reconciled", nil, nil, func(o *Owner, x answer) { o.leases.reconciled(x.in, x.req, x.Reconciled, x.Err) }},
	PurgeAnswered:  {"purge answered", decodeAs[int64], nil, func(o *Owner, x answer) { o.removals.purgeAnswered(x.in, x.req, x.Body.(int64), x.Err) }},
	WipeFound:      {"wipe found", decodeAs[*Wipe], nil, func(o *Owner, x answer) { o.removals.wipeFound(x.in, x.req, x.Body.(*Wipe), x.Err) }},
	Wiped:          {"wiped", decodeAs[int64], nil, func(o *Owner, x answer) { o.removals.wiped(x.in, x.req, x.Body.(int64), x.Err) }},
	HistoryRead:    {"history read", decodeAs[record.RewindSource], nil, func(o *Owner, x answer) { o.operators.historyRead(x.in, x.req, x.Body.(record.RewindSource), x.Err) }},
	RewindAnswered: {"rewind answered", nil, nil, func(o *Owner, x answer) { o.operators.rewound(x.in, x.req, x.Committed, x.Err) }},
	CodeFound:      {"code found", decodeAs[*FoundCode], nil, func(o *Owner, x answer) { o.admission.codeFound(x.in, x.Body.(*FoundCode)) }},
}

func (k MessageKind) String() string { return messageKinds[k].name }

// DecodeBody decodes the body of a recorded message.
func (k MessageKind) DecodeBody(b []byte) (any, error) {
	if decode := messageKinds[k].body; decode != nil {
		return decode(b)
	}
	return nil, nil //nolint:nilnil // the kind has no body
}

func decodeAs[T any](b []byte) (any, error) {
	var v T
	if len(b) == 0 {
		return v, nil
	}
	err := json.Unmarshal(b, &v)
	return v, err
}

// String returns the kind and the subject of the message.
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

// Ingested is a batch of inputs that one script has moved to their inboxes.
type Ingested struct {
	Now      int64            // Redis TIME, Unix ms
	To       history.Position // of the last input
	Arrivals []Arrival
	Results  []record.Ingested // by arrival; nil if the batch had been ingested before and the reply was lost
}

// UnwantedMembers are holders of a limit for which no lease, retained slot or instance was found.
type UnwantedMembers struct {
	Members []limit.Member
	At      int64 // by the clock of the limit, Unix ms
}
