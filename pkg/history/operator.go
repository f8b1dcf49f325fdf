package history

import (
	"slices"
)

// Verb is the kind of an operator request. The numbers are stored in inboxes.
type Verb uint8

// The kinds of operator requests. Their names are tokens of NATS subjects.
const (
	VerbPause     Verb = 1
	VerbResume    Verb = 2
	VerbTerminate Verb = 3
	VerbRewind    Verb = 4
	VerbRetry     Verb = 5
)

var verbs = [...]string{VerbPause: "pause", VerbResume: "resume", VerbTerminate: "terminate", VerbRewind: "rewind", VerbRetry: "retry"}

// String returns the name.
func (v Verb) String() string {
	if int(v) < len(verbs) && v != 0 {
		return verbs[v]
	}
	return "unknown"
}

// ParseVerb returns the verb with that name; ok is false if there is none.
func ParseVerb(name string) (v Verb, ok bool) {
	i := slices.Index(verbs[:], name)
	if i <= 0 {
		return 0, false
	}
	return Verb(i), true //nolint:gosec // a small index
}

// OperatorRequested is an operator request. It is an input that the owner takes from the inbox, and never part of a history; its
// results are.
type OperatorRequested struct {
	Head
	Verb  Verb
	By    string
	Text  string
	Reply string // subject for the reply; empty: none
	Stop  bool   // pause: also stop the outstanding activities
	Start bool   // retry: from the start
	To    uint64 // rewind: the last event that is kept, with its step
	Of    string // termination by a parent: effect id of the start of the child
}

// Paused begins a pause. It is not a step: the code does not see it.
type Paused struct {
	Head
	By   string
	Text string
	Stop bool // the outstanding activities are stopped: they have no lease until Resumed
}

// Resumed ends a pause. If the pause stopped the outstanding activities, the code reschedules those whose results had not arrived.
type Resumed struct {
	Head
	By       string
	Text     string
	Stopped  bool
	Answered []uint64 // ids of the activities whose results are in the inbox
}

// Rewound follows the events that an execution has kept of the previous one. The code reschedules the outstanding activities, except
// those whose results were put back into the inbox.
type Rewound struct {
	Head
	Execution uint64 // execution that begins
	From      uint64 // execution that is replaced
	By        string
	Text      string
	Answered  []uint64 // ids of the activities whose results are in the inbox
}
