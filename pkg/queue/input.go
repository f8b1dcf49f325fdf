package queue

import (
	"github.com/pawlrun/pawl/pkg/history"
)

// InputKind is what an input asks for. It is a token of the subject.
type InputKind uint8

// The kinds of input. Numbers from 4 are kept for purge and for what children tell their parents.
const (
	KindStart  InputKind = 1 // start.<orchestration>
	KindEvent  InputKind = 2 // event.<name>
	KindCancel InputKind = 3 // cancel
)

// String is the kind's token in the subject.
func (k InputKind) String() string {
	switch k {
	case KindStart:
		return "start"
	case KindEvent:
		return "event"
	case KindCancel:
		return "cancel"
	default:
		return "unknown"
	}
}

// Headers of an input. All are optional.
const (
	HeaderContentType = "Content-Type" // of the body; absent: application/json
	HeaderID          = "Pawl-Id"      // the message's id: a repeat of it takes no effect
	HeaderReply       = "Pawl-Reply"   // subject for the answer to a start
	HeaderBy          = "Pawl-By"      // who sends, as they name themselves
	HeaderVersion     = "Pawl-Version" // of these conventions; absent: 1
)

// Input is one message of the INPUTS stream.
type Input struct {
	Pos      history.Position
	Instance string
	Kind     InputKind // zero if unknown; then Problem says so
	Name     string    // of the orchestration or the event
	Payload  history.Payload
	ID       string // the sender's id of the message; empty if it gave none
	Reply    string // subject for the answer; empty if none is wanted
	By       string // who sent it: of the header, or of a cancel's body
	Text     string // of a cancel

	// Problem says why the input can not be used: ErrBadInstance, ErrUnknownKind,
	// ErrBadName, ErrTooLarge, ErrMalformed or ErrNewer. Pos is valid all the same,
	// for such an input is read, counted and passed.
	Problem error
}

// OutInput is an input to be published.
type OutInput struct {
	Instance string
	Kind     InputKind
	Name     string          // of the orchestration or the event; empty for a cancel
	Payload  history.Payload // of a start or an event
	ID       string          // makes it safe to publish again; see PublishInput
	Reply    string
	By       string
	Text     string // of a cancel
}
