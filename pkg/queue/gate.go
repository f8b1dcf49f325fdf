package queue

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pawlrun/pawl/pkg/history"
)

// WordKind is what a gate has to tell.
type WordKind uint8

// The kinds of word.
const (
	WordGranted  WordKind = 1 // the member has been let in
	WordTimedOut WordKind = 2 // it has waited too long, and was turned away
	WordCleared  WordKind = 3 // somebody has cleared the queue
	WordLook     WordKind = 4 // the gate wants to be looked at; there is no Member
)

// Word is what a gate tells the owner of a member's instance or, WordLook, what somebody tells
// the owner of the partition that the gate's name falls into. One that is lost is said again by
// the sweep.
type Word struct {
	Kind   WordKind
	Gate   string
	Member string // as package gate writes it
	At     int64  // by the gate's clock, Unix ms: it was so then
}

// SendWords tells the owner of a partition what gates have to say. The error need not be
// handled: the sweep says the same.
func (c *Conn) SendWords(partition int, ws []Word) error {
	return inParts(ws, func(w Word) int { return len(w.Gate) + len(w.Member) + 24 }, func(part []Word) error {
		return c.send(c.subj.word(partition), encodeWords(part))
	})
}

// OnWords calls fn for every word to a partition, in order. A word may be forged: it says
// where to look, not what is so. Kinds that this build does not know are passed on.
func (c *Conn) OnWords(partition int, fn func([]Word)) (*Subscription, error) {
	return subscribe(c.nc, c.subj.word(partition), func(m *nats.Msg) {
		var ws []Word
		if err := decode("word", m.Data, func(w *wire) { list(w, &ws, wireWord) }); err != nil {
			c.ignore(m, err)
			return
		}
		fn(ws)
	})
}

// LevelGlobal is the level of a policy for every action that has none of its own nor of its group.
const LevelGlobal = "global"

// CheckLevel returns an error that is ErrBadName unless the level is LevelGlobal, or action: or
// group: with a name.
func CheckLevel(level string) error {
	kind, name, _ := strings.Cut(level, ":")
	switch {
	case level == LevelGlobal:
		return nil
	case kind == "action", kind == "group":
		if err := CheckName(name); err != nil {
			return fmt.Errorf("level %.*q: %w", maxHeader, level, err)
		}
		return nil
	default:
		return fmt.Errorf("%w: level %.*q, want action:NAME, group:NAME or %s", ErrBadName, maxHeader, level, LevelGlobal)
	}
}

// GateStats is what a gate tells about itself. Times are Unix milliseconds, 0 if there is none.
// What is counted is counted from the gate's first use; an idle gate with a key is forgotten after an hour.
type GateStats struct {
	Gate   string // its name: the action, or action/key
	Action string
	Key    string // value of the key; empty: the action has no key
	// Keys is how many gates the numbers are the sum of; 0: it is one gate.
	Keys int

	Waiting       uint64 // in the queue
	Holding       uint64 // let in, and not yet out
	MaxConcurrent uint64 // by the policy in force; 0: any number
	Oldest        int64  // since when the first of the queue waits
	Entered       uint64 // that ever came, let in or not; those that were rejected are not among them
	Completed     uint64 // were let in, and have left
	Rejected      uint64 // were refused when they came: queue full, or a policy that rejects; counted each time that they asked
	TimedOut      uint64 // waited too long
	Withdrawn     uint64 // left while they waited
	Cleared       uint64 // were turned away by a clear
	LimitedUntil  int64  // nobody is let in before, by rate or quota
	Deadlocked    bool   // every holder has somebody waiting here whom it waits for itself
	Policy        history.Policy
}

// MaxGateRows is how many gates, or waiters, a reply has at the most.
const MaxGateRows = 500

// GateWaiter is who waits at a gate or, with position 0, has been let in.
type GateWaiter struct {
	Position  uint64 // from 1
	Instance  string
	Execution uint64
	Event     uint64 // event id of the activity's schedule; 1: the start of the instance; 0: an activity that keeps its slot from one attempt to the next
	Since     int64  // Unix milliseconds; 0 of a holder
}

// LevelPolicy is a policy that was set at run time.
type LevelPolicy struct {
	Level  string // as CheckLevel wants it
	Policy history.Policy
}

// GateWait is an activity of an instance, or the instance itself, that waits at a gate.
// Times are Unix milliseconds, 0 if there is none.
type GateWait struct {
	Event        uint64         `json:"event"` // event id of the schedule; 1: the start of the instance
	Gate         string         `json:"gate"`
	Action       string         `json:"action"`
	Key          string         `json:"key,omitempty"`
	Position     uint64         `json:"position,omitempty"` // from 1; 0: it does not wait there at the moment
	In           bool           `json:"in,omitempty"`       // it has been let in, and the instance has not heard of that yet
	Length       uint64         `json:"length"`             // of the queue
	Holding      uint64         `json:"holding"`
	Policy       history.Policy `json:"policy,omitzero"`
	Since        int64          `json:"since,omitempty"`
	LimitedUntil int64          `json:"limited_until,omitempty"`
	Deadlocked   bool           `json:"deadlocked,omitempty"`
}
