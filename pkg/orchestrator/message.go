package orchestrator

import (
	"fmt"
	"strings"

	"github.com/pawlrun/pawl/internal/limiter"
	"github.com/pawlrun/pawl/pkg/history"
	"github.com/pawlrun/pawl/pkg/history/store"
	"github.com/pawlrun/pawl/pkg/queue"
)

// message is one thing that has happened to a partition: an arrival, or the answer to an effect.
// The kind determines which of the fields are set; an answer has the fields of the effect that it answers.
type message struct {
	kind      messageKind
	err       error
	in        *instance
	id        string // of an instance, or a gate
	event     uint64
	turn      *turn
	commit    *store.Commit
	committed store.Committed
	recon     *reconciliation
	looked    store.Reconciled
	call      *gateCall
	admitted  limiter.AdmitReply
	out       *outgoing
	bells     []queue.Doorbell
	body      any // of the rare kinds: see the comment of each
}

type messageKind uint8

// Arrivals.
const (
	inputsIngested    messageKind = iota + 1 // body: *ingested
	tenureFailed                             // err ends the tenure
	doorbellsReceived                        // bells
	noticesReceived                          // body: []queue.LimitNotice, of other processes
	noticesPassed                            // body: []gateNotice, of an actor of this process
	endAwaited                               // by a client: id, body: reply subject
	statusAwaited                            // likewise, the next custom status
	awaitedRequested                         // id, body: chan []string for the names of the events that it waits for
	wakeupsDue                               // the schedule is to be read
	tasksLost                                // by the TASKS stream
	policiesChanged
	gateDue // id: of a gate
)

// Answers.
const (
	dueRead          messageKind = iota + gateDue + 1 // body: store.DueSet
	scheduleRead                                      // body: []string, instances
	instanceLoaded                                    // in, body: store.Loaded
	inboxRead                                         // in, body: [][]byte
	headRead                                          // in, body: string
	turnDone                                          // turn
	turnBlocked                                       // turn
	gateAnswered                                      // call, admitted
	ticketsReleased                                   // id: of a gate, admitted
	commitAnswered                                    // in, turn, commit, committed
	commitRetryDue                                    // in, turn, commit
	reconciled                                        // in, recon, looked
	purgeAnswered                                     // in, body: *removal
	wipeFound                                         // in, body: *wipe, nil if there is none
	wiped                                             // in, body: *wipe
	messagePublished                                  // out
	taskPublished                                     // id, event
	retryDue                                          // in
	resendDue
	paceDue         // in
	horizonAnswered // body: queue.Accepted
	gateSwept       // id, body: *gateSweep
	gateRelisted    // id, body: time.Duration
	unwantedFound   // id, body: *unwantedMembers
	queueAgeRead    // body: *queueAge
	fleetRead       // id, body: *fleetReport
)

var messageKinds = [...]string{
	inputsIngested: "inputs ingested", tenureFailed: "tenure failed", doorbellsReceived: "doorbells received", noticesReceived: "notices received",
	noticesPassed: "notices passed", endAwaited: "end awaited", statusAwaited: "status awaited", awaitedRequested: "awaited events requested", wakeupsDue: "wake-ups due", tasksLost: "tasks lost",
	policiesChanged: "policies changed", gateDue: "gate due",
	dueRead: "due read", scheduleRead: "schedule read", instanceLoaded: "loaded", inboxRead: "inbox read", headRead: "head read", turnDone: "turn done",
	turnBlocked: "turn blocked", gateAnswered: "gate answered", ticketsReleased: "tickets released", commitAnswered: "commit answered",
	commitRetryDue: "commit retry due", reconciled: "reconciled", purgeAnswered: "purge answered", wipeFound: "wipe found", wiped: "wiped",
	messagePublished: "message published", taskPublished: "task published", retryDue: "retry due", resendDue: "resend due", paceDue: "pace due",
	horizonAnswered: "horizon answered", gateSwept: "gate swept", gateRelisted: "gate relisted", unwantedFound: "unwanted found",
	queueAgeRead: "queue age read", fleetRead: "fleet read",
}

func (k messageKind) String() string { return messageKinds[k] }

// String names the kind, and what the message is about.
func (m *message) String() string {
	var b strings.Builder
	b.WriteString(m.kind.String())
	switch {
	case m.in != nil:
		fmt.Fprintf(&b, " %s (%s)", m.in.id, m.in.phase)
	case m.turn != nil:
		fmt.Fprintf(&b, " %s (%s)", m.turn.in.id, m.turn.in.phase)
	case m.id != "":
		b.WriteString(" " + m.id)
	}
	if m.event != 0 {
		fmt.Fprintf(&b, " event %d", m.event)
	}
	if m.err != nil {
		fmt.Fprintf(&b, ": %v", m.err)
	}
	return b.String()
}

// ingested is a batch of inputs that the store has put into inboxes.
type ingested struct {
	now      int64
	to       history.Position
	arrivals []arrival
	results  []store.Ingested // nil if the batch had been ingested before and the reply was lost
}

// gateSweep is what a visit to a gate has found.
type gateSweep struct {
	visit *visit
	swept limiter.SweepReply
}

// unwantedMembers are holders of a gate that no lease, slot or instance shows any more.
type unwantedMembers struct {
	members []limiter.Member
	at      int64
}
