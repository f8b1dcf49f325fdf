package replay

import (
	"fmt"

	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pkg/history"
)

// A limit refuses a decision at the call, and the code continues with the failure. The refusal is recorded
// (history.Refused), so a replay does the same whatever the limits are by then, and independent of the room:
//
//	call ──a limit is passed──▶ Refused ──▶ the code gets its failure
//	  └────────────────────────▶ the decision
//
// Without the record the next call of the same name could meet the event of the decision that followed the refused one.

// MaxRoom is the default room of a step, in bytes.
const MaxRoom = 14 << 20

// decisionBytes bounds the size of a decision in history without its names and payloads, and limitBytes that of its limit.
const (
	decisionBytes = 128
	limitBytes    = 512
)

// SetRoom sets the owner's bound on the size of the decisions of the next step in history, in bytes, so that the commit can
// be written. Decisions that do not fit are refused. The step after it has MaxRoom again.
func (x *record) SetRoom(bytes int) { x.room = bytes }

// refuse returns the failure of a refused decision, nil if it may be made. why is a limit that it exceeds now, besides the
// room of the step; on replay the history decides.
func (x *record) refuse(made history.Event, why *history.Failure) *history.Failure {
	if x.past.active {
		x.collectCancels()
		ev, ok := x.peek().(*history.Refused)
		if !ok || ev.Of != made.Kind() || ev.Name != nameOf(made) {
			return nil
		}
		x.consume()
		return &ev.Failure
	}
	if why == nil {
		why = x.noRoom(made)
	}
	switch {
	case why == nil, x.unwinding:
		return why
	case x.overdrawn():
		x.exceed()
	default:
		x.append(&history.Refused{Of: made.Kind(), Name: nameOf(made), Failure: *why})
	}
	return why
}

// noRoom returns the failure of a decision that does not fit into the step, or nil.
func (x *record) noRoom(made history.Event) *history.Failure {
	size := sizeOf(made)
	if x.opts.Codec.Stores() && size > pawlcodec.StoreAbove { // the objects are in memory until the turn is over
		size = (size + x.stored.bytes) / storedShare
	}
	if size <= x.room {
		return nil
	}
	return &history.Failure{
		Code: history.CodeTurnTooLarge, Also: []string{history.CodeTooLarge}, Permanent: true,
		Message: fmt.Sprintf("%s takes %d bytes, and this turn has room for %d more; wait for a result or a timer before the next call",
			describe(made), size, max(x.room, 0)),
	}
}

// sizeOf is an upper estimate of the size of a decision in history.
func sizeOf(ev history.Event) int {
	n := decisionBytes + len(payloadOf(ev).Data)
	switch ev := ev.(type) {
	case *history.ActivityScheduled:
		n += len(ev.Name) + len(ev.Queue)
		if ev.Limit != nil {
			n += limitBytes
		}
	case *history.ChildScheduled:
		n += len(ev.Name) + len(ev.Instance)
	case *history.EventSent:
		n += len(ev.Name) + len(ev.Instance)
		if s := ev.Start; s != nil {
			n += len(s.Name) + len(s.Payload.Data)
		}
	case *history.Broadcast:
		n += len(ev.Name) + len(ev.Text)
		for _, id := range ev.Instances {
			n += len(id) + 3
		}
	case *history.SideEffectRecorded:
		n += len(ev.Result.Data)
	case *history.UpdateAnswered: // the ledger has it, too
		n += len(ev.Result.Data)
		if f := ev.Failure; f != nil {
			n += len(f.Message) + len(f.Stack) + len(f.Data.Data)
		}
	}
	return n
}
