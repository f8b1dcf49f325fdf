package core

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// Unread is an unread input of an inbox.
type Unread struct {
	ID string
	Ev history.Event // nil: it does not decode, or is forged; it is removed and counted

	forged bool // neither sealed nor a completion
}

// seq returns the stream sequence of an input; 0: it is not from the stream.
func (u Unread) seq() uint64 {
	s, _, ok := strings.Cut(strings.TrimLeft(u.ID, "!s"), ".")
	if n, err := strconv.ParseUint(s, 10, 64); ok && err == nil {
		return n
	}
	return 0
}

// position returns the position of an input in the stream; zero: it is not from the stream.
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

// overflown reports the mark that ingest.lua pushes to a full inbox when it drops an input.
func (u Unread) overflown() bool { return !u.forged && strings.HasPrefix(u.ID, "full.") }

// Before reports an input that was accepted before the origin of the instance. Events are kept for the instance nevertheless; a
// cancellation or a purge was meant for the previous incarnation, and has outlasted the purge of that one.
func (u Unread) Before(origin history.Position) bool {
	s := u.seq()
	return s != 0 && history.Position{Seq: s, Time: u.Ev.Meta().At * int64(time.Millisecond)}.Before(origin)
}

// obsolete reports an input that is for an instance that no longer exists: no later start can need it.
func (u Unread) obsolete() bool {
	switch ev := u.Ev.(type) {
	case *history.Started, *history.EventReceived, *history.UpdateReceived:
		return false
	case *history.CancelRequested:
		return ev.Of == "" // a parent's cancellation may have overtaken the start that it is for
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

// operator returns the request of an operator, or nil.
func (u Unread) operator() *history.OperatorRequested {
	r, _ := u.Ev.(*history.OperatorRequested)
	return r
}

// ForOwner reports an input that the code does not see.
func (u Unread) ForOwner() bool { return u.Purge() || u.operator() != nil }

// Completes returns the activity that the input completes, by the id of its schedule.
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

// Fits reports whether a completion is for this activity, and not for one with the same event id in another execution:
// the id of the element contains the effect id.
func (u Unread) Fits(e *history.ActivityScheduled) bool {
	return e != nil && strings.HasPrefix(u.ID, "a"+e.Effect+".")
}

// ends reports whether the input completes this activity.
func (u Unread) ends(e *history.ActivityScheduled) bool {
	id, ok := u.Completes()
	return ok && e != nil && id == e.ID && u.Fits(e)
}

// MarshalJSON encodes the input as its inbox element.
func (u Unread) MarshalJSON() ([]byte, error) {
	el := eventcodec.Element{ID: u.ID}
	if u.Ev != nil {
		body, err := eventcodec.Encode(u.Ev)
		if err != nil {
			return nil, err
		}
		el.At, el.Body = u.Ev.Meta().At, body
	}
	return json.Marshal(el) //nolint:musttag // only the build that wrote it reads it
}

// UnmarshalJSON decodes the encoding of MarshalJSON.
func (u *Unread) UnmarshalJSON(b []byte) (err error) {
	var el eventcodec.Element
	if err = json.Unmarshal(b, &el); err != nil { //nolint:musttag // only the build that wrote it reads it; see MarshalJSON
		return err
	}
	if u.ID = el.ID; el.Body != nil {
		u.Ev, err = el.Event()
	}
	return err
}

// DecodeEvents decodes consecutive events, the first of which has the id first.
func DecodeEvents(first uint64, all [][]byte) ([]history.Event, error) {
	var out []history.Event
	for i, b := range all {
		ev, err := eventcodec.Decode(first+uint64(i), b)
		if err != nil {
			return nil, err
		}
		out = append(out, ev)
	}
	return out, nil
}
