package record

import "github.com/pawlrun/pawl/pkg/history"

// Rewind replaces the current execution of an instance by one that begins with the first events of its history:
//
//	execution n     stays as it is, ended or not; its leases are deleted
//	execution n+1   events 1 to Keep, copied
//	the inbox       Prepend · what was unread
//	the wakeup      now
type Rewind struct {
	Instance  string
	Execution uint64 // that is replaced
	Keep      uint64
	Head      string
	NewHead   string
	From, To  Status
	Leave     []Entry // of the indexes: see Commit
	Enter     []Entry
	Read      int      // inbox elements that the owner has read: a completion behind them is a conflict
	Results   []Placed // completions among them that are the results of kept activities: one that the store has lost since is a conflict
	Delete    []Lease
	Prepend   [][]byte
	Control   history.Position // of the request
	Retain    []string         // tickets whose slots are retained behind the events that are kept
	Release   []string         // those of before

	Unanswered string // "true" or "false": whether the events that are kept have open updates
}

// Placed is an element of an inbox by its place, from 0, and its id.
type Placed struct {
	Place int
	ID    string
}

// RewindSource is the history of an instance, for a rewind.
type RewindSource struct{ Events, Inbox [][]byte }

// RewoundMark begins the id of the element that a rewind puts in front of the inbox.
const RewoundMark = "!r"
