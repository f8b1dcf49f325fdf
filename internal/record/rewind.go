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
	Execution uint64 // the execution that is replaced
	Keep      uint64 // number of events to keep
	Head      string
	NewHead   string
	From, To  Status
	Leave     []Entry // index entries: see Commit
	Enter     []Entry
	Read      int      // number of inbox elements that the owner has read: a completion after them is a conflict
	Results   []Placed // completions among them that are results of kept activities: one that the store has lost since is a conflict
	Delete    []Lease
	Prepend   [][]byte
	Control   history.Position // position of the request
	Retain    []string         // tickets whose slots are retained after the kept events
	Release   []string         // tickets that were retained before

	Unanswered string // "true" or "false": whether updates are open after the kept events
}

// Placed is an element of an inbox, by its index, from 0, and its id.
type Placed struct {
	Place int
	ID    string
}

// RewindSource is the history of an instance, for a rewind.
type RewindSource struct{ Events, Inbox [][]byte }

// RewoundMark is the prefix of the id of the Rewound element.
const RewoundMark = "!r"
