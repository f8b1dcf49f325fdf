package history

import (
	"slices"

	"github.com/pawlrun/pawl/internal/wire"
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
	Head  `msgpack:"-"`
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
	Head `msgpack:"-"`
	By   string
	Text string
	Stop bool // the outstanding activities are stopped: they have no lease until Resumed
}

// Resumed ends a pause. If the pause stopped the outstanding activities, the code reschedules those whose results had not arrived.
type Resumed struct {
	Head     `msgpack:"-"`
	By       string
	Text     string
	Stopped  bool
	Answered []uint64 // ids of the activities whose results are in the inbox
}

// Rewound follows the events that an execution has kept of the previous one. The code reschedules the outstanding activities, except
// those whose results were put back into the inbox.
type Rewound struct {
	Head      `msgpack:"-"`
	Execution uint64 // execution that begins
	From      uint64 // execution that is replaced
	By        string
	Text      string
	Answered  []uint64 // ids of the activities whose results are in the inbox
}

func (e *OperatorRequested) fields(c *wire.Codec) {
	wire.Number(c, &e.Verb)
	c.String(&e.By)
	c.String(&e.Text)
	c.String(&e.Reply)
	c.Bool(&e.Stop)
	c.Bool(&e.Start)
	c.Uint(&e.To)
	c.String(&e.Of)
}

func (e *Paused) fields(c *wire.Codec) {
	c.String(&e.By)
	c.String(&e.Text)
	c.Bool(&e.Stop)
}

func (e *Resumed) fields(c *wire.Codec) {
	c.String(&e.By)
	c.String(&e.Text)
	c.Bool(&e.Stopped)
	wire.List(c, &e.Answered, (*wire.Codec).Uint)
}

func (e *Rewound) fields(c *wire.Codec) {
	c.Uint(&e.Execution)
	c.Uint(&e.From)
	c.String(&e.By)
	c.String(&e.Text)
	wire.List(c, &e.Answered, (*wire.Codec).Uint)
}

// PausedBy returns the event that began the current pause, or nil.
func (s *State) PausedBy() *Paused { return s.paused }

// Execution returns the number of the current execution: of the last Rewound, or of Started.
func (s *State) Execution() uint64 {
	if s.rewound != 0 {
		return s.rewound
	}
	if s.Started == nil {
		return 0
	}
	return s.Started.Execution
}

// Deadline returns the time at which the run times out, Unix ms; 0: never. A rewind restarts the timeout.
func (s *State) Deadline() int64 { return s.deadline }

// stopped reports whether a pause has stopped the outstanding activities.
func (s *State) stopped() bool { return s.paused != nil && s.paused.Stop }

// applyOperator folds the events that record operator requests.
func (s *State) applyOperator(e Event) {
	switch e := e.(type) {
	case *Paused:
		s.paused = e
	case *Resumed:
		if s.paused = nil; e.Stopped {
			s.reschedule(e.Answered)
		}
	case *Rewound:
		if s.paused, s.rewound = nil, e.Execution; s.Started != nil && s.Started.Timeout > 0 { // Check also folds histories whose first event cannot be read
			s.deadline = e.At + s.Started.Timeout
		}
		s.reschedule(e.Answered)
	}
}

// reschedule settles the outstanding activities that the step schedules again.
func (s *State) reschedule(answered []uint64) {
	for _, id := range s.Outstanding() {
		if !slices.Contains(answered, id) {
			s.settle(id, false)
		}
	}
}

// operatorViolation returns the rule about operator requests that the event would break, or "".
func (s *State) operatorViolation(e Event) string {
	switch e := e.(type) {
	case *OperatorRequested:
		return "an operator request must not be in a history"
	case *Paused:
		if s.paused != nil {
			return "pauses a paused instance"
		}
	case *Resumed:
		if s.paused == nil || s.paused.Stop != e.Stopped {
			return "resumes an instance without a matching pause"
		}
	case *Rewound:
		if e.Execution <= s.Execution() {
			return "rewinds to an earlier execution"
		}
	case *Completed, *Failed, *Cancelled, *ContinuedAsNew, *CancelRequested, *ActivityCancelRequested, *ChildCancelRequested:
	default:
		if s.paused != nil {
			return "is not allowed during a pause"
		}
	}
	return ""
}
