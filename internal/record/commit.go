package record

import (
	"strconv"
	"time"
)

// Lease identifies the lease of an activity: the event that scheduled it, and its effect id.
type Lease struct {
	Activity uint64
	Effect   string
	Claim    *Claim // the claim that a commit creates with the lease; nil: none
}

// Claim is the claim of a worker in the owner's process: the commit that creates the lease also claims it.
type Claim struct {
	Token  string
	Worker string
	TTL    time.Duration // at least 1 ms
}

// String returns the encoding that the commit script parses; "" for nil.
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
	Execution uint64 // execution of Events, Create and Delete
	Head      string // head on which the turn was decided; "" without a record
	NewHead   string // random; "" when only the inbox is consumed
	Pop       []string
	Events    [][]byte
	Create    []Lease
	Delete    []Lease  // may name leases that Create names: those are created first
	Record    *Record  // the fields of the record that change; nil: only the head
	Retain    []string // tickets whose slots are retained from one attempt to the next: the record names them
	Release   []string // tickets that are no longer retained; Retain may name them again
	From      Status   // status before the commit; "" without a record
	Leave     []Entry  // index entries to remove: see Reindex
	Enter     []Entry  // index entries to add
	Wakeup    int64    // Unix ms; 0: nothing is due
	MaxUnread int      // maximum number of unread elements in the reply

	// A decision by time is ordered after every input that was accepted before. Due is the latest due time of the turn, Unix ms: none of
	// the first 16 unread elements after the popped ones may be older (CONFLICT). Applied is the time, in ns, of the position up
	// to which the inputs have been ingested: a store that has lost it replies ErrRolledBack. 0: not checked.
	Due     int64
	Applied int64

	// Prepend is put in front of the unread inputs, in this order: encoded elements, the first of them the start of the execution
	// that Record names. That execution is then the current one, with an empty history, and its wakeup is now.
	Prepend [][]byte
	// Prune is an execution whose history is deleted; 0: none. It is never Execution itself, nor one with pending messages.
	Prune uint64
	// Answers are the answers to updates for the ledger.
	Answers []Answer
}

// Answer is the answer to an update; without one the update is removed from the ledger, because its input was dropped.
type Answer struct {
	Update string // its key
	Answer []byte // as eventcodec.UpdateAnswer encodes it
}

// Committed is the reply to a commit.
type Committed struct {
	Now     int64             // Redis TIME, Unix ms
	Unread  [][]byte          // the head of the inbox, up to MaxUnread elements and 4 MiB
	Workers map[uint64]string // by activity, of the deleted leases that were claimed
	Number  int64             // number of this commit in the partition, or of a later one; it ascends unless the store loses writes
}

// Purge removes an instance with all its data.
type Purge struct {
	Instance  string
	Execution uint64 // the current one; the one before it is removed, too
	Head      string
	Status    Status   // its status index
	Entries   []Entry  // its entries in the other indexes: see Record.Entries
	Pop       []string // ids at the head of the inbox, up to the purge itself; inputs behind it stay
	// Applied is set if the retention is over and no client has requested the purge: see Commit.Applied. Then nothing may be
	// unread.
	Applied int64
}

// Wipe removes an instance that cannot be read.
type Wipe struct {
	Instance   string
	InboxIndex int    // index of the purge in the inbox, from 0
	Purge      string // id of the purge
	Keys       []OwnedKey
}

// OwnedKey names the history (h), the reports (r) or a lease (l) of an instance, or an index that contains it (v, n).
type OwnedKey struct {
	Kind, Instance string // Instance: for v and n the rest of the key's name
	Execution      uint64
	Activity       uint64 // for a lease
}

// Reconciliation repairs the leases of an instance that has no turn to take, and sets its next wakeup.
type Reconciliation struct {
	Instance  string
	Execution uint64 // of the leases
	Head      string
	Leases    []Lease
	MaxClaims int   // per lease
	Wakeup    int64 // Unix ms; 0: nothing is due
	Deferral  Deferral
	Stalled   string    // why it is stalled; "" leaves what is recorded, NotStalled removes it
	Published Watermark // watermark of the messages in the stream; zero leaves what is recorded
}

// Deferral determines whether unread inputs bring the next wakeup forward.
type Deferral string

// The deferrals of an inbox.
const (
	DeferNone  Deferral = ""  // unread inputs cause a wakeup within two seconds
	DeferAll   Deferral = "1" // the instance is stalled: everything waits for the next attempt
	DeferEarly Deferral = "e" // there is no instance yet: everything waits for its start
)

// DeferSeen defers the first n inputs, which the owner has seen. A later input causes a wakeup: it may end the wait of the instance.
func DeferSeen(n int) Deferral { return Deferral("n" + strconv.Itoa(n)) }

// NotStalled removes the reason that an earlier Reconciliation has recorded.
const NotStalled = "-"

// LeaseState is the state of a lease at a reconciliation.
type LeaseState struct {
	Lease
	Status     LeaseStatus
	Claims     int   // number of claims so far
	Until      int64 // expiry of the claim, Unix ms
	Span       int64 // duration of the last claim or renewal, ms
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
