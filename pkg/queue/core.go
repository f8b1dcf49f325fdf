package queue

import (
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// Bell reports that an activity has ended and its completion is in an inbox that was empty before.
type Bell struct {
	Instance string
	Effect   string // effect id of the activity
	Element  []byte // the element as it was pushed, if it is at most history.MaxRung; otherwise nil
	Proof    string // that Redis has made: see Tenure.Proves of package store
}

// Hint says that a lease of the worker was deleted. The worker renews at once; only
// the renewal's answer cancels.
//
// With a Token it is a question instead: whether the worker has the claim with that token. One that it does not have,
// it acknowledges again or gives back; only the script's comparison of the token decides.
type Hint struct {
	Instance            string
	Execution, Activity uint64
	Effect              string
	Reason              cancel.Reason
	By, Text            string
	At                  int64 // Unix milliseconds
	Token               string
}

// NoticeKind is what a Notice is about.
type NoticeKind uint8

// The kinds of notice.
const (
	PartitionReleased NoticeKind = 1 // Partition has no owner any more: whoever should own it may take it
	MemberJoined      NoticeKind = 2
	MemberLeft        NoticeKind = 3
	PolicyChanged     NoticeKind = 4 // a policy was set or deleted: read them again
	ChildrenCancelled NoticeKind = 5 // children were cancelled whose descendants must not begin: read which
)

// Notice hurries the handing over of partitions, and policies. One that is lost costs a look.
type Notice struct {
	Kind      NoticeKind
	Partition int // of PartitionReleased
	Member    string
}

// Custom is the custom status of an instance. The version counts how often it has been
// set, from 1, across executions.
type Custom struct {
	Version uint64          `json:"version"`
	Payload history.Payload `json:"payload,omitzero"`
	Cleared bool            `json:"cleared,omitempty"` // the instance has taken it away; an empty Payload alone may be one that has no room here
}

// Answer tells a waiting client how an instance ended, what its custom status is, or
// why it can not be told.
type Answer struct {
	Instance  string
	Born      history.Position
	Execution uint64
	Status    string           // completed, failed, cancelled; as the owner's record has it. OpStatus: also running
	Result    history.Payload  // not of OpStatus
	Failure   *history.Failure // not of OpStatus
	Problem   *Problem         // set: nothing else is
	Custom    *Custom          // of OpStatus: the latest; nil: none was ever set
}

// StatusPurged is the status in the answer to a purge that has taken effect.
const StatusPurged = "purged"

// Problem is why a request was not done.
type Problem struct {
	Code    string // one of the constants below
	Message string
}

// Error gives the message.
func (p *Problem) Error() string { return p.Message }

// Codes of problems.
const (
	ProblemNotFound = "not-found" // no such instance
	ProblemNotOwner = "not-owner" // the partition is being handed over: ask again
	ProblemBadAsk   = "bad-ask"   // the request makes no sense
	ProblemRefused  = "refused"   // the start or cancel can not take effect; the message says why
	ProblemInternal = "internal"  // the owner failed; its log says more
)

// Op is what an Ask wants.
type Op uint8

// The operations.
const (
	OpAwait    Op = 1 // the answer if there is one; else remember ReplyTo and answer there
	OpDescribe Op = 2
	OpHistory  Op = 3 // encoded events after After, at most Limit, of Execution (0: the latest)
	OpList     Op = 4 // instances of Status that pass Filter, newest change first, behind Cursor, at most Limit
	OpStuck    Op = 5 // as OpList, of instances that can not go on
	OpStatus   Op = 6 // the custom status if it is newer than After, or the instance has ended; else remember ReplyTo and answer there
)

// Operations on gates. Any owner can answer those that name a gate or a policy, for gates are in no partition's keys.
const (
	OpGates        Op = 7  // the gates that fall into the partition and are in use (Gate: only those of this action), after Cursor, at most Limit
	OpGate         Op = 8  // one gate, by Gate and Key
	OpWaiters      Op = 9  // who waits at a gate, in order, from position Cursor on, at most Limit; with Status StatusHolding: who has been let in, at most Limit
	OpClear        Op = 10 // turns away everybody who waits at a gate
	OpPolicies     Op = 11 // the policies that were set at run time
	OpSetPolicy    Op = 12 // of Level
	OpDeletePolicy Op = 13 // of Level
	OpCount        Op = 14 // the instances of the partition by status, and the stalled ones, without reading them
)

// StatusHolding is the Status of an OpWaiters that asks for the holders.
const StatusHolding = "holding"

// Ask is a request to the owner of a partition.
type Ask struct {
	Op        Op
	Instance  string
	ReplyTo   string // OpAwait, OpStatus; empty: nobody waits
	Execution uint64 // OpHistory
	After     uint64 // OpHistory: an event id. OpStatus: the version that the client has; 0: none
	Status    string // OpList, OpWaiters
	Cursor    string // OpList, OpStuck, OpGates, OpWaiters: the previous reply's Cursor; "" begins
	Limit     int    // events, instances, gates or waiters; 0: what the owner likes

	Gate   string          // OpGates, OpGate, OpWaiters, OpClear: an action; OpGates: empty: every one
	Key    string          // OpGate, OpWaiters, OpClear: value of the action's key, as it is or as GateStats has it
	Level  string          // OpSetPolicy, OpDeletePolicy
	Policy *history.Policy // OpSetPolicy
	Filter *ListFilter     // OpList; nil: all
}

// Reply is what the owner says to an Ask.
type Reply struct {
	Problem   *Problem
	Answer    *Answer     // OpAwait, OpStatus: set if there is something to tell; else ReplyTo is remembered
	Described *Described  // OpDescribe
	Execution uint64      // OpHistory: of the events
	Events    [][]byte    // OpHistory: as the store has them, in order; fewer than Limit at the end, or when MaxReply is reached
	More      bool        // OpHistory: there are events after these
	Rows      []Described // OpList, OpStuck
	Cursor    string      // OpList, OpStuck, OpGates, OpWaiters: where to go on; "" is the end
	Reports   []Report    // OpHistory: of the activities whose cancellations are among the events

	Gates    []GateStats   // OpGates; OpGate: one
	Waiters  []GateWaiter  // OpWaiters
	Policies []LevelPolicy // OpPolicies, by level
	Cleared  int           // OpClear: how many were turned away

	Counts  []StatusCount // OpCount
	Stalled uint64        // OpCount
}

// StatusCount is the number of instances of a status.
type StatusCount struct {
	Status string
	Count  uint64
}

// Report is how a cancelled activity ended, as its worker or the owner says: see package
// lease for the text.
type Report struct {
	Activity uint64
	Text     string
}

// MaxReply is how many bytes of events or rows an owner should put into one Reply,
// so that it fits into a NATS message of a server's default limit (1 MiB).
const MaxReply = 800 << 10

// Described is what an owner tells about an instance. Times are Unix milliseconds, 0 if not yet.
type Described struct {
	Instance      string           `json:"instance"`
	Orchestration string           `json:"orchestration"`
	Version       string           `json:"version,omitempty"`
	Status        string           `json:"status"`
	Born          history.Position `json:"born"`
	Execution     uint64           `json:"execution"`
	Created       int64            `json:"created,omitempty"`
	Updated       int64            `json:"updated,omitempty"`
	Ended         int64            `json:"ended,omitempty"`
	Events        uint64           `json:"events"`
	Outstanding   []Outstanding    `json:"outstanding,omitempty"` // activities
	Timers        uint64           `json:"timers,omitempty"`      // pending
	NextTimer     int64            `json:"next_timer,omitempty"`  // due time of the first
	Inbox         uint64           `json:"inbox"`                 // unread inputs
	Result        history.Payload  `json:"result,omitzero"`
	Failure       *history.Failure `json:"failure,omitempty"`
	Stuck         string           `json:"stuck,omitempty"` // why it can not go on

	Parent   string             `json:"parent,omitempty"`   // instance id; empty: nobody's child
	Children []OutstandingChild `json:"children,omitempty"` // whose end is waited for
	Custom   *Custom            `json:"custom,omitempty"`   // custom status; nil: none was ever set
	Owes     uint64             `json:"owes,omitempty"`     // messages to others not yet known to be in the stream
	Awaited  []string           `json:"awaited,omitempty"`  // names of events; empty also for an instance that is not in the owner's memory
	Waits    []GateWait         `json:"waits,omitempty"`    // at gates, by event

	// Unread counts the events that the instance had been sent and had not read when it ended: those that it had received,
	// and those in its inbox, of which an owner reads 256 at a time.
	Unread []history.UnreadEvents `json:"unread,omitempty"`
}

// StatusPending is the status of an instance that waits at a gate for its first turn, and of one that is not known but for its inputs.
const StatusPending = "pending"

// OutstandingChild is a child that was started and has not told its end.
type OutstandingChild struct {
	Event    uint64 `json:"event"` // event id of the schedule
	Name     string `json:"name"`  // of the orchestration
	Instance string `json:"instance"`
	Since    int64  `json:"since,omitempty"` // scheduled at, Unix milliseconds
}

// Outstanding is an activity that was scheduled and has not ended.
type Outstanding struct {
	Activity uint64 `json:"activity"` // event id of the schedule
	Name     string `json:"name"`
	Queue    string `json:"queue"`
	Worker   string `json:"worker,omitempty"` // empty: not claimed
	Claims   uint32 `json:"claims"`
	Since    int64  `json:"since,omitempty"` // scheduled at, Unix milliseconds
}
