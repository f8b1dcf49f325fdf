package record

import (
	"strconv"
	"time"
)

// Lease identifies the lease of an activity: the event that scheduled it, and its effect id.
type Lease struct {
	Activity uint64
	Effect   string
	Claim    *Claim // of a lease that a commit creates; nil: it is not claimed
}

// Claim is the claim of a worker in the owner's process: the commit that creates the lease also claims it.
type Claim struct {
	Token  string
	Worker string
	TTL    time.Duration // at least 1 ms
}

// String returns the claim as the script reads it; "" for none.
func (c *Claim) String() string {
	if c == nil {
		return ""
	}
	return strconv.FormatInt(c.TTL.Milliseconds(), 10) + " " + c.Token + " " + c.Worker
}

// Commit is a turn: the store writes all of it or nothing.
//
// With Prepend it ends an execution and begins the next, in one write:
//
//	execution n   … ContinuedAsNew                                         Events, Delete, the keys of the commit
//	the record    execution n+1, no events                                 Record with Name and Execution
//	the inbox     Started of n+1 · carried events · what was unread        Prepend
//	the wakeup    now
//
// If the owner dies between the reply and the first turn of the next execution, reconciliation finds the start at the head of the
// inbox. If the reply is lost and the commit is repeated, its own head is found and nothing is prepended again.
type Commit struct {
	Instance  string
	Execution uint64 // of Events, Create and Delete
	Head      string // the head that it was decided on; "" without a record
	NewHead   string // random; "" when only the inbox is consumed
	Pop       []string
	Events    [][]byte
	Create    []Lease
	Delete    []Lease  // may name leases that Create names: those are created first
	Record    *Record  // the fields of the record that change; nil: only the head
	Retain    []string // tickets whose slots are retained from one attempt to the next: the record names them
	Release   []string // tickets that are no longer retained; Retain may name them again
	From      Status   // status before; "" without a record
	Leave     []Entry  // of the indexes, that the instance has no more: see Reindex
	Enter     []Entry  // that it has now
	Wakeup    int64    // Unix ms; 0: nothing is due
	MaxUnread int      // unread elements in the reply

	// Decisions by time come behind every input that was accepted before. Due is the latest time that was due, Unix ms: none of
	// the first 16 unread elements behind the popped ones may be older (CONFLICT). Applied is the time, in ns, of the position up
	// to which the inputs have been ingested: a store that has lost it replies ErrRolledBack. 0: not checked.
	Due     int64
	Applied int64

	// Prepend is put in front of the unread inputs, in this order: encoded elements, the first of them the start of the execution
	// that Record names. That execution is then the current one, with an empty history, and its wakeup is now.
	Prepend [][]byte
	// Prune is an execution whose history is deleted, 0 for none: never Execution itself, nor one with pending messages.
	Prune uint64
	// Answers are what the ledger gets of updates.
	Answers []Answer
}

// Answer is the answer to an update; without one the update is removed from the ledger, because its input was dropped.
type Answer struct {
	Update string // its key
	Answer []byte // as history.UpdateAnswer encodes it
}

// Committed is the reply to a commit.
type Committed struct {
	Now     int64             // Redis TIME, Unix ms
	Unread  [][]byte          // the head of the inbox, up to MaxUnread elements and 4 MiB
	Workers map[uint64]string // by activity, of the deleted leases that were claimed
	Number  int64             // of the commit in the partition, or of a later one; it ascends unless the store loses writes
}

// Purge removes an instance with all its data.
type Purge struct {
	Instance  string
	Execution uint64 // the current one; the one before it is removed, too
	Head      string
	Status    Status   // of its index
	Entries   []Entry  // of the other indexes: see Record.Entries
	Pop       []string // ids at the head of the inbox, up to the purge itself; inputs behind it stay
	// Applied is set if the retention is over and no client has requested the purge: see Commit.Applied. Then nothing may be
	// unread.
	Applied int64
}

// Wipe removes an instance that cannot be read.
type Wipe struct {
	Instance   string
	InboxIndex int    // of the purge, from 0
	Purge      string // id of the purge
	Keys       []OwnedKey
}

// OwnedKey names a history (h), the reports (r) or a lease (l) of an instance, or a set of values that has it (v, n).
type OwnedKey struct {
	Kind, Instance string // of v and n what follows in the name of the key
	Execution      uint64
	Activity       uint64 // of a lease
}

// Reconciliation repairs the leases of an instance that has no turn to take, and sets its next wakeup.
type Reconciliation struct {
	Instance  string
	Execution uint64 // of the leases
	Head      string
	Leases    []Lease
	MaxClaims int   // of each
	Wakeup    int64 // Unix ms; 0: nothing is due
	InboxHold InboxHold
	Stalled   string    // why it is stalled; "" leaves what is recorded, NotStalled removes it
	Published Watermark // watermark of the messages in the stream; zero leaves what is recorded
}

// InboxHold determines whether unread inputs bring the next wakeup forward.
type InboxHold string

// The ways to hold an inbox back.
const (
	HoldNone  InboxHold = ""  // unread inputs cause a wakeup within two seconds
	HoldAll   InboxHold = "1" // the instance is stalled: everything waits for the next attempt
	HoldEarly InboxHold = "e" // there is no instance yet: everything waits for its start
)

// HoldKnown holds back the first n inputs, which the owner has seen. One behind them may be what they wait for.
func HoldKnown(n int) InboxHold { return InboxHold("n" + strconv.Itoa(n)) }

// NotStalled removes the reason that an earlier Reconciliation has recorded.
const NotStalled = "-"

// LeaseState is a lease as reconciliation found it.
type LeaseState struct {
	Lease
	Status     LeaseStatus
	Claims     int   // so far
	Until      int64 // of a claim, Unix ms
	Span       int64 // of the last claim or renewal, ms
	Token      string
	Worker     string
	ReturnedAt int64 // when a worker returned it, Unix ms; 0: none did
}

// LeaseStatus is the status of a lease.
type LeaseStatus byte

// The statuses of a lease.
const (
	LeaseUnclaimed  LeaseStatus = 'W' // no worker has claimed it
	LeaseClaimed    LeaseStatus = 'C'
	ClaimExpired    LeaseStatus = 'X' // the claim had expired and was removed: dispatch again
	ClaimsExhausted LeaseStatus = 'P' // claimed as often as is allowed, and expired
	LeaseMissing    LeaseStatus = 'M' // missing, with unread inputs: its completion is among them
	LeaseRecreated  LeaseStatus = 'R' // lost by the store and created again: dispatch again
)

// Reconciled is the reply to a Reconciliation.
type Reconciled struct {
	Now    int64
	Unread int
	Leases []LeaseState
}
