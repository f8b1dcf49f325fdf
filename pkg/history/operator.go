package history

import (
	"slices"

	"github.com/pawlrun/pawl/internal/wire"
)

// Verb is what an operator requests of an instance. The numbers are in inboxes.
type Verb uint8

// The verbs. Their names are tokens of subjects.
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

// ParseVerb returns the verb of a name; ok is false if there is none.
func ParseVerb(name string) (v Verb, ok bool) {
	i := slices.Index(verbs[:], name)
	if i <= 0 {
		return 0, false
	}
	return Verb(i), true //nolint:gosec // a small index
}

// OperatorRequested is the request of an operator. It is an input that the owner takes from the inbox, and part of no history: what it
// leads to is.
type OperatorRequested struct {
	Head  `msgpack:"-"`
	Verb  Verb
	By    string
	Text  string
	Reply string // subject for the reply; empty: none
	Stop  bool   // of a pause: also what runs is stopped
	Start bool   // of a retry: from the start
	To    uint64 // of a rewind: the last event that is kept, with its step
	Of    string // of a termination by the parent: effect of the start that it is for
}

// Paused begins a pause. It is no step: the code does not see it.
type Paused struct {
	Head `msgpack:"-"`
	By   string
	Text string
	Stop bool // the outstanding activities are stopped: they have no lease until Resumed
}

// Resumed ends a pause. If that has stopped the outstanding activities, the code schedules those anew whose results had not arrived.
type Resumed struct {
	Head     `msgpack:"-"`
	By       string
	Text     string
	Stopped  bool
	Answered []uint64 // ids of the activities whose results are unread
}

// Rewound stands behind the events that an execution has kept of the one before it. The code schedules the outstanding activities
// anew, except those whose results were put back into the inbox.
type Rewound struct {
	Head      `msgpack:"-"`
	Execution uint64 // that begins
	From      uint64 // execution that it replaces
	By        string
	Text      string
	Answered  []uint64 // ids of the activities whose results are unread
}

// Kind returns the number of the type.
func (*OperatorRequested) Kind() Kind { return KindOperatorRequested }

// Kind returns KindPaused.
func (*Paused) Kind() Kind { return KindPaused }

// Kind returns KindResumed.
func (*Resumed) Kind() Kind { return KindResumed }

// Kind returns KindRewound.
func (*Rewound) Kind() Kind { return KindRewound }

// Input reports true.
func (*OperatorRequested) Input() bool { return true }

// Input reports true.
func (*Paused) Input() bool { return true }

// Input reports true.
func (*Resumed) Input() bool { return true }

// Input reports true.
func (*Rewound) Input() bool { return true }

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

// PausedBy returns the event that has begun the present pause, or nil.
func (s *State) PausedBy() *Paused { return s.paused }

// Execution is the number of the current execution: of Started, or of the last Rewound.
func (s *State) Execution() uint64 {
	if s.rewound != 0 {
		return s.rewound
	}
	if s.Started == nil {
		return 0
	}
	return s.Started.Execution
}

// Deadline is when the run times out, Unix ms; 0: never. A rewind begins the timeout anew.
func (s *State) Deadline() int64 { return s.deadline }

// stopped reports whether a pause has stopped the outstanding activities.
func (s *State) stopped() bool { return s.paused != nil && s.paused.Stop }

// applyOperator folds what operators have had done.
func (s *State) applyOperator(e Event) {
	switch e := e.(type) {
	case *Paused:
		s.paused = e
	case *Resumed:
		if s.paused = nil; e.Stopped {
			s.reschedule(e.Answered)
		}
	case *Rewound:
		if s.paused, s.rewound = nil, e.Execution; s.Started != nil && s.Started.Timeout > 0 { // Check folds histories whose first event cannot be read
			s.deadline = e.At + s.Started.Timeout
		}
		s.reschedule(e.Answered)
	}
}

// reschedule settles the outstanding activities that the step schedules anew.
func (s *State) reschedule(answered []uint64) {
	for _, id := range s.Outstanding() {
		if !slices.Contains(answered, id) {
			s.settle(id, false)
		}
	}
}

// operatorViolation returns the rule that the event would break.
func (s *State) operatorViolation(e Event) string {
	switch e := e.(type) {
	case *OperatorRequested:
		return "a request of an operator stands in no history"
	case *Paused:
		if s.paused != nil {
			return "pauses an instance that is paused"
		}
	case *Resumed:
		if s.paused == nil || s.paused.Stop != e.Stopped {
			return "resumes an instance that is not paused so"
		}
	case *Rewound:
		if e.Execution <= s.Execution() {
			return "rewinds to an execution that is not new"
		}
	case *Completed, *Failed, *Cancelled, *ContinuedAsNew, *CancelRequested, *ActivityCancelRequested, *ChildCancelRequested:
	default:
		if s.paused != nil {
			return "stands in a pause"
		}
	}
	return ""
}
