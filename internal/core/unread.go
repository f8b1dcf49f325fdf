package core

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/pkg/history"
)

// Unread is an input at the head of the inbox.
type Unread struct {
	ID string
	Ev history.Event // nil: it does not decode, or is forged; it is taken out and counted

	forged bool // it is not sealed, and no completion
}

// seq is the sequence of a stream input, 0 of anything else.
func (u Unread) seq() uint64 {
	s, _, ok := strings.Cut(strings.TrimLeft(u.ID, "!s"), ".")
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// position is the place of an input in the stream; zero for one that the stream does not have.
func (u Unread) position() history.Position {
	_, rest, _ := strings.Cut(u.ID, ".")
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 { // the seal
		rest = rest[:end]
	}
	t, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return history.Position{}
	}
	return history.Position{Seq: u.seq(), Time: t}
}

// overflown reports the mark that ingest.lua leaves where it had to drop an input.
func (u Unread) overflown() bool { return !u.forged && strings.HasPrefix(u.ID, "full.") }

// Before reports an input that came before the origin of the instance. Events that did are kept for it; a cancellation or a
// purge was meant for the previous incarnation, and has stayed behind the purge of that one.
func (u Unread) Before(origin history.Position) bool {
	s := u.seq()
	return s != 0 && history.Position{Seq: s, Time: u.Ev.Meta().At * int64(time.Millisecond)}.Before(origin)
}

// forgotten reports an input that no start to come can want: it is for an instance that is no more.
func (u Unread) forgotten() bool {
	switch ev := u.Ev.(type) {
	case *history.Started, *history.EventReceived, *history.UpdateReceived:
		return false
	case *history.CancelRequested:
		return ev.Of == "" // a parent's may have overtaken the start that it takes back
	case *history.OperatorRequested:
		return ev.Of == ""
	default:
		return true
	}
}

// Purge reports a request to remove the instance.
func (u Unread) Purge() bool {
	_, ok := u.Ev.(*history.PurgeRequested)
	return ok
}

func (u Unread) start() bool {
	_, ok := u.Ev.(*history.Started)
	return ok
}

// operator is the request of an operator, or nil.
func (u Unread) operator() *history.OperatorRequested {
	r, _ := u.Ev.(*history.OperatorRequested)
	return r
}

// ForOwner reports an input that the code does not see.
func (u Unread) ForOwner() bool { return u.Purge() || u.operator() != nil }

// Completes gives the activity that the input is the end of.
func (u Unread) Completes() (id uint64, ok bool) {
	switch ev := u.Ev.(type) {
	case *history.ActivityCompleted:
		return ev.Scheduled, true
	case *history.ActivityFailed:
		return ev.Scheduled, true
	default:
		return 0, false
	}
}

// Fits reports whether a completion is for this very activity, and not for the one of that number in an execution
// before: the id of the element names the effect.
func (u Unread) Fits(e *history.ActivityScheduled) bool {
	return e != nil && strings.HasPrefix(u.ID, "a"+e.Effect+".")
}

// ends reports the completion of an activity.
func (u Unread) ends(e *history.ActivityScheduled) bool {
	id, ok := u.Completes()
	return ok && e != nil && id == e.ID && u.Fits(e)
}

// MarshalJSON writes the element of the inbox.
func (u Unread) MarshalJSON() ([]byte, error) {
	el := history.Element{ID: u.ID}
	if u.Ev != nil {
		body, err := history.Encode(u.Ev)
		if err != nil {
			return nil, err
		}
		el.At, el.Body = u.Ev.Meta().At, body
	}
	return json.Marshal(el) //nolint:musttag // read by the build that has written it
}

// UnmarshalJSON reads what MarshalJSON has written.
func (u *Unread) UnmarshalJSON(b []byte) (err error) {
	var el history.Element
	if err = json.Unmarshal(b, &el); err != nil { //nolint:musttag // likewise
		return err
	}
	if u.ID = el.ID; el.Body != nil {
		u.Ev, err = el.Event()
	}
	return err
}

// DecodeEvents reads events that follow each other, the first with this id.
func DecodeEvents(first uint64, all [][]byte) ([]history.Event, error) {
	var out []history.Event
	for i, b := range all {
		ev, err := history.Decode(first+uint64(i), b)
		if err != nil {
			return nil, err
		}
		out = append(out, ev)
	}
	return out, nil
}
